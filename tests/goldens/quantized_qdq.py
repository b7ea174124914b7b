"""QuantizedQdq, generated from quantized_qdq.

    image  float32 [batch, 3, 16, 16]  input
    scores float32 [batch, 5]          output

Source     quantized_qdq, opset 20, 47 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 2,674 parameters

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


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = QuantizedConv2d(8, 8, 3, padding=1, per_channel=True)
        self.conv1_round = FakeQuantize(signed=True)
        self.conv2 = QuantizedConv2d(8, 8, 3, padding=1, per_channel=True)
        self.conv2_round = FakeQuantize(signed=True)
        self.round = FakeQuantize(signed=True)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1_round(self.conv1(x))
        return self.round(self.conv2_round(self.conv2(out)) + x)


class QuantizedQdq(nn.Module):
    def __init__(self):
        super().__init__()
        self.round1 = FakeQuantize(signed=True)
        self.stem = QuantizedConv2d(3, 8, 3, padding=1, per_channel=True)
        self.stem_round = FakeQuantize(signed=True)
        self.pool = FakeQuantize(signed=True)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.round2 = FakeQuantize(signed=True)
        self.round3 = FakeQuantize(signed=True)
        self.fc = QuantizedLinear(8, 5, per_channel=True)
        self.fc_round = FakeQuantize(signed=True)

    def forward(self, image: Tensor) -> Tensor:
        x = self.round1(image)  # [batch, 3, 16, 16]
        x = F.max_pool2d(self.stem_round(self.stem(x)), 2)  # [batch, 8, 8, 8]
        x = self.pool(x)
        for block in self.blocks:
            x = block(x)
        mean = x.mean(dim=(2, 3), keepdim=True)  # [batch, 8, 1, 1]
        x = self.round3(self.round2(mean).flatten(1))  # [batch, 8]
        return self.fc_round(self.fc(x))


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> QuantizedQdq:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = QuantizedQdq()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
