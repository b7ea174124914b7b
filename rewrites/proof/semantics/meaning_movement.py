"""Meanings of operators that move elements, but for reshapes (meaning_reshape.py)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..kernel.scalars import FromInt
from ..kernel.smt import IndexMap, Integer, same
from ..kernel.tensors import Context, Family, Tensor, shape
from . import (  # noqa: F401  they register meanings
    concat_split,
    elementwise,
    meaning_gather,
    meaning_reshape,
    movement,
)
from .table import means


@means("Expand")
def _expand(context: Context, x: Tensor, shape: Any) -> Tensor:
    return movement.expand(context, x, shape.rank, shape.dim)


@means("Tile")
def _tile(context: Context, x: Tensor, repeats: IndexMap) -> Tensor:
    return movement.tile(context, x, repeats)


@means("Slice")
def _slice(
    context: Context, x: Tensor, begin: IndexMap, end: IndexMap, step: IndexMap
) -> Tensor:
    return movement.slice(context, x, begin, end, step)


@means("Concat")
def _concat(context: Context, *parts: Tensor | Family, axis: Integer) -> Tensor:
    """The parts one after the other; a family's members are one part, joined."""
    tensors = [
        concat_split.concat(context, part, axis) if isinstance(part, Family) else part
        for part in parts
    ]
    return movement.concat(context, axis, *tensors)


@means("Split")
def _split(
    context: Context, x: Tensor, axis: Integer, sizes: IndexMap, count: int = 1
) -> tuple[Tensor, ...]:
    """Slices of these sizes along the axis, which add up to the whole."""
    starts: list[Integer] = [0]
    for j in range(count):
        starts.append(starts[-1] + sizes(j))
    context.require(same(starts[-1], x.dim(axis)), "the sizes of Split")
    return tuple(
        movement.slice_axis(context, x, axis, low, high)
        for low, high in pairwise(starts)
    )


@means("Pad")
def _pad(
    context: Context,
    x: Tensor,
    value: Tensor | None,
    low: IndexMap,
    high: IndexMap,
    mode: str,
) -> Tensor:
    filling: Any = 0 if value is None else value
    return movement.pad(context, x, low, high, filling, mode)


@means("Trilu")
def _trilu(context: Context, x: Tensor, k: Integer, upper: Integer) -> Tensor:
    """`upper` is literally 0 or 1: the two are different functions."""
    return elementwise.trilu(context, x, k, bool(upper))


@means("Shape")
def _shape(context: Context, x: Tensor) -> Tensor:
    """The sizes, as numbers."""
    return Tensor(1, shape(x.rank), lambda index: FromInt(x.dim(index(0))))
