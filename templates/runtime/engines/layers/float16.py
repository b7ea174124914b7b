"""Networks in float16."""

from __future__ import annotations

from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..packed import LaidOutLinear

FLOATS = (torch.float16,)  # of the layers here


class LaidOutHalves(nn.Module):
    """A linear layer in float16: one row as it stands, more by oneDNN in float32.

    For one, most CPUs read half the bytes; for more, they lack instructions.
    """

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        bias = None if layer.bias is None else layer.bias.float()
        wide = SimpleNamespace(weight=layer.weight.float(), bias=bias)
        self.product = LaidOutLinear(wide, 2)
        del self.product.weight  # laid out, it isn't read again

    def forward(self, x: Tensor) -> Tensor:
        if x.numel() == x.shape[-1]:
            return F.linear(x, self.weight, self.bias)
        return self.product(x.float()).to(x.dtype)
