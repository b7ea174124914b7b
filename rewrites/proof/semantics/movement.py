"""Operators that move elements to places that their parameters tell."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ..kernel.scalars import All, FromInt, Ite, Scalar
from ..kernel.smt import (
    IndexMap,
    Integer,
    Truth,
    both,
    choose,
    either,
    implies,
    quotient,
    remainder,
    same,
    within,
)
from ..kernel.tensors import Context, Family, Tensor, shape
from . import concat_split
from .elementwise import Operand, scalar
from .index_maps import Axes, one_axis, require_each, require_inverse, simple
from .table import means


def transpose(context: Context, t: Tensor, p: IndexMap, inverse: IndexMap) -> Tensor:
    """Axis k of the result is axis p(k) of t."""
    if not _declared(context, p, inverse):
        require_inverse(context, t.rank, p, inverse, "a permutation of the axes")
    return Tensor(
        t.rank, lambda k: t.dim(p(k)), lambda i: t.at(lambda k: i(inverse(k)))
    )


def _declared(context: Context, p: IndexMap, inverse: IndexMap) -> bool:
    pairs = context.permutations
    return any((p is a and inverse is b) or (p is b and inverse is a) for a, b in pairs)


@means("Slice")
def slice(
    context: Context, t: Tensor, begin: IndexMap, end: IndexMap, step: IndexMap
) -> Tensor:
    """Every step-th element of begin <= i < end along each axis.

    Begins and ends count from the front and lie inside the axis, begin <= end.
    """

    def inside(k: Integer) -> Truth:
        order = both(begin(k) >= 0, begin(k) <= end(k), end(k) <= t.dim(k))
        return both(order, step(k) >= 1)

    require_each(context, t.rank, begin, inside, "the bounds of a slice")

    def dim(k: Integer) -> Integer:
        return quotient(end(k) - begin(k) + step(k) - 1, step(k))

    return Tensor(t.rank, dim, lambda i: t.at(lambda k: begin(k) + i(k) * step(k)))


def slice_axis(
    context: Context, t: Tensor, axis: Integer, begin: Integer, end: Integer
) -> Tensor:
    """begin <= i < end along one axis."""
    bounds = both(begin >= 0, begin <= end, end <= t.dim(axis))
    context.require(both(within(axis, t.rank), bounds), "the bounds of a slice")
    return Tensor(
        t.rank,
        lambda k: choose(k == axis, end - begin, t.dim(k)),
        lambda i: t.at(lambda k: choose(k == axis, i(k) + begin, i(k))),
    )


def pad(
    context: Context,
    t: Tensor,
    low: IndexMap,
    high: IndexMap,
    value: Operand = 0,
    mode: str = "constant",
) -> Tensor:
    """low(k) and high(k) more elements on the sides of axis k; negative pads cut.

    Modes: constant, edge, reflect (pads below the size), wrap; the last three cut none.
    """
    constant = mode == "constant"

    def fits(k: Integer) -> Truth:
        n, before, after = t.dim(k), low(k), high(k)
        if constant:
            return n + before + after >= 0
        enough = both(before < n, after < n) if mode == "reflect" else n >= 1
        legal = either(both(before == 0, after == 0), enough)
        return both(before >= 0, after >= 0, legal)

    require_each(context, t.rank, low, fits, "pads")

    def at(i: IndexMap) -> Scalar:
        if constant:
            inside = All(t.rank, lambda k: within(i(k) - low(k), t.dim(k)))
            read = t.at(lambda k: i(k) - low(k))
            return Ite(inside, read, scalar(value).at(lambda k: 0))
        return t.at(lambda k: _bent(i(k) - low(k), t.dim(k), mode))

    return Tensor(t.rank, lambda k: t.dim(k) + low(k) + high(k), at)


def _bent(place: Integer, size: Integer, mode: str) -> Integer:
    """A place outside the axis, brought inside."""
    if mode == "wrap":
        return remainder(place, size)
    last = size - 1
    below, above = (0, last) if mode == "edge" else (-place, 2 * last - place)
    return choose(place < 0, below, choose(place > last, above, place))


def concat2(context: Context, axis: Integer, a: Tensor, b: Tensor) -> Tensor:
    """Two tensors, one after the other along an axis."""
    context.require(both(a.rank == b.rank, within(axis, a.rank)), "the ranks of Concat")
    context.require(
        All(a.rank, lambda k: either(k == axis, a.dim(k) == b.dim(k))),
        "the sizes of Concat",
    )
    first = a.dim(axis)

    def at(i: IndexMap) -> Scalar:
        late = b.at(lambda k: choose(k == axis, i(k) - first, i(k)))
        return Ite(i(axis) < first, a.at(i), late)

    def dim(k: Integer) -> Integer:
        return choose(k == axis, first + b.dim(axis), a.dim(k))

    return Tensor(a.rank, dim, at)


def concat(context: Context, axis: Integer, *tensors: Tensor) -> Tensor:
    """A known number of tensors along an axis."""
    result = tensors[0]
    for t in tensors[1:]:
        result = concat2(context, axis, result, t)
    return result


def unsqueeze_set(context: Context, t: Tensor, axes: Axes) -> Tensor:
    """New axes of size 1: a set of axes of the result."""
    rank = t.rank + axes.count
    axes.require(context, rank)
    return Tensor(
        rank,
        lambda k: choose(axes.has(k), 1, t.dim(axes.place(k))),
        lambda i: t.at(lambda k: i(axes.rest(k))),
    )


def unsqueeze(context: Context, t: Tensor, axis: Integer) -> Tensor:
    """One new axis of size 1."""
    return unsqueeze_set(context, t, one_axis(axis))


def squeeze_set(context: Context, t: Tensor, axes: Axes) -> Tensor:
    """Without a set of axes, all of size 1."""
    axes.require(context, t.rank)
    ones = All(t.rank, lambda k: implies(axes.has(k), t.dim(k) == 1))
    context.require(ones, "the sizes of squeezed axes")
    return _without(t, axes)


def squeeze(context: Context, t: Tensor, axis: Integer) -> Tensor:
    """Without one axis, of size 1."""
    context.require(both(within(axis, t.rank), t.dim(axis) == 1), "a squeezed axis")
    return _without(t, one_axis(axis))


def _without(t: Tensor, axes: Axes) -> Tensor:
    return Tensor(
        t.rank - axes.count,
        lambda k: t.dim(axes.rest(k)),
        lambda i: t.at(lambda k: choose(axes.has(k), 0, i(axes.place(k)))),
    )


def expand(context: Context, t: Tensor, rank: Integer, dim: IndexMap) -> Tensor:
    """t broadcast to the shape (rank, dim), which is at least as large everywhere."""
    shift = simple(rank - t.rank)
    context.require(shift >= 0, "the rank of Expand")

    def fits(k: Integer) -> Truth:
        size = t.dim(k - shift)
        return implies(k >= shift, either(size == dim(k), size == 1))

    context.require(All(rank, fits), "the sizes of Expand")
    if t.dim is dim:
        return t

    def at(i: IndexMap) -> Scalar:
        return t.at(lambda k: choose(t.dim(k) == 1, 0, i(k + shift)))

    return Tensor(rank, dim, at)


@means("Tile")
def tile(context: Context, t: Tensor, repeats: IndexMap) -> Tensor:
    """repeats(k) copies side by side along axis k."""
    require_each(context, t.rank, repeats, lambda k: repeats(k) >= 0, "repeats")
    return Tensor(
        t.rank,
        lambda k: t.dim(k) * repeats(k),
        lambda i: t.at(lambda k: remainder(i(k), t.dim(k))),
    )


@means("Expand")
def _expand(context: Context, x: Tensor, shape: Any) -> Tensor:
    return expand(context, x, shape.rank, shape.dim)


@means("Concat")
def _concat(context: Context, *parts: Tensor | Family, axis: Integer) -> Tensor:
    """The parts one after the other; a family's members are one part, joined."""
    tensors = [
        concat_split.concat(context, part, axis) if isinstance(part, Family) else part
        for part in parts
    ]
    return concat(context, axis, *tensors)


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
        slice_axis(context, x, axis, low, high) for low, high in pairwise(starts)
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
    context.require_one(value)
    filling: Any = 0 if value is None else value
    return pad(context, x, low, high, filling, mode)


@means("Shape")
def _shape(context: Context, x: Tensor) -> Tensor:
    """The sizes, as numbers."""
    return Tensor(1, shape(x.rank), lambda index: FromInt(x.dim(index(0))))
