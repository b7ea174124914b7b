"""Reshape and its relatives: the same row-major elements under another shape.

Two lemmas make that order usable for shapes that are not known to the last number
(tests/support/kernel_lemmas.py proves the integer steps).

ONES. An axis of size 1 adds nothing to a row-major number, as h * 1 + 0 = h. So Squeeze
and Unsqueeze keep the order, and Transpose does where axes of size 1 alone change
places with others.

GROUPS. If the sizes of some successive axes multiply to the size of one axis, those can
be numbered on their own: (u * b + v) is that axis's place. So a Reshape that splits and
joins axes so is a composition of splits and joins.
"""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any
from weakref import WeakKeyDictionary

import z3

from ..kernel.scalars import Scalar
from ..kernel.smt import (
    IndexMap,
    Integer,
    both,
    choose,
    fresh,
    integer,
    proves,
    quotient,
    remainder,
    same,
    term,
    within,
)
from ..kernel.tensors import Context, Tensor, shape
from .index_maps import Buffer, buffer, numel, row_major, same_shape, shape_of
from .movement import squeeze, squeeze_set, transpose, unsqueeze, unsqueeze_set
from .table import means


def reshape(context: Context, t: Tensor, rank: Integer, dim: IndexMap) -> Tensor:
    """The same elements in row-major order; (rank, dim) is the resulting shape."""
    memory = buffer(context, t)
    for view in memory.views:
        if same_shape(context, shape_of(view), (rank, dim)):
            return view
    order = row_major(context, rank, dim)
    sizes = numel(context, t.rank, t.dim) == order.numel
    context.require(sizes, "the number of elements of a reshape")
    result = Tensor(rank, dim, lambda i: memory(order.offset(i)))
    result.flat = Buffer(memory.read, (*memory.views, result))
    return result


def split_axis(
    context: Context, t: Tensor, axis: Integer, a: Integer, b: Integer
) -> Tensor:
    """[.., a*b, ..] as [.., a, b, ..]."""
    context.require(both(t.dim(axis) == a * b, a >= 0, b >= 0), "the split of an axis")

    def dim(k: Integer) -> Integer:
        rest = choose(k == axis, a, choose(k == axis + 1, b, t.dim(k - 1)))
        return choose(k < axis, t.dim(k), rest)

    def at(i: IndexMap) -> Scalar:
        both_axes = i(axis) * b + i(axis + 1)
        return t.at(
            lambda k: choose(k < axis, i(k), choose(k == axis, both_axes, i(k + 1)))
        )

    return Tensor(t.rank + 1, dim, at)


def merge_axes(context: Context, t: Tensor, axis: Integer) -> Tensor:
    """[.., a, b, ..] as [.., a*b, ..]; a is the size at `axis`."""
    context.require(both(axis >= 0, axis + 1 < t.rank), "the axes of a merge")
    b = t.dim(axis + 1)

    def dim(k: Integer) -> Integer:
        rest = choose(k == axis, t.dim(axis) * b, t.dim(k + 1))
        return choose(k < axis, t.dim(k), rest)

    def at(i: IndexMap) -> Scalar:
        high, low = quotient(i(axis), b), remainder(i(axis), b)

        def source(k: Integer) -> Integer:
            rest = choose(k == axis, high, choose(k == axis + 1, low, i(k - 1)))
            return choose(k < axis, i(k), rest)

        return t.at(source)

    return Tensor(t.rank - 1, dim, at)


def _blocks(context: Context, x: Tensor, block: Integer) -> None:
    context.require(both(x.rank == 4, block >= 1), "images and a block size")


@means("DepthToSpace")
def depth_to_space(
    context: Context, x: Tensor, blocksize: Integer, mode: str = "DCR"
) -> Tensor:
    """[n, c*b*b, h, w] to [n, c, h*b, w*b]; the block is first in c (DCR) or last."""
    block = blocksize
    _blocks(context, x, block)
    area = block * block
    depth = quotient(x.dim(1), area)
    context.require(x.dim(1) == depth * area, "channels that are blocks")
    sizes = shape(x.dim(0), depth, x.dim(2) * block, x.dim(3) * block)

    def at(i: IndexMap) -> Scalar:
        within_block = remainder(i(2), block) * block + remainder(i(3), block)
        channel = (
            within_block * depth + i(1) if mode == "DCR" else i(1) * area + within_block
        )
        place = shape(i(0), channel, quotient(i(2), block), quotient(i(3), block))
        return x.at(place)

    return Tensor(4, sizes, at)


@means("SpaceToDepth")
def space_to_depth(context: Context, x: Tensor, blocksize: Integer) -> Tensor:
    """[n, c, h*b, w*b] to [n, b*b*c, h, w]."""
    block = blocksize
    _blocks(context, x, block)
    high, wide = quotient(x.dim(2), block), quotient(x.dim(3), block)
    fits = both(x.dim(2) == high * block, x.dim(3) == wide * block)
    context.require(fits, "sizes that are blocks")
    depth = x.dim(1)

    def at(i: IndexMap) -> Scalar:
        place, channel = quotient(i(1), depth), remainder(i(1), depth)
        row, column = quotient(place, block), remainder(place, block)
        return x.at(shape(i(0), channel, i(2) * block + row, i(3) * block + column))

    return Tensor(4, shape(x.dim(0), depth * block * block, high, wide), at)


# By a squeezed or unsqueezed tensor: what it has the row-major elements of.
_sources: WeakKeyDictionary[Tensor, Tensor] = WeakKeyDictionary()
# The other way round.
_relatives: WeakKeyDictionary[Tensor, list[Tensor]] = WeakKeyDictionary()
# The tensor and the permutation that a transposed tensor was made of.
_transposed: WeakKeyDictionary[Tensor, tuple[Tensor, IndexMap]] = WeakKeyDictionary()


@means("Transpose")
def _transpose(context: Context, x: Tensor, perm: Any) -> Tensor:
    result = transpose(context, x, perm, perm.inverse)
    if x.flat is not None and _moves_ones(context, x, perm):
        return _as_view(context, x, result, known=False)
    _transposed[result] = x, perm
    return result


def _moves_ones(context: Context, x: Tensor, perm: IndexMap) -> bool:
    """Is it certain that axes which aren't of size 1 keep their order?

    Without its axes of size 1 the transposed tensor is x without them then, so by lemma
    ONES both have the same row-major elements.
    """
    j, k = fresh("j"), fresh("k")
    big = both(x.dim(perm(j)) != 1, x.dim(perm(k)) != 1)
    known = both(within(j, x.rank), within(k, x.rank), j < k, big)
    return proves([*context.hypotheses, known], perm(j) < perm(k))


@means("Reshape")
def _reshape(context: Context, x: Tensor, shape: Any) -> Tensor:
    wanted = shape.rank, shape.dim
    for relative in _relatives.get(x, ()):
        if same_shape(context, shape_of(relative), wanted):
            return relative
    result = reshape(context, _viewed(context, x), *wanted)
    grouped = _grouped(context, x, *wanted)
    if grouped is None:
        return result
    grouped.flat = result.flat
    return grouped


@means("Flatten")
def _flatten(context: Context, x: Tensor, axis: Any) -> Tensor:
    """A view as a matrix; of its sizes little is used where the rank is a symbol."""
    axis = integer(axis)
    if isinstance(x.rank, int) and isinstance(axis, int):
        sizes = shape(_product(x.dim, 0, axis), _product(x.dim, axis, x.rank))
    else:
        # Equal shapes give equal numbers: they are named by what they depend on.
        size = z3.simplify(term(x.dim(z3.Int("k:shape"))))
        spelling = " ".join(e.sexpr() for e in (term(x.rank), term(axis), size))
        sizes = shape(z3.Int(f"rows {spelling}"), z3.Int(f"columns {spelling}"))
    context.require(both(axis >= 0, axis <= x.rank), "the axis of Flatten")
    if same_shape(context, shape_of(x), (2, sizes)):
        return x
    grouped = _grouped(context, x, 2, sizes)
    if grouped is not None:
        grouped.flat = _as_view(context, _viewed(context, x), grouped).flat
        return grouped
    plain = Tensor(2, sizes, x.at)
    return _as_view(context, _viewed(context, x), plain, known=False)


def _viewed(context: Context, x: Tensor) -> Tensor:
    """x, as a view of a tensor it has the row-major elements of."""
    if x.flat is None and x in _transposed:
        source, perm = _transposed[x]
        if _moves_ones(context, source, perm):
            return _as_view(context, source, x)
    if x.flat is None and x in _sources:
        return _as_view(context, _sources[x], x)
    return x


@means("Unsqueeze")
def _unsqueeze(context: Context, x: Tensor, axes: Any) -> Tensor:
    return _same_elements(context, x, unsqueeze_set(context, x, axes))


@means("Squeeze")
def _squeeze(context: Context, x: Tensor, axes: Any) -> Tensor:
    return _same_elements(context, x, squeeze_set(context, x, axes))


def _same_elements(context: Context, x: Tensor, result: Tensor) -> Tensor:
    """Lemma ONES."""
    if x.flat is not None:
        return _as_view(context, x, result, known=False)
    source = _sources.get(x, x)
    _sources[result] = source
    if source is not x:
        _relatives.setdefault(source, []).append(result)
    return result


def _as_view(context: Context, x: Tensor, result: Tensor, known: bool = True) -> Tensor:
    """`result` as a view of the row-major elements of x, which it is.

    known: by its own elements too; else they are read by their row-major number.
    """
    memory = buffer(context, x)
    order = row_major(context, result.rank, result.dim)
    context.assume(same(row_major(context, x.rank, x.dim).numel, order.numel))
    at = result.at if known else lambda index: memory(order.offset(index))
    view = Tensor(result.rank, result.dim, at)
    view.flat = Buffer(memory.read, (*memory.views, view))
    return view


def _grouped(
    context: Context, x: Tensor, rank: Integer, dim: IndexMap
) -> Tensor | None:
    """The reshaped tensor as splits and joins of axes; None if it is none."""
    ranks = integer(x.rank), integer(rank)
    if not all(isinstance(n, int) for n in ranks) or ranks[0] == ranks[1]:
        return None
    result, old, axis = x, 0, 0
    while old < ranks[0] and axis < ranks[1]:
        size, wanted = x.dim(old), dim(axis)
        if proves(context.hypotheses, same(size, wanted)):
            old, axis = old + 1, axis + 1
            continue
        split = _factors(context, size, dim, axis, ranks[1])
        joined = 0 if split else _factors(context, wanted, x.dim, old, ranks[0])
        if split:
            for last in reversed(range(axis + 1, axis + split)):
                high, low = _product(dim, axis, last), dim(last)
                result = split_axis(context, result, axis, high, low)
            old, axis = old + 1, axis + split
        elif joined:
            for _ in range(joined - 1):
                result = merge_axes(context, result, axis)
            old, axis = old + joined, axis + 1
        else:
            return None
    # Axes of size 1 at the end come or go by lemma ONES.
    while axis == ranks[1] and old < ranks[0] and _is_one(context, x.dim(old)):
        result, old = squeeze(context, result, axis), old + 1
    while old == ranks[0] and axis < ranks[1] and _is_one(context, dim(axis)):
        result, axis = unsqueeze(context, result, axis), axis + 1
    if (old, axis) != ranks:
        return None
    return Tensor(rank, dim, result.at)


def _is_one(context: Context, size: Integer) -> bool:
    return proves(context.hypotheses, same(size, 1))


def _factors(
    context: Context, size: Integer, dim: IndexMap, axis: int, rank: int
) -> int:
    """How many successive sizes, two or three, multiply to this one; 0 if not."""
    for count in range(2, min(3, rank - axis) + 1):
        product = _product(dim, axis, axis + count)
        if proves(context.hypotheses, same(size, product)):
            return count
    return 0


def _product(dim: IndexMap, low: int, high: int) -> Integer:
    return reduce(mul, (dim(k) for k in range(low, high)), 1)
