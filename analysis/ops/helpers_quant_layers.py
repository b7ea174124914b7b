"""Layers of quantised networks, copied into the emitted module when used."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class FakeQuantize(nn.Module):
    """Rounds to the numbers that 8 bits stand for: (integer - zero_point) * scale."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, signed: bool = False):
        super().__init__()
        dtype = torch.int8 if signed else torch.uint8
        self.register_buffer("scale", torch.empty(()))
        self.register_buffer("zero_point", torch.empty((), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        limits = torch.iinfo(self.zero_point.dtype)
        x = (x / self.scale).round() + self.zero_point
        return (x.clamp(limits.min, limits.max) - self.zero_point) * self.scale


class QuantizedConv2d(nn.Conv2d):
    """nn.Conv2d whose weight is integers times a scale, or one for each filter."""

    weight: Tensor
    scale: Tensor

    def __init__(self, *sizes: Any, per_channel: bool = False, **options: Any):
        super().__init__(*sizes, **options)
        shape = self.weight.shape
        del self.weight
        self.register_buffer("weight", torch.empty(shape, dtype=torch.int8))
        self.register_buffer("scale", torch.empty(shape[0] if per_channel else 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(
            x,
            self.weight * self.scale[:, None, None, None],
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )


class QuantizedLinear(nn.Linear):
    """nn.Linear whose weight is integers times a scale, or one for each output."""

    weight: Tensor
    scale: Tensor

    def __init__(self, *sizes: Any, per_channel: bool = False, **options: Any):
        super().__init__(*sizes, **options)
        shape = self.weight.shape
        del self.weight
        self.register_buffer("weight", torch.empty(shape, dtype=torch.int8))
        self.register_buffer("scale", torch.empty(shape[0] if per_channel else 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.scale[:, None], self.bias)
