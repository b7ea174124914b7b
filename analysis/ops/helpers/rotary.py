"""Helpers of rotary position embeddings, copied into the emitted module when used."""

from __future__ import annotations

import torch
from torch import Tensor


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., i], x[..., i + half] by the angle of cos and sin."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def apply_interleaved_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair x[..., 2 i], x[..., 2 i + 1] by the angle of cos and sin."""
    turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    return x * cos + turned * sin
