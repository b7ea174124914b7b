"""Functions that emitted modules copy when a shape operator is no single expression."""

from __future__ import annotations

import torch
from torch import Tensor


def reshape_copying_zeros(x: Tensor, shape: Tensor) -> Tensor:
    """x in a shape computed at run time; a 0 in it keeps that size of x."""
    sizes = shape.tolist()
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(sizes)])


def unsqueeze_axes(x: Tensor, axes: Tensor) -> Tensor:
    """x with an axis of size 1 at each of `axes`, counted in the result."""
    rank = x.dim() + axes.numel()
    for axis in sorted(axis % rank for axis in axes.tolist()):
        x = x.unsqueeze(axis)
    return x


def depth_to_space(x: Tensor, block: int) -> Tensor:
    """Channels to blocks of pixels, the place in the block outermost (DCR).

    [N, block * block * C, H, W] -> [N, C, H * block, W * block]; F.pixel_shuffle is
    the same with the place in the block innermost.
    """
    n, c, h, w = x.shape
    c = c // (block * block)
    x = x.reshape(n, block, block, c, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(n, c, h * block, w * block)


def space_to_depth(x: Tensor, block: int) -> Tensor:
    """Blocks of pixels to channels, the place in the block outermost.

    [N, C, H * block, W * block] -> [N, block * block * C, H, W]; F.pixel_unshuffle is
    the same with the place in the block innermost.
    """
    n, c, h, w = x.shape
    h, w = h // block, w // block
    x = x.reshape(n, c, h, block, w, block).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(n, block * block * c, h, w)


def reverse_sequence(x: Tensor, lengths: Tensor) -> Tensor:
    """Turn round the first lengths[i] steps of x[i]; the steps after them stay."""
    batch = torch.arange(x.shape[0], device=x.device)[:, None]
    step = torch.arange(x.shape[1], device=x.device)
    length = lengths[:, None]
    return x[batch, torch.where(step < length, length - 1 - step, step)]
