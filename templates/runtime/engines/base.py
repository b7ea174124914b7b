"""What every engines.py has."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

# Read when PyTorch first allocates: what has 2 MB and more is then in pages of 2 MB.
HUGE_PAGES = os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def make_engine(
    name: str, model: nn.Module, device: torch.device
) -> Callable[..., Any]:
    """What a Session calls for `model`; elsewhere than on a CPU, eager or compiled."""
    if name not in ENGINES:
        raise ValueError(f"no engine {name!r}, the engines are {list(ENGINES)}")
    # glibc gives back to the system what is free beyond twice the largest block that it
    # ever got back: after this one 62 MB stay, for a call to find those of the last.
    torch.empty(31 * 2**20, dtype=torch.uint8, device="cpu")
    here = device.type == "cpu" or name == "compile"
    return ENGINES[name if here else "eager"](model)


def compiled(model: nn.Module) -> Callable[..., Any]:
    """PyTorch's compiler, the weights prepared once; torch bounds how often it runs."""
    graphs = any(p.is_cuda for p in model.parameters())
    options: dict[str, Any] = {"freezing": True, "triton.cudagraphs": graphs}
    return torch.compile(model, options=options)


ENGINES: dict[str, Callable[[nn.Module], Callable[..., Any]]] = {
    "eager": lambda model: model,
    "compile": compiled,
}
