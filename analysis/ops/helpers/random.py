"""Helpers of random operators, copied into the emitted module when used."""

from __future__ import annotations

import torch
from torch import Tensor


def dropout(
    x: Tensor,
    ratio: Tensor | float,
    training: Tensor | bool = True,
    generator: torch.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """In training, x with a share of zeros and the rest scaled up; and what is kept."""
    if not training:
        return x, torch.ones_like(x, dtype=torch.bool)
    kept = torch.rand(x.shape, generator=generator, device=x.device) >= ratio
    return torch.where(kept, x / (1 - ratio), 0), kept
