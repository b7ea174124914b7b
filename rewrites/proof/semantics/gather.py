"""Operators that read or write at computed places, and results nothing is known of.

A tensor of whole numbers that tells places is known by its elements: a function of the
index into the whole numbers, one function for each name. An element is the same whole
number wherever the name and the index are the same, so its sign can decide from which
side it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import z3

from ..kernel.scalars import All, Const, Element, FromInt, Op, Opaque, Scalar
from ..kernel.smt import (
    INT,
    IndexMap,
    Integer,
    both,
    choose,
    fresh,
    implies,
    integer,
    proves,
    term,
    within,
)
from ..kernel.tensors import Context, Tensor
from .elementwise import scalar
from .index_maps import require_everywhere, require_inverse
from .table import means


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
    last = indices.rank - 1
    kept = last - indices.dim(last)  # as in GatherND

    def same(k: Integer) -> Any:
        size = choose(k < last, indices.dim(k), data.dim(k - kept))
        return updates.dim(k) == size

    def inside(i: IndexMap) -> Any:
        size = data.dim(i(last))
        return within(from_front(whole(indices.at(i)), size), size)

    ranks = both(last >= 0, kept >= last - data.rank, updates.rank == data.rank + kept)
    context.require(ranks, "the ranks of ScatterND")
    context.require(All(updates.rank, same), "the sizes of ScatterND")
    require_everywhere(context, indices.rank, indices.dim, inside, "indices")
    return opaque("scatter_nd", data.rank, data.dim, (data, indices, updates))


def scatter_rows(
    context: Context, data: Tensor, updates: Tensor, row: IndexMap, place: IndexMap
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


def integer_element(name: str, place: Sequence[Integer]) -> Any:
    """The element of a named tensor of whole numbers, of no axes or more."""
    f = z3.Function(f"element:{name}", *[INT] * len(place), INT)
    return f(*map(term, place))


def whole(x: Scalar) -> Integer:
    """A scalar as the whole number it is; ValueError if it isn't known as one."""
    if isinstance(x, FromInt):
        return x.value
    if isinstance(x, Const) and x.value.denominator == 1:
        return int(x.value)
    if isinstance(x, Op) and x.name in _ARITHMETIC:
        return _ARITHMETIC[x.name](*map(whole, x.args))
    if not isinstance(x, Element) or x.member is not None:
        raise ValueError(f"{x!r} is no element of a tensor of whole numbers")
    if isinstance(x.rank, int):
        return integer_element(x.tensor, [x.index(k) for k in range(x.rank)])
    k = z3.Int("k:place")
    inside = z3.simplify(term(x.index(k)))
    f = z3.Function(f"elements:{x.tensor}", z3.ArraySort(INT, INT), INT)
    return f(z3.Lambda([k], z3.If(within(k, x.rank), inside, 0)))


_ARITHMETIC: dict[str, Callable[..., Integer]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
}


def from_front(n: Integer, size: Integer) -> Integer:
    """A place that counts from the end where it is negative."""
    return choose(integer(n) < 0, n + size, n)


@means("Gather")
def _gather(context: Context, x: Tensor, indices: Tensor, axis: Integer) -> Tensor:
    def place(index: IndexMap) -> Integer:
        return from_front(whole(indices.at(index)), x.dim(axis))

    return gather_index(context, x, axis, indices.rank, indices.dim, place)


@means("ScatterND")
def _scatter_nd(
    context: Context, data: Tensor, indices: Tensor, updates: Tensor
) -> Tensor:
    """Known where every row of the data is written once, row k by update k.

    The law has to say so: nothing is taken for granted here.
    """
    if _is_column(indices) and _numbers_rows(context, data, indices):
        return scatter_rows(context, data, updates, integer, integer)
    return scatter_nd(context, data, indices, updates)


def _is_column(indices: Tensor) -> bool:
    rank = integer(indices.rank)
    return isinstance(rank, int) and rank == 2 and _is(indices.dim(1), 1)


def _is(x: Integer, number: int) -> bool:
    return isinstance(integer(x), int) and integer(x) == number


def _numbers_rows(context: Context, data: Tensor, indices: Tensor) -> bool:
    """Whether the law requires that the indices be 0, 1, .. for all rows."""

    def row(k: Any) -> Integer:
        return whole(indices.at(lambda axis: k if _is(axis, 0) else 0))

    k = fresh("row")
    in_order = implies(within(k, indices.dim(0)), row(k) == k)
    complete = indices.dim(0) == data.dim(0)
    return all(proves(context.hypotheses, goal) for goal in (complete, in_order))
