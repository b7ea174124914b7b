"""Linear layers by oneDNN."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

FLOATS = (torch.float32, torch.bfloat16)  # what oneDNN computes in


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


class LaidOutLinear(nn.Module):
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


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """The layer of these, that nothing trains."""
    layer = nn.Linear(1, 1, bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, False)
    return layer


PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {nn.Linear: LaidOutLinear}
