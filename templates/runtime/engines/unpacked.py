"""Linear layers whose weights are blocks of few bits."""

from __future__ import annotations

from torch import Tensor, nn

from ..model import PackedLinear, dequantized
from .packed import LaidOutLinear, linear


class UnpackedLinear(nn.Module):
    """Such a layer by oneDNN, on its weight in float32: it is taken out once."""

    def __init__(self, layer: PackedLinear):
        super().__init__()
        parts = layer.weight, layer.scales, layer.zero_points
        full = dequantized(*parts, layer.bits)[:, : layer.in_features]
        bias = None if layer.bias is None else layer.bias.float()
        self.product = LaidOutLinear(linear(full.contiguous(), bias))
        del self.product.weight  # laid out, it isn't read again

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x.float()).to(x.dtype)
