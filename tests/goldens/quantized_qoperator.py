"""QuantizedQoperator, generated from quantized_qoperator.

    image  float32 [batch, 3, 16, 16]  input
    scores float32 [batch, 5]          output

Source     quantized_qoperator, opset 20, 13 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 2,655 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 3, 16, 16)),
}
OUTPUTS = {
    "scores": ("float32", ("batch", 5)),
}


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


class Quantize(FakeQuantize):
    """The first half of FakeQuantize: x as integers."""

    def forward(self, x: Tensor) -> Tensor:
        dtype = self.zero_point.dtype
        return quantize_linear(x, self.scale, self.zero_point, dtype)


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


def add_scales(layer: nn.Module, names: tuple[str, ...], signed: bool) -> None:
    """Buffers for a scale and a zero point of each of the tensors named."""
    dtype = torch.int8 if signed else torch.uint8
    for name in names:
        layer.register_buffer(f"{name}_scale", torch.empty(()))
        layer.register_buffer(f"{name}_zero_point", torch.empty((), dtype=dtype))


def requantize(
    y: Tensor, scale: Tensor, zero_point: Tensor, dtype: torch.dtype = torch.uint8
) -> Tensor:
    """Sums of products times their scale, rounded to even and saturated to `dtype`."""
    limits = torch.iinfo(dtype)
    y = (y.float() * scale).round() + zero_point
    return y.clamp(limits.min, limits.max).to(dtype)


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


def dequantize_linear(x: Tensor, scale: Tensor, zero_point: Tensor | int = 0) -> Tensor:
    """(x - zero point) * scale, in float32."""
    return (x.float() - zero_point) * scale


class Dequantize(FakeQuantize):
    """The second half of FakeQuantize: what integers stand for."""

    def forward(self, x: Tensor) -> Tensor:
        return dequantize_linear(x, self.scale, self.zero_point)


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


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = QLinearConv2d(8, 8, 3, padding=1, signed=True)
        self.conv2 = QLinearConv2d(8, 8, 3, padding=1, signed=True)
        self.add = QLinearAdd(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        features = self.conv1(x)
        features = self.conv2(features)
        return self.add(features, x)


class QuantizedQoperator(nn.Module):
    def __init__(self):
        super().__init__()
        self.quantize1 = Quantize(signed=True)
        self.stem = QLinearConv2d(3, 8, 3, padding=1, signed=True)
        self.blocks = nn.Sequential(Block(), Block())
        self.dequantize1 = Dequantize(signed=True)
        self.quantize2 = Quantize(signed=True)
        self.fc = QLinearLinear(8, 5, signed=True)
        self.dequantize2 = Dequantize(signed=True)

    def forward(self, image: Tensor) -> Tensor:
        x = self.quantize1(image)  # [batch, 3, 16, 16]
        x = self.stem(x)  # [batch, 8, 16, 16]
        x = F.max_pool2d(x.float(), 2).to(torch.int8)  # [batch, 8, 8, 8]
        x = self.dequantize1(self.blocks(x)).sum(dim=(2, 3), keepdim=True)
        x = self.fc(self.quantize2(x * 0.052052137).flatten(1))  # [batch, 5]
        return self.dequantize2(x)


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> QuantizedQoperator:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = QuantizedQoperator()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
