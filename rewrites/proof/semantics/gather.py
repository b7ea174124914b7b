"""Operators that read at computed places, and results nothing is known of."""

from __future__ import annotations

from collections.abc import Callable

from ..kernel.scalars import All, FromInt, Op, Opaque, Scalar
from ..kernel.smt import IndexMap, Integer, Truth, both, choose, quotient, within
from ..kernel.tensors import Context, Tensor
from .elementwise import Operand, scalar
from .index_maps import one_axis, require_each, require_everywhere, require_inverse


def index_map(
    context: Context,
    t: Tensor,
    rank: Integer,
    dim: IndexMap,
    source: Callable[[IndexMap], IndexMap],
) -> Tensor:
    """The tensor that reads t at source(index); the source must lie inside t."""

    def inside(index: IndexMap) -> Truth:
        place = source(index)
        return All(t.rank, lambda k: within(place(k), t.dim(k))).formula()

    require_everywhere(context, rank, dim, inside, "reading inside the tensor")
    return Tensor(rank, dim, lambda i: t.at(source(i)))


def gather(
    context: Context, t: Tensor, axis: Integer, indices: IndexMap, count: Integer
) -> Tensor:
    """The slices t[indices(j)] along an axis, j < count; indices count from 0."""
    context.require(within(axis, t.rank), "the axis of Gather")
    size = t.dim(axis)
    require_each(context, count, indices, lambda j: within(indices(j), size), "indices")
    return Tensor(
        t.rank,
        lambda k: choose(k == axis, count, t.dim(k)),
        lambda i: t.at(lambda k: choose(k == axis, indices(i(k)), i(k))),
    )


def gather_index(
    context: Context,
    t: Tensor,
    axis: Integer,
    rank: Integer,
    dim: IndexMap,
    indices: Callable[[IndexMap], Integer],
) -> Tensor:
    """Gather by an index tensor of shape (rank, dim), given as integers per index."""
    context.require(within(axis, t.rank), "the axis of Gather")
    size = t.dim(axis)
    require_everywhere(
        context, rank, dim, lambda j: within(indices(j), size), "indices"
    )
    added, end = rank - 1, axis + rank

    def sizes(k: Integer) -> Integer:
        rest = choose(k < end, dim(k - axis), t.dim(k - added))
        return choose(k < axis, t.dim(k), rest)

    def at(i: IndexMap) -> Scalar:
        found = indices(lambda k: i(k + axis))

        def source(k: Integer) -> Integer:
            rest = choose(k == axis, found, i(k + added))
            return choose(k < axis, i(k), rest)

        return t.at(source)

    return Tensor(t.rank + added, sizes, at)


def resize_nearest(context: Context, t: Tensor, scale: IndexMap) -> Tensor:
    """Every element scale(k) times along axis k: Resize, asymmetric, floor."""
    require_each(context, t.rank, scale, lambda k: scale(k) >= 1, "whole scales")
    return Tensor(
        t.rank,
        lambda k: t.dim(k) * scale(k),
        lambda i: t.at(lambda k: quotient(i(k), scale(k))),
    )


def one_hot(
    context: Context,
    indices: Tensor,
    depth: Integer,
    axis: Integer,
    off: Operand,
    on: Operand,
) -> Tensor:
    """`on` where the new axis counts to the index, which may count from the end."""
    context.require(both(within(axis, indices.rank + 1), depth >= 0), "OneHot")
    new = one_axis(axis)

    def at(i: IndexMap) -> Scalar:
        wanted = indices.at(lambda k: i(new.rest(k)))
        place = i(axis)
        hits = [Op("equal", wanted, FromInt(n)) for n in (place, place - depth)]
        values = [scalar(x).at(lambda k: 0) for x in (on, off)]
        return Op("where", Op("or", *hits), *values)

    return Tensor(
        indices.rank + 1,
        lambda k: choose(k == axis, depth, indices.dim(new.place(k))),
        at,
    )


def opaque(
    name: str,
    rank: Integer,
    dim: IndexMap,
    tensors: tuple[Tensor, ...],
    place: Callable[[IndexMap], IndexMap] = lambda index: index,
    places: Integer | None = None,
) -> Tensor:
    """A result nothing is known of but its shape and what it was computed from.

    It is read at place(index), an index with `places` axes (by default the index).
    """
    count = rank if places is None else places
    return Tensor(rank, dim, lambda i: Opaque(name, tensors, place(i), count))


def number(n: Integer) -> Tensor:
    """A whole number as a tensor, so that an opaque result can depend on it."""
    return scalar(FromInt(n))


def scatter_nd(
    context: Context, data: Tensor, indices: Tensor, updates: Tensor
) -> Tensor:
    """Some elements of the data replaced: known to depend on the operands alone."""
    return opaque("scatter_nd", data.rank, data.dim, (data, indices, updates))


def scatter_rows(
    context: Context,
    data: Tensor,
    updates: Tensor,
    row: IndexMap,
    place: IndexMap,
) -> Tensor:
    """ScatterND that overwrites every row: update j goes to row(j), a permutation."""
    context.require(both(data.rank == updates.rank, data.rank >= 1), "ScatterND")
    same_sizes = All(data.rank, lambda k: data.dim(k) == updates.dim(k))
    context.require(same_sizes, "the sizes of ScatterND")
    size = data.dim(0)
    require_inverse(context, size, row, place, "rows that are each written once")
    return Tensor(
        data.rank,
        data.dim,
        lambda i: updates.at(lambda k: choose(k == 0, place(i(k)), i(k))),
    )
