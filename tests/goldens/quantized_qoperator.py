"""QuantizedQoperator, generated from quantized_qoperator.

    image  float32 [batch, 3, 16, 16]  input
    scores float32 [batch, 5]          output

Source     quantized_qoperator, opset 20, 13 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 0 proven rules applied 0 times, as report.json lists
Weights    weights.safetensors, 2,630 parameters

Regenerating overwrites this file, which needs PyTorch and safetensors alone.
"""

from __future__ import annotations

from pathlib import Path

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


def requantize(
    y: Tensor, scale: Tensor, zero_point: Tensor, dtype: torch.dtype = torch.uint8
) -> Tensor:
    """Sums of products times their scale, rounded to even and saturated to `dtype`."""
    limits = torch.iinfo(dtype)
    y = (y.float() * scale).round() + zero_point
    return y.clamp(limits.min, limits.max).to(dtype)


def dequantize_linear(x: Tensor, scale: Tensor, zero_point: Tensor | int = 0) -> Tensor:
    """(x - zero point) * scale, in float32."""
    return (x.float() - zero_point) * scale


class MaxPool2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.round = FakeQuantize(signed=True)
        self.register_buffer("weight1", torch.empty((8, 8, 3, 3), dtype=torch.int8))
        self.register_buffer("constant1", torch.empty((8,), dtype=torch.int32))
        self.scale1 = nn.Parameter(torch.empty(()))
        self.register_buffer("scale2", torch.empty(()))
        self.register_buffer("zero_point1", torch.empty((), dtype=torch.int8))
        self.register_buffer("weight2", torch.empty((8, 8, 3, 3), dtype=torch.int8))
        self.register_buffer("constant2", torch.empty((8,), dtype=torch.int32))
        self.scale3 = nn.Parameter(torch.empty(()))
        self.register_buffer("scale4", torch.empty(()))
        self.register_buffer("zero_point2", torch.empty((), dtype=torch.int8))
        self.register_buffer("scale5", torch.empty(()))
        self.register_buffer("zero_point3", torch.empty((), dtype=torch.int8))
        self.register_buffer("weight3", torch.empty((8, 8, 3, 3), dtype=torch.int8))
        self.register_buffer("constant3", torch.empty((8,), dtype=torch.int32))
        self.scale6 = nn.Parameter(torch.empty(()))
        self.register_buffer("scale7", torch.empty(()))
        self.register_buffer("zero_point4", torch.empty((), dtype=torch.int8))
        self.register_buffer("weight4", torch.empty((8, 8, 3, 3), dtype=torch.int8))
        self.register_buffer("constant4", torch.empty((8,), dtype=torch.int32))
        self.scale8 = nn.Parameter(torch.empty(()))
        self.register_buffer("scale9", torch.empty(()))
        self.register_buffer("zero_point5", torch.empty((), dtype=torch.int8))
        self.register_buffer("scale10", torch.empty(()))

    def forward(self, image: Tensor, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        image = F.max_pool2d(image.float(), 2).to(torch.int8)
        u = requantize(
            F.conv2d(
                image.double() - x,
                self.weight1.double(),
                self.constant1.double(),
                padding=1,
            ),
            y * self.scale1 / self.scale2,
            self.zero_point1,
            dtype=torch.int8,
        )
        u = requantize(
            F.conv2d(
                u.double() - self.zero_point1,
                self.weight2.double(),
                self.constant2.double(),
                padding=1,
            ),
            self.scale2 * self.scale3 / self.scale4,
            self.zero_point2,
            dtype=torch.int8,
        )
        x = dequantize_linear(image, y, x)
        u = dequantize_linear(u, self.scale4, self.zero_point2) + x
        u = quantize_linear(u, self.scale5, self.zero_point3, dtype=torch.int8)
        x = requantize(
            F.conv2d(
                u.double() - self.zero_point3,
                self.weight3.double(),
                self.constant3.double(),
                padding=1,
            ),
            self.scale5 * self.scale6 / self.scale7,
            self.zero_point4,
            dtype=torch.int8,
        )
        x = requantize(
            F.conv2d(
                x.double() - self.zero_point4,
                self.weight4.double(),
                self.constant4.double(),
                padding=1,
            ),
            self.scale7 * self.scale8 / self.scale9,
            self.zero_point5,
            dtype=torch.int8,
        )
        u = dequantize_linear(u, self.scale5, self.zero_point3)
        x = dequantize_linear(x, self.scale9, self.zero_point5) + u
        pooled = self.round(x).mean(dim=(2, 3), keepdim=True)
        return quantize_linear(pooled, self.scale10, z, dtype=torch.int8)


class QuantizedQoperator(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = MaxPool2d()
        self.round = FakeQuantize(signed=True)
        self.register_buffer("image_scale", torch.empty(()))
        self.register_buffer("image_zero_point", torch.empty((), dtype=torch.int8))
        self.register_buffer(
            "stem_weight_quantized", torch.empty((8, 3, 3, 3), dtype=torch.int8)
        )
        self.register_buffer(
            "stem_bias_quantized", torch.empty((8,), dtype=torch.int32)
        )
        self.stem_weight_scale = nn.Parameter(torch.empty(()))
        self.register_buffer("scale", torch.empty(()))
        self.register_buffer("zero_point1", torch.empty((), dtype=torch.int8))
        self.register_buffer("zero_point2", torch.empty((), dtype=torch.int8))
        self.register_buffer(
            "scores_quantized_B_turned", torch.empty((8, 5), dtype=torch.int8)
        )
        self.register_buffer("fc_bias_quantized", torch.empty((5,), dtype=torch.int32))

    def forward(self, image: Tensor) -> Tensor:
        image = quantize_linear(
            image, self.image_scale, self.image_zero_point, dtype=torch.int8
        )
        image = requantize(
            F.conv2d(
                image.double() - self.image_zero_point,
                self.stem_weight_quantized.double(),
                self.stem_bias_quantized.double(),
                padding=1,
            ),
            self.image_scale * self.stem_weight_scale / self.scale,
            self.zero_point1,
            dtype=torch.int8,
        )
        x = self.pool(image, self.zero_point1, self.scale, self.zero_point2)
        x = x.flatten(1)  # [batch, 8]
        x = (
            (x.double() - self.zero_point2) @ self.scores_quantized_B_turned.double()
        ).to(torch.int32)
        x = (x + self.fc_bias_quantized).float() * 0.00035136356
        return self.round(x)


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
