"""Helpers of rotary position embeddings, copied into the emitted module when used."""

from __future__ import annotations

import torch
from torch import Tensor


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., i], x[..., i + half] by the angle of cos and sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def apply_half_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., i], x[..., i + half] by its angle, one for both."""
    first, second = x.chunk(2, dim=-1)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.cat(turned, dim=-1)


def apply_interleaved_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., 2 i], x[..., 2 i + 1] by the angle of cos and sin."""
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    return x * cos + turned * sin
