"""Reshape and its relatives: the same row-major elements under another shape."""

from __future__ import annotations

from collections.abc import Callable

from ..kernel.scalars import Scalar
from ..kernel.smt import IndexMap, Integer, both, choose, quotient, remainder
from ..kernel.tensors import Context, Tensor, shape
from .index_maps import RowMajor, numel, row_major, same_shape, shape_of


class Buffer:
    """The scalar at each row-major offset, and tensors that are views of it."""

    def __init__(
        self, read: Callable[[Integer], Scalar], views: tuple[Tensor, ...]
    ) -> None:
        self.read = read
        self.views = views

    def __call__(self, number: Integer) -> Scalar:
        return self.read(number)


def buffer(context: Context, t: Tensor) -> Buffer:
    """The row-major elements of a tensor."""
    if isinstance(t.flat, Buffer):
        return t.flat
    if t.flat is not None:
        return Buffer(t.flat, (t,))
    order = row_major(context, t.rank, t.dim)
    return Buffer(lambda n: t.at(order.index(n)), (t,))


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


def _part(context: Context, t: Tensor, low: Integer, high: Integer) -> RowMajor:
    """The order of the axes low <= k < high alone."""
    return row_major(context, high - low, lambda k: t.dim(k + low))


def merge_range(context: Context, t: Tensor, low: Integer, high: Integer) -> Tensor:
    """The axes low <= k < high as one; an axis of size 1 where there are none."""
    context.require(both(low >= 0, low <= high, high <= t.rank), "the axes of a merge")
    order = _part(context, t, low, high)
    removed = high - low - 1

    def dim(k: Integer) -> Integer:
        rest = choose(k == low, order.numel, t.dim(k + removed))
        return choose(k < low, t.dim(k), rest)

    def at(i: IndexMap) -> Scalar:
        inner = order.index(i(low))

        def source(k: Integer) -> Integer:
            rest = choose(k < high, inner(k - low), i(k - removed))
            return choose(k < low, i(k), rest)

        return t.at(source)

    return Tensor(t.rank - removed, dim, at)


def split_range(
    context: Context, t: Tensor, axis: Integer, rank: Integer, dim: IndexMap
) -> Tensor:
    """One axis as the axes of a shape (rank, dim): the inverse of merge_range."""
    context.require(both(axis >= 0, axis < t.rank, rank >= 0), "the axis of a split")
    order = row_major(context, rank, dim)
    context.require(t.dim(axis) == order.numel, "the sizes of a split")
    added, end = rank - 1, axis + rank

    def sizes(k: Integer) -> Integer:
        rest = choose(k < end, dim(k - axis), t.dim(k - added))
        return choose(k < axis, t.dim(k), rest)

    def at(i: IndexMap) -> Scalar:
        number = order.offset(lambda k: i(k + axis))

        def source(k: Integer) -> Integer:
            rest = choose(k == axis, number, i(k + added))
            return choose(k < axis, i(k), rest)

        return t.at(source)

    return Tensor(t.rank + added, sizes, at)


def flatten(context: Context, t: Tensor, axis: Integer) -> Tensor:
    """A matrix: the axes before `axis` as one, and those from it on."""
    rows = merge_range(context, t, axis, t.rank)
    return merge_range(context, rows, 0, axis)


def _blocks(context: Context, x: Tensor, block: Integer) -> None:
    context.require(both(x.rank == 4, block >= 1), "images and a block size")


def depth_to_space(
    context: Context, x: Tensor, block: Integer, mode: str = "DCR"
) -> Tensor:
    """[n, c*b*b, h, w] to [n, c, h*b, w*b]; in c the block is first (DCR) or last."""
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


def space_to_depth(context: Context, x: Tensor, block: Integer) -> Tensor:
    """[n, c, h*b, w*b] to [n, b*b*c, h, w]."""
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
