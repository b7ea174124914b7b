"""What every engines.py has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn


def make_engine(
    name: str, model: nn.Module, device: torch.device
) -> Callable[..., Any]:
    """What a Session calls in place of `model`; elsewhere than on a CPU, eager or
    compiled."""
    if name not in ENGINES:
        raise ValueError(f"no engine {name!r}, the engines are {list(ENGINES)}")
    # glibc gives back to the system, which fills it with zeros, what is free beyond
    # twice the largest block that it ever got back. After this one it keeps up to
    # 62 MB, in the whole process, and a call finds the memory of the call before.
    torch.empty(31 * 2**20, dtype=torch.uint8, device="cpu")
    return ENGINES[name if device.type == "cpu" or name == "compile" else "eager"](
        model
    )


def compiled(model: nn.Module) -> Callable[..., Any]:
    """PyTorch's compiler, the weights prepared once; torch bounds how often it runs."""
    graphs = any(p.is_cuda for p in model.parameters())
    options: dict[str, Any] = {"freezing": True, "triton.cudagraphs": graphs}
    return torch.compile(model, options=options)


ENGINES: dict[str, Callable[[nn.Module], Callable[..., Any]]] = {
    "eager": lambda model: model,
    "compile": compiled,
}
