"""Helpers of pooling, copied into the emitted module when used."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def max_pool_with_indices(
    x: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...] = (),
    dilation: tuple[int, ...] | int = 1,
    column_major: bool = False,
) -> tuple[Tensor, Tensor]:
    """The maxima over windows, and the place of each in the flattened `x`.

    `padding` holds all beginnings, then all ends. `column_major` counts the places
    within a plane with the first spatial axis running fastest.
    """
    sizes = list(x.shape[2:])
    axes = len(sizes)
    before, behind = padding[:axes] or (0,) * axes, padding[axes:] or (0,) * axes
    around = [p for pair in zip(before[::-1], behind[::-1], strict=True) for p in pair]
    framed = F.pad(x, around, value=float("-inf"))
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[axes - 1]
    y, place = pool(framed, kernel, stride, dilation=dilation, return_indices=True)

    within = torch.zeros_like(place)
    for axis in reversed(range(axes)):
        coordinate = place % framed.shape[2 + axis] - before[axis]
        place = place // framed.shape[2 + axis]
        inner = sizes[:axis] if column_major else sizes[axis + 1 :]
        within = within + coordinate * math.prod(inner)
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device) * math.prod(sizes)
    return y, within + planes.reshape(*x.shape[:2], *[1] * axes)


def average_pool(
    x: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...] = (),
    dilation: tuple[int, ...] = (),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Tensor:
    """The means over windows; `padding` holds all beginnings, then all ends."""
    axes = len(kernel)
    dilation = dilation or (1,) * axes
    inside, overhang = [], []  # as F.pad counts: the last axis first
    for i in reversed(range(axes)):
        size, reach = x.shape[2 + i], (kernel[i] - 1) * dilation[i] + 1
        before, behind = (padding[i], padding[axes + i]) if padding else (0, 0)
        count = (size + before + behind - reach) // stride[i] + 1
        if ceil_mode:
            count = -((size + before + behind - reach) // -stride[i]) + 1
            # A window that would start in the end padding is left out.
            count = min(count, -((size + before) // -stride[i]))
        over = (count - 1) * stride[i] + reach - (size + before + behind)
        inside += [before, behind]
        overhang += [0, max(over, 0)]

    counts = F.pad(torch.ones_like(x), inside, value=float(count_include_pad))
    total, counts = F.pad(F.pad(x, inside), overhang), F.pad(counts, overhang)
    for i in range(axes):
        reach = (kernel[i] - 1) * dilation[i] + 1
        total = total.unfold(2 + i, reach, stride[i])[..., :: dilation[i]]
        counts = counts.unfold(2 + i, reach, stride[i])[..., :: dilation[i]]
    window = tuple(range(-axes, 0))
    return total.sum(dim=window) / counts.sum(dim=window)


def lp_pool(
    x: Tensor,
    p: int,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...] = (),
) -> Tensor:
    """The p-norms over windows, which may have holes."""
    axes = len(kernel)
    dilation = dilation or (1,) * axes
    for i in range(axes):
        reach = (kernel[i] - 1) * dilation[i] + 1
        x = x.unfold(2 + i, reach, stride[i])[..., :: dilation[i]]
    norms: Tensor = torch.linalg.vector_norm(x, ord=p, dim=tuple(range(-axes, 0)))
    return norms
