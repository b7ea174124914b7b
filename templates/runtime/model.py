"""Stands for the model.py of a package, which the files beside it build on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

MODEL_SHA256 = ""
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS: dict[str, tuple[str, tuple[int | str | None, ...] | None]] = {
    "x": ("float32", ("n", 3)),
}
OUTPUTS: dict[str, tuple[str, tuple[int | str | None, ...] | None]] = {
    "y": ("float32", ("n", 2)),
}
# Arguments and results of forward that are lists, and what of INPUTS and OUTPUTS is in.
NESTED: dict[str, Any] = {}


class FakeQuantize(nn.Module):
    """Rounds to the numbers that integers of 8 bits stand for."""

    scale: Tensor
    zero_point: Tensor


class QuantizedConv2d(nn.Conv2d):
    """A convolution whose weight is stored in 8 bits."""

    scale: Tensor


class QuantizedLinear(nn.Linear):
    """A linear layer whose weight is stored in 8 bits."""

    scale: Tensor


class DynamicQuantizedConv2d(QuantizedConv2d):
    """One that rounds its input by its range."""


class DynamicQuantizedLinear(QuantizedLinear):
    """One that rounds its input by its range."""


class QLinearConv2d(QuantizedConv2d):
    """One from integers to integers."""


class QLinearLinear(QuantizedLinear):
    """One from integers to integers."""


def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """In 8 bits, with a scale and a zero point."""
    raise NotImplementedError


def requantize(
    y: Tensor, scale: Tensor, zero_point: Tensor, dtype: torch.dtype = torch.uint8
) -> Tensor:
    """Sums of products as integers."""
    raise NotImplementedError


class PackedLinear(nn.Module):
    """A linear layer whose weight is blocks of few bits."""

    in_features: int
    bits: int
    weight: Tensor
    scales: Tensor
    zero_points: Tensor | None
    bias: Tensor | None


def dequantized(
    weight: Tensor, scales: Tensor, zero_points: Tensor | None, bits: int
) -> Tensor:
    """What such a weight stands for."""
    raise NotImplementedError


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> nn.Module:
    """The network; this one has its own weights."""
    with torch.device(device):
        return nn.Linear(3, 2)
