"""Helpers of pooling over regions, copied into the emitted module when used."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def roi_align(
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    size: tuple[int, int],
    scale: float = 1.0,
    samples: int = 0,
    half_pixel: bool = True,
    mode: str = "avg",
) -> Tensor:
    """Mean (or max) of bilinear samples in a grid of `size` bins over each region.

    rois [R, 4] hold x1, y1, x2, y2; batch [R] tells the image. `samples` per bin and
    axis; 0 takes one per pixel. In mode "max", the four weighted neighbours count.
    """

    def taps(start: float, step: float, bins: int, grid: int, length: int) -> Tensor:
        """Places below and above each sample, and their weights: [2, 2, samples]."""
        at = torch.arange(bins * grid, device=x.device, dtype=x.dtype)
        at = start + (at + 0.5) * (step / grid)
        inside = (at >= -1) & (at <= length)
        at = at.clamp(0, length - 1)
        below = at.floor()
        above = (below + 1).clamp(max=length - 1)
        weights = torch.stack([1 - (at - below), at - below]) * inside
        return torch.stack([torch.stack([below, above]), weights])

    boxes = rois * scale - (0.5 if half_pixel else 0.0)
    extent = boxes[:, 2:] - boxes[:, :2]
    if not half_pixel:
        extent = extent.clamp(min=1)
    bins = extent / extent.new_tensor([size[1], size[0]])
    y = x.new_zeros(len(rois), x.shape[1], *size)
    for i, image in enumerate(batch.tolist()):
        (left, top), (step_x, step_y) = boxes[i, :2].tolist(), bins[i].tolist()
        grid = (samples or math.ceil(step_y), samples or math.ceil(step_x))
        if min(grid) <= 0:
            continue
        rows, row_weights = taps(top, step_y, size[0], grid[0], x.shape[2])
        cols, col_weights = taps(left, step_x, size[1], grid[1], x.shape[3])
        near = x[image][:, rows.long()[:, None, :, None], cols.long()[:, None]]
        near = near * row_weights[:, None, :, None] * col_weights[:, None]
        if mode == "max":
            y[i] = F.max_pool2d(near.amax(dim=(1, 2)), grid)
        else:
            y[i] = F.avg_pool2d(near.sum(dim=(1, 2)), grid)
    return y


def max_roi_pool(
    x: Tensor, rois: Tensor, size: tuple[int, int], scale: float = 1.0
) -> Tensor:
    """Maxima in `size` bins over each region; 0 in an empty bin.

    rois [R, 5] hold the image, then x1, y1, x2, y2 with both ends inside.
    """

    def spans(start: int, stop: int, bins: int, length: int) -> list[slice]:
        step = max(stop - start + 1, 1) / bins
        edges = [
            (math.floor(i * step) + start, math.ceil((i + 1) * step) + start)
            for i in range(bins)
        ]
        return [slice(min(max(a, 0), length), min(max(b, 0), length)) for a, b in edges]

    corners = (rois[:, 1:] * scale + 0.5).floor().long().tolist()
    y = x.new_zeros(len(rois), x.shape[1], *size)
    for i, (image, (x1, y1, x2, y2)) in enumerate(
        zip(rois[:, 0].long().tolist(), corners, strict=True)
    ):
        for row, rows in enumerate(spans(y1, y2, size[0], x.shape[2])):
            for col, cols in enumerate(spans(x1, x2, size[1], x.shape[3])):
                part = x[image, :, rows, cols]
                if part.numel():
                    y[i, :, row, col] = part.amax(dim=(1, 2))
    return y


def max_unpool(x: Tensor, indices: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Zeros of the spatial `sizes`; `x` stands at `indices` of the flattened result."""
    y = x.new_zeros(math.prod((*x.shape[:2], *sizes)))
    return y.scatter(0, indices.flatten(), x.flatten()).reshape(*x.shape[:2], *sizes)


def zeros_behind(x: Tensor, shape: Sequence[int]) -> Tensor:
    """x as the first corner of zeros of a larger shape."""
    y = x.new_zeros(shape)
    y[tuple(slice(size) for size in x.shape)] = x
    return y
