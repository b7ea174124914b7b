"""Functions and layers of quantised networks, copied into the emitted module."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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
    some = x if x.numel() else x.new_zeros(1)  # nothing has no range
    low, high = some.amin().clamp(max=0), some.amax().clamp(min=0)
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


class Quantize(FakeQuantize):
    """The first half of FakeQuantize: x as integers."""

    def forward(self, x: Tensor) -> Tensor:
        dtype = self.zero_point.dtype
        return quantize_linear(x, self.scale, self.zero_point, dtype)


class Dequantize(FakeQuantize):
    """The second half of FakeQuantize: what integers stand for."""

    def forward(self, x: Tensor) -> Tensor:
        return dequantize_linear(x, self.scale, self.zero_point)


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
        weight = self.weight * self.scale[:, None, None, None]
        y: Tensor = self._conv_forward(x, weight, self.bias)
        return y


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


class DynamicQuantizedConv2d(QuantizedConv2d):
    """QuantizedConv2d that rounds x, too, by its range, so that sums are exact."""

    def forward(self, x: Tensor) -> Tensor:
        x, scale, zero_point = dynamic_quantize_linear(x)
        x = x.double() - zero_point
        y: Tensor = self._conv_forward(x, self.weight.double(), None)
        y = y.float() * (scale * self.scale[:, None, None])
        return y if self.bias is None else y + self.bias[:, None, None]


class DynamicQuantizedConv1d(nn.Conv1d):
    """nn.Conv1d of integers: of its weight, and of x, which it rounds by its range."""

    weight: Tensor
    scale: Tensor

    def __init__(self, *sizes: Any, per_channel: bool = False, **options: Any):
        super().__init__(*sizes, **options)
        shape = self.weight.shape
        del self.weight
        self.register_buffer("weight", torch.empty(shape, dtype=torch.int8))
        self.register_buffer("scale", torch.empty(shape[0] if per_channel else 1))

    def forward(self, x: Tensor) -> Tensor:
        x, scale, zero_point = dynamic_quantize_linear(x)
        x = x.double() - zero_point
        y: Tensor = self._conv_forward(x, self.weight.double(), None)
        y = y.float() * (scale * self.scale[:, None])
        return y if self.bias is None else y + self.bias[:, None]


class DynamicQuantizedLinear(QuantizedLinear):
    """QuantizedLinear that rounds x, too, by its range, so that sums are exact."""

    def forward(self, x: Tensor) -> Tensor:
        x, scale, zero_point = dynamic_quantize_linear(x)
        y = F.linear(x.double() - zero_point, self.weight.double())
        y = y.float() * (scale * self.scale)
        return y if self.bias is None else y + self.bias


def add_scales(layer: nn.Module, names: tuple[str, ...], signed: bool) -> None:
    """Buffers for a scale and a zero point of each of the tensors named."""
    dtype = torch.int8 if signed else torch.uint8
    for name in names:
        layer.register_buffer(f"{name}_scale", torch.empty(()))
        layer.register_buffer(f"{name}_zero_point", torch.empty((), dtype=dtype))


class QLinearConv2d(QuantizedConv2d):
    """QuantizedConv2d from integers to integers, each with a scale and a zero point."""

    input_scale: Tensor
    input_zero_point: Tensor
    output_scale: Tensor
    output_zero_point: Tensor

    def __init__(self, *sizes: Any, signed: bool = False, **options: Any):
        super().__init__(*sizes, **options)
        add_scales(self, ("input", "output"), signed)
        if self.bias is not None:
            del self.bias
            self.register_buffer("bias", torch.empty(sizes[1], dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.double()
        x = x.double() - self.input_zero_point
        y = self._conv_forward(x, self.weight.double(), bias)
        scale = self.input_scale * self.scale[:, None, None] / self.output_scale
        dtype = self.output_zero_point.dtype
        return requantize(y, scale, self.output_zero_point, dtype)


class QLinearLinear(QuantizedLinear):
    """QuantizedLinear from integers to integers, each with a scale and a zero point."""

    input_scale: Tensor
    input_zero_point: Tensor
    output_scale: Tensor
    output_zero_point: Tensor

    def __init__(self, *sizes: Any, signed: bool = False, **options: Any):
        super().__init__(*sizes, **options)
        add_scales(self, ("input", "output"), signed)
        if self.bias is not None:
            del self.bias
            self.register_buffer("bias", torch.empty(sizes[1], dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.double()
        x = x.double() - self.input_zero_point
        y = F.linear(x, self.weight.double(), bias)
        scale = self.input_scale * self.scale / self.output_scale
        dtype = self.output_zero_point.dtype
        return requantize(y, scale, self.output_zero_point, dtype)


def saturated(y: Tensor, dtype: torch.dtype) -> Tensor:
    """y rounded to even, as the nearest integers that `dtype` has."""
    limits = torch.iinfo(dtype)
    return y.round().clamp(limits.min, limits.max).to(dtype)


def qlinear_add(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero_point: Tensor,
) -> Tensor:
    """The sum of what integers stand for, as integers of another scale.

    Rounded to float32 where ONNX Runtime does: after each multiplication and addition.
    """
    x_scale, y_scale = x_scale / scale, y_scale / scale
    shift = zero_point - (x_scale * x_zero + y_scale * y_zero)
    total = (y.double() * y_scale + shift).float()
    total = (x.double() * x_scale + total).float()
    return saturated(total, zero_point.dtype)


def qlinear_mul(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero: Tensor,
    scale: Tensor,
    zero_point: Tensor,
) -> Tensor:
    """The product of what integers stand for, as integers of another scale."""
    product = (x.float() - x_zero) * (y.float() - y_zero)
    return saturated(
        product * (x_scale * y_scale / scale) + zero_point, zero_point.dtype
    )


class QLinearAdd(nn.Module):
    """The sum of integers, each side with a scale and a zero point, as integers."""

    input_scale: Tensor
    input_zero_point: Tensor
    other_scale: Tensor
    other_zero_point: Tensor
    output_scale: Tensor
    output_zero_point: Tensor

    def __init__(self, signed: bool = False):
        super().__init__()
        add_scales(self, ("input", "other", "output"), signed)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return qlinear_add(
            x,
            self.input_scale,
            self.input_zero_point,
            y,
            self.other_scale,
            self.other_zero_point,
            self.output_scale,
            self.output_zero_point,
        )


class QLinearMul(QLinearAdd):
    """The product of integers, each side with a scale and a zero point, as integers."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return qlinear_mul(
            x,
            self.input_scale,
            self.input_zero_point,
            y,
            self.other_scale,
            self.other_zero_point,
            self.output_scale,
            self.output_zero_point,
        )
