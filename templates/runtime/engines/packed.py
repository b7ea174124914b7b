"""Linear layers by oneDNN."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

FLOATS = (torch.float32, torch.bfloat16)  # what oneDNN computes in
# For which weights are laid out that meet one: the quickest, by the instructions.
ROWS = 2 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 1


def packed(model: nn.Module) -> nn.Module:
    """The model, with other layers on the same parameters."""
    network = on_same_parameters(model)
    pack(network)
    return network


def on_same_parameters(model: nn.Module) -> nn.Module:
    """A copy of the model, whose parameters are the model's own."""
    shared = {id(w): w for w in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


def pack(network: nn.Module) -> None:
    """Put other layers in the place of a network's."""
    for layer in list(network.modules()):
        for name, child in layer.named_children():
            made = PACKED.get(type(child))
            if made and all(w.dtype in FLOATS for w in child.parameters()):
                setattr(layer, name, made(child))


class LaidOutLinear(nn.Module):
    """A linear layer by oneDNN, on a copy of its weight that is laid out once.

    For so many rows, or, if none are told, for one or more as the first call has.
    """

    def __init__(self, layer: Any, rows: int = 0):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias  # for who reads them
        self.laid_out = self.for_rows(rows) if rows else None

    def for_rows(self, rows: int) -> Tensor:
        laid_out: Tensor = torch.ops.mkldnn._reorder_linear_weight(self.weight, rows)
        return laid_out

    def forward(self, x: Tensor) -> Tensor:
        if self.laid_out is None:
            self.laid_out = self.for_rows(2 if x.numel() > x.shape[-1] else ROWS)
        return torch.ops.mkldnn._linear_pointwise(
            x, self.laid_out, self.bias, "none", [], ""
        )


PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {nn.Linear: LaidOutLinear}
