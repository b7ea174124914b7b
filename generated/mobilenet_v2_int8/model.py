"""MobilenetV2Int8, generated from mobilenet_v2_int8.onnx.

    image  float32 [batch, 3, 224, 224]  input
    logits float32 [batch, 1000]         output

Source     mobilenet_v2_int8.onnx, opset 20, 300 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: 1 proven rule applied 1 times, as report.json lists
Weights    weights.safetensors, 3,486,999 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "50188e514d722c5281983f74bcd5501759f0dc122344b4922fb6544f5be47540"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "image": ("float32", ("batch", 3, 224, 224)),
}
OUTPUTS = {
    "logits": ("float32", ("batch", 1000)),
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


class Conv2dNormActivation(nn.Module):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        groups: int = 1,
        stride: int = 1,
    ):
        super().__init__()
        self.layers = QuantizedConv2d(
            in_channels,
            out_channels,
            kernel_size,
            stride=stride,
            padding=kernel_size // 2,
            groups=groups,
        )
        self.round = FakeQuantize(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.round(self.layers(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = QuantizedLinear(1280, 1000, bias=False)
        self.round = FakeQuantize(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.round(self.layers(x))


class FirstFeature(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ModuleList(
            [Conv2dNormActivation(32, 32, 3, groups=32), QuantizedConv2d(32, 16, 1)]
        )
        self.conv_round = FakeQuantize(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv[0](x)
        return self.conv_round(self.conv[1](x))


class Feature(nn.Module):
    def __init__(self, in_channels: int, width: int, out_channels: int, stride: int):
        super().__init__()
        self.conv = nn.ModuleList(
            [
                Conv2dNormActivation(in_channels, width, 1),
                Conv2dNormActivation(width, width, 3, groups=width, stride=stride),
                QuantizedConv2d(width, out_channels, 1),
            ]
        )
        self.conv_round = FakeQuantize(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv[0](x)
        x = self.conv[1](x)
        return self.conv_round(self.conv[2](x))


class Conv(nn.Module):
    def __init__(self, in_channels: int, width: int):
        super().__init__()
        self.layers = nn.ModuleList(
            [
                Conv2dNormActivation(in_channels, width, 1),
                Conv2dNormActivation(width, width, 3, groups=width),
                QuantizedConv2d(width, in_channels, 1),
            ]
        )
        self.round = FakeQuantize(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        x = self.layers[1](x)
        return self.round(self.layers[2](x))


class InvertedResidual(nn.Module):
    def __init__(self, in_channels: int):
        super().__init__()
        self.conv = Conv(in_channels, 6 * in_channels)
        self.round = FakeQuantize(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.round(x + self.conv(x))


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.round1 = FakeQuantize(signed=True)
        self.features = nn.Sequential(
            Conv2dNormActivation(3, 32, 3, stride=2),
            FirstFeature(),
            Feature(16, 96, 24, stride=2),
            InvertedResidual(24),
            Feature(24, 144, 32, stride=2),
            InvertedResidual(32),
            InvertedResidual(32),
            Feature(32, 192, 64, stride=2),
            *(InvertedResidual(64) for _ in range(3)),
            Feature(64, 384, 96, stride=1),
            InvertedResidual(96),
            InvertedResidual(96),
            Feature(96, 576, 160, stride=2),
            InvertedResidual(160),
            InvertedResidual(160),
            Feature(160, 960, 320, stride=1),
            Conv2dNormActivation(320, 1280, 1),
        )
        self.round2 = FakeQuantize(signed=True)
        self.classifier = Classifier()

    def forward(self, image: Tensor) -> Tensor:
        mean = self.features(self.round1(image)).mean(dim=(2, 3))  # [batch, 1280]
        return self.classifier(self.round2(mean))


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> MobileNetV2:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = MobileNetV2()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
