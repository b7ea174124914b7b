"""Linear layers on weights that are laid out once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FLOATS = (torch.float32, torch.bfloat16)  # what oneDNN computes in
WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"  # for oneDNN
ROWS = 2 if WIDE else 1  # for which weights are laid out that meet one


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
    """A linear layer on a weight laid out once: for rows as told, or as come first."""

    def __init__(self, layer: Any, rows: int = 0):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias  # for who reads them
        self.laid_out = self.for_rows(rows) if rows else None

    def for_rows(self, rows: int) -> Any:
        if not WIDE and (rows == 1 or self.weight.numel() <= 2**18):
            return transposed(self.weight)
        return torch.ops.mkldnn._reorder_linear_weight(self.weight, rows)

    def forward(self, x: Tensor) -> Tensor:
        if self.laid_out is None:
            self.laid_out = self.for_rows(2 if x.numel() > x.shape[-1] else ROWS)
        if not self.laid_out.is_mkldnn:
            return F.linear(x, self.laid_out, self.bias)
        given: Any = x, self.laid_out, self.bias, "none", [], ""
        return torch.ops.mkldnn._linear_pointwise(*given)


def transposed(weight: Tensor) -> Tensor:
    """The same numbers, in memory by what they multiply: a product reads them so."""
    return weight.t().contiguous().t()


PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {nn.Linear: LaidOutLinear}
