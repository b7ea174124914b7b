"""What an operator needs whole of its inputs for a part of its result.

A row is the innermost axis of a tensor. A tile is what a group of fused operators
works on at a time: one or more rows, the channels of one or more pixels, or one or more
channels of an image. A function here gives None where a part of the first input would
be needed for several tiles, and where that is not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from ...graph.dims import Dim, Dims
from ...graph.shape_facts import NodeFacts


class Tile(Enum):
    """What is needed whole of the first input."""

    ROW = "row"
    PIXEL = "pixel"
    CHANNEL = "channel"


@dataclass(frozen=True)
class TileNeeds:
    """`held` are parts of inputs, (position, sizes), to be kept on chip meanwhile."""

    tile: Tile
    held: tuple[tuple[int, Dims], ...]


def _of_first(tile: Tile, dims: Dims, axes: int, times: Dim = 1) -> TileNeeds | None:
    """So many of the innermost axes of the first input."""
    if axes > len(dims):
        return None
    return TileNeeds(tile, ((0, (times, *dims[len(dims) - axes :])),))


def pool(site: NodeFacts, dims: Dims) -> TileNeeds | None:
    """Windows that don't overlap; the rows under one."""
    kernel = list(site.attr("kernel_shape", ()))
    strides = list(site.attr("strides", [1] * len(kernel)))
    if any(d != 1 for d in site.attr("dilations", ())) or len(site.node.outputs) > 1:
        return None
    if not kernel or any(s < k for s, k in zip(strides, kernel, strict=True)):
        return None
    return _of_first(Tile.CHANNEL, dims, 1, math.prod(kernel[:-1]))


def global_pool(site: NodeFacts, dims: Dims) -> TileNeeds | None:
    """One whole channel."""
    return _of_first(Tile.CHANNEL, dims, max(len(dims) - 2, 0))


def normalise(site: NodeFacts, dims: Dims) -> TileNeeds | None:
    """Over the innermost axis alone."""
    last = int(site.attr("axis", -1)) in (-1, len(dims) - 1)
    return _of_first(Tile.ROW, dims, 1) if last else None


def reduce(site: NodeFacts, dims: Dims) -> TileNeeds | None:
    """Over the innermost axis, or all axes of an image."""
    axes = site.axes(1, len(dims))
    if not axes or not site.attr("keepdims", 1):
        return None
    if sorted(axes) == [len(dims) - 1]:
        return _of_first(Tile.ROW, dims, 1)
    if len(dims) > 3 and sorted(axes) == list(range(2, len(dims))):
        return _of_first(Tile.CHANNEL, dims, len(axes))
    return None


def conv(site: NodeFacts, dims: Dims, kernel: Dims) -> TileNeeds | None:
    """1x1: its weights and one row of all channels; depthwise: one whole channel."""
    if len(dims) != len(kernel):
        return None
    if kernel[1] == 1 and site.attr("group", 1) == dims[1]:
        return _of_first(Tile.CHANNEL, dims, len(dims) - 2)
    if any(n != 1 for n in (*kernel[2:], *site.attr("strides", ()))):
        return None
    if any(site.attr("pads", ())):
        return None
    return TileNeeds(Tile.PIXEL, ((1, kernel), (0, (dims[1], dims[-1]))))


def matmul(site: NodeFacts, left: Dims, right: Dims) -> TileNeeds | None:
    """The right operand's matrix and one row of the left one."""
    if not left or len(right) < 2 or site.attr("transA", 0):
        return None
    return TileNeeds(Tile.ROW, ((0, left[-1:]), (1, right[-2:])))
