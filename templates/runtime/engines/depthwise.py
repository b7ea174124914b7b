"""Convolutions of each channel by itself, in words that PyTorch has quick kernels for.

With more results than channels, or, on one thread, of one pixel, PyTorch takes a
product of matrices for each channel: more than half of RepViT's time, and of FastViT's.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def by_channels(layer: nn.Conv2d) -> nn.Module:
    """The layer, or what takes its place if it is slow."""
    alone = layer.in_channels == layer.groups > 1 and layer.padding_mode == "zeros"
    spread = layer.out_channels > layer.in_channels
    return Depthwise(layer) if alone and (spread or scales(layer)) else layer


def scales(layer: nn.Conv2d) -> bool:
    """Whether each channel is multiplied by a number."""
    return layer.kernel_size == layer.stride == (1, 1) and layer.padding == (0, 0)


class Depthwise(nn.Module):
    """A convolution of a channel for each result, or a product where that is one."""

    def __init__(self, layer: Any):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layer
        times = layer.out_channels // layer.in_channels
        if times > 1:
            x = x.repeat_interleave(times, dim=-3)
        if not scales(layer):
            moves = layer.stride, layer.padding, layer.dilation
            return F.conv2d(x, layer.weight, layer.bias, *moves, layer.out_channels)
        weight = layer.weight.view(-1, 1, 1)
        if layer.bias is None:
            return x * weight
        return torch.addcmul(layer.bias.view(-1, 1, 1), x, weight)
