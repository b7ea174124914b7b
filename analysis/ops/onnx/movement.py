"""Operators that permute, repeat, join and split tensors; no element changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ...graph.dims import Dim, at_least, same
from ...graph.parameters import has_name
from ...spelling.expr import DimOf, Expr
from ..facts import cuts, fitting_sizes, sizes_elementwise
from ..facts.requirements import EVERY, Between, Parts
from ..helpers import movement as helpers
from ..node_view import NodeView
from ..operands import (
    at_axis,
    axis_of,
    dim_keyword,
    equal,
    flat_ints,
    kernel_result,
    kernel_view,
)
from ..registry import ONE_TO_MANY, ONE_TO_ONE, SHUFFLE, operator
from .creation import filled

# ---- Transpose


@operator("Transpose", since=25, mapping=SHUFFLE, views=True)
def _transpose(t: Any, n: NodeView, x: Any) -> Any:
    rank = n.rank(0)
    perm = list(n.attr("perm", range(rank)[::-1]))
    moved = [i for i, axis in enumerate(perm) if axis != i]
    dims = n.dims(0)
    order = [axis for axis in perm if dims[axis] != 1]  # ones alone may move
    stays = order == sorted(order) and equal(dims, [dims[axis] for axis in perm])
    if not moved or stays:
        return x
    if rank == 2:
        return x.T
    if len(moved) > 2:
        return x.permute(*perm)
    first, second = moved
    if rank > 3 and second == rank - 1 and first == rank - 2:
        return x.transpose(-2, -1)
    return x.transpose(first, second)


# ---- Expand, Tile


@operator(
    "Expand",
    since=13,
    mapping=ONE_TO_MANY,
    views=True,
    requires={1: Between(1, 2)},
)
def _expand(t: Any, n: NodeView, x: Any, shape: Any) -> Any:
    target = n.ints(1)
    if target is None:
        return x.expand(t.broadcast_shapes(x.shape, shape.tolist()))
    src = n.shapes.dims(n.value(0))
    if src is None:
        return x.expand(t.broadcast_shapes(x.shape, tuple(target)))
    added = max(len(target) - len(src), 0)
    have: list[Dim] = [1] * added + list(src)
    asked: list[int | Expr] = [*[1] * (len(have) - len(target)), *target]
    number = n.const(0)
    if number is not None and number.size == 1 and not has_name(n.value(0)):
        return filled(t, number.reshape(-1)[0], tuple(asked), n.out_dtype())
    sizes: list[int | Expr] = []
    for old, item in zip(have, asked, strict=True):
        new = item.dim if isinstance(item, DimOf) else item
        if new == 1 or same(old, new) or (isinstance(old, int) and old != 1):
            sizes.append(-1)  # as it is
        elif isinstance(new, int) or old == 1 or at_least(new, old):
            sizes.append(item)
        else:  # either may be the 1 that gives way
            return x.expand(t.broadcast_shapes(x.shape, tuple(asked)))
    if not added and all(isinstance(item, int) and item == -1 for item in sizes):
        return x
    sizes[:added] = asked[:added]
    return x.expand(*sizes)


@operator(
    "Tile",
    since=13,
    mapping=ONE_TO_MANY,
    requires={1: Between(1, 4)},
)
def _tile(t: Any, n: NodeView, x: Any, repeats: Any) -> Any:
    times = n.ints(1)
    if times is None:
        return x.repeat(repeats.tolist())
    if all(isinstance(time, int) and time == 1 for time in times):
        return x
    return x.repeat(*times)


# ---- Concat, Split


def _even_pieces(n: NodeView, whole: Dim) -> list[int | Expr] | None:
    """The sizes that `num_outputs` asks for: all equal, the last one what is left."""
    count = n.outputs
    if not isinstance(whole, int):
        return None
    piece = -(-whole // count)
    last = whole - piece * (count - 1)
    if last < 0:
        n.refuse(f"Split can't make {count} even pieces of {whole}")
    return [*[piece] * (count - 1), last]


@operator(
    "Concat",
    since=13,
    mapping=ONE_TO_ONE,
    fresh=True,
    carries=EVERY,
)
def _concat(t: Any, n: NodeView, *parts: Any) -> Any:
    if len(parts) == 1:
        return parts[0]
    return t.cat(list(parts), **dim_keyword(axis_of(n), n.shapes.rank(n.value(0))))


@operator(
    "Split",
    since=18,
    mapping=ONE_TO_ONE,
    requires={1: Parts(0, "axis")},
    views=True,
)
def _split(t: Any, n: NodeView, x: Any, sizes: Any = None) -> Any:
    count = n.outputs
    axis, rank = axis_of(n), n.shapes.rank(n.value(0))
    if count == 1:
        return x
    dim = dim_keyword(axis, rank)
    pieces = n.ints(1) if n.has(1) else _even_pieces(n, n.dims(0)[axis])
    first_only = n.used(0) and not any(n.used(j) for j in range(1, count))
    if pieces is None:
        made = x.split(sizes.tolist(), **dim) if n.has(1) else x.chunk(count, **dim)
        return made[0] if first_only else made
    if first_only:
        return at_axis(x, axis, rank, slice(None, pieces[0]))
    numbers = flat_ints(pieces)
    if numbers is None:
        return x.split(pieces, **dim)
    if numbers[0] and all(a == b for a, b in pairwise(numbers)):
        whole = rank is not None and isinstance(n.dims(0)[axis], int)
        return x.chunk(count, **dim) if whole else x.split(numbers[0], **dim)
    if len(set(numbers[:-1])) == 1 and 0 < numbers[-1] < numbers[0]:
        return x.split(numbers[0], **dim)
    return x.split(numbers, **dim)


# ---- Blocks of pixels, sequences, triangles


def _block(n: NodeView, *parts: tuple[int, int]) -> int:
    """The size of blocks; (axis, power of it) says what it has to divide."""
    block = int(n.attr("blocksize"))
    for axis, power in parts:
        size = n.dims(0)[axis]
        if block < 1 or (isinstance(size, int) and size % block**power):
            n.refuse(f"{n.node.op_type} of {size} elements in blocks of {block}")
    return block


@operator(
    "DepthToSpace",
    since=13,
    fits=fitting_sizes.blocks((1, 2)),
    mapping=SHUFFLE,
)
def _depth_to_space(t: Any, n: NodeView, x: Any) -> Any:
    block = _block(n, (1, 2))
    dtype = n.dtype(0)
    # With a single channel left, the order of rows, columns and channels is the same.
    empty = 0 in n.dims(0)  # PyTorch's own can't take it
    if (n.attr("mode", "DCR") == "CRD" or n.dims(0)[1] == block**2) and not empty:
        moved = t.F.pixel_shuffle(kernel_view(t, dtype, x), block)
        return kernel_result(t, dtype, moved)
    return t.helper(helpers.depth_to_space)(x, block)


@operator(
    "SpaceToDepth",
    since=13,
    fits=fitting_sizes.blocks((2, 1), (3, 1)),
    mapping=SHUFFLE,
)
def _space_to_depth(t: Any, n: NodeView, x: Any) -> Any:
    block = _block(n, (2, 1), (3, 1))
    dtype = n.dtype(0)
    empty = 0 in n.dims(0)  # PyTorch's own can't take it
    if (n.attr("mode", "DCR") == "CRD" or n.dims(0)[1] == 1) and not empty:
        moved = t.F.pixel_unshuffle(kernel_view(t, dtype, x), block)
        return kernel_result(t, dtype, moved)
    return t.helper(helpers.space_to_depth)(x, block)


@operator(
    "ReverseSequence",
    since=10,
    mapping=SHUFFLE,
    shape=sizes_elementwise.like_input,
    requires={1: Between(1, 2)},
)
def _reverse_sequence(t: Any, n: NodeView, x: Any, lengths: Any) -> Any:
    reverse = t.helper(helpers.reverse_sequence)
    if n.attr("time_axis", 0) == 0:
        return reverse(x.transpose(0, 1), lengths).transpose(0, 1)
    return reverse(x, lengths)


@operator(
    "Trilu",
    since=14,
    mapping=ONE_TO_ONE,
    cut=cuts.matrices,
    shape=sizes_elementwise.like_input,
    flops=0,
)
def _trilu(t: Any, n: NodeView, x: Any, k: Any = None) -> Any:
    dtype = n.dtype(0)
    found = n.ints(1) if k is not None else [0]
    diagonal = k.item() if found is None else found[0]
    plain = isinstance(diagonal, int) and diagonal == 0
    args = () if plain else (diagonal,)
    whole = kernel_view(t, dtype, x)
    part = whole.triu(*args) if n.attr("upper", 1) else whole.tril(*args)
    return kernel_result(t, dtype, part)
