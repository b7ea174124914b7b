"""Weights and arithmetic of half the size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

PRECISION = torch.bfloat16  # what weights are held and computed in


class Half(nn.Module):
    """The network with its weights and arithmetic in PRECISION, float32 outside."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model.to(PRECISION)
        self.eval()

    def forward(self, *feeds: Any) -> Any:
        return widened(self.model(*map(halved, feeds)))


def halved(feed: Any) -> Any:
    if isinstance(feed, Tensor):
        return feed.to(PRECISION) if feed.is_floating_point() else feed
    return type(feed)(map(halved, feed))


def widened(results: Any) -> Any:
    if isinstance(results, Tensor):
        return results.float() if results.is_floating_point() else results
    return type(results)(map(widened, results))
