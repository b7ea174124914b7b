"""Helpers of convolution and pooling, copied into the emitted module when used."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def pad_same(
    x: Tensor,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    value: float = 0.0,
    lower: bool = False,
) -> Tensor:
    """Pad so that ceil(size / stride) windows fit on each spatial axis.

    An odd element goes to the end, or to the beginning if `lower`.
    """
    pads: list[int] = []
    for size, k, s in zip(x.shape[2:], window, stride, strict=True):
        total = max((-(-size // s) - 1) * s + k - size, 0)
        less, more = total // 2, total - total // 2
        pads = [more, less, *pads] if lower else [less, more, *pads]
    return F.pad(x, pads, value=value)
