"""Helpers of quantised arithmetic, copied into the emitted module when used."""

from __future__ import annotations

import torch
from torch import Tensor


def quantize_linear(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor | int = 0,
    dtype: torch.dtype = torch.uint8,
    bits: int = 0,
) -> Tensor:
    """x / scale rounded to even, plus the zero point, saturated to `dtype`.

    `bits` says how many it takes up of a wider `dtype`.
    """
    limits = torch.iinfo(dtype)
    unused = limits.bits - bits if bits else 0
    y = (x / scale).float().round() + zero_point
    return y.clamp(limits.min >> unused, limits.max >> unused).to(dtype)


def dequantize_linear(x: Tensor, scale: Tensor, zero_point: Tensor | int = 0) -> Tensor:
    """(x - zero point) * scale, in float32."""
    return (x.float() - zero_point) * scale


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x in 8 bits, and the scale and zero point that make the most of its range."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = torch.where(low == high, 1, (high - low) / 255)
    zero_point = (-low / scale).clamp(0, 255).round()
    y = ((x / scale).round() + zero_point).clamp(0, 255)
    return y.to(torch.uint8), scale, zero_point.to(torch.uint8)


def requantize(
    y: Tensor, scale: Tensor, zero_point: Tensor, dtype: torch.dtype = torch.uint8
) -> Tensor:
    """Sums of products times their scale, rounded to even and saturated to `dtype`."""
    limits = torch.iinfo(dtype)
    y = (y.float() * scale).round() + zero_point
    return y.clamp(limits.min, limits.max).to(dtype)
