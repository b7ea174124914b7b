"""Engines: ways to run model.py's network on a CPU, for Session(engine=...).

eager    the network as it stands, call by call
packed   the same, linear layers by oneDNN, their weights laid out once

There are no others: a trace does not launch kernels.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

FLOATS = (torch.float32, torch.bfloat16)  # what oneDNN computes in


def make_engine(
    name: str, model: nn.Module, device: torch.device
) -> Callable[..., Any]:
    """What a Session calls in place of `model`; elsewhere than on a CPU, eager."""
    if name not in ENGINES:
        raise ValueError(f"no engine {name!r}, the engines are {list(ENGINES)}")
    # glibc gives back to the system, which fills it with zeros, what is free beyond
    # twice the largest block that it ever got back. After this one it keeps up to
    # 62 MB, in the whole process, and a call finds the memory of the call before.
    torch.empty(31 * 2**20, dtype=torch.uint8, device="cpu")
    return ENGINES[name if device.type == "cpu" else "eager"](model)


def packed(model: nn.Module) -> nn.Module:
    """The model, with other layers on the same parameters."""
    shared = {id(w): w for w in (*model.parameters(), *model.buffers())}
    network = copy.deepcopy(model, shared)
    for layer in list(network.modules()):
        for name, child in layer.named_children():
            made = PACKED.get(type(child))
            if made and all(w.dtype in FLOATS for w in child.parameters()):
                setattr(layer, name, made(child))
    return network.eval()


class PackedLinear(nn.Module):
    """A linear layer by oneDNN, on a copy of its weight that is laid out once."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias  # for who reads them
        # For two rows: what oneDNN lays out for one, it reads at half the speed.
        self.laid_out = torch.ops.mkldnn._reorder_linear_weight(layer.weight, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(
            x, self.laid_out, self.bias, "none", [], ""
        )


PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {nn.Linear: PackedLinear}

ENGINES = {"eager": lambda model: model, "packed": packed}
