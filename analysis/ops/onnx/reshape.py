"""Operators that give the same elements another shape, in the most readable way.

A shape change is written as what it does (`x.flatten(2)`, `x.unflatten(2, (12, 64))`,
`x.unsqueeze(1)`) where that is proven, else as `x.reshape(...)`. A -1 stands only for
the one size that is not a number: beside another size of zero it can't be solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...graph.dims import Dim, Dims, same
from ...spelling.expr import Expr
from ..facts.requirements import Axes, Between
from ..helpers import movement as helpers
from ..node_view import NodeView
from ..operands import EVERYTHING, equal, flat_ints, front, size, subscript
from ..registry import REORGANIZE, operator

Sizes = Sequence[int | Expr]


def reshaped(x: Any, src: Dims, dst: Dims, asked: Sizes | None = None) -> Any:
    """`x` of shape `src` in the shape `dst`; `asked` is how the graph spells `dst`."""
    if equal(src, dst):
        return x
    start, end = _common(src, dst)
    old, new = src[start : len(src) - end], dst[start : len(dst) - end]
    if _without_ones(old) == _without_ones(new):
        if len(old) == len(_without_ones(old)):
            # Ones that match are kept in `start` and `end`; `old` has none.
            added = [start + i for i, dim in enumerate(new) if dim == 1]
            return unsqueezed(x, added, start + len(new) + end)
        if len(new) == len(_without_ones(new)):
            return _remove_ones(x, start, old, new, end)
    if len(new) == 1 and len(old) > 1:
        return merged(x, start, start + len(old) - 1, len(src))
    sizes = _spelled(dst, asked)
    if len(old) == 1 and len(new) > 1 and len(src) > 1:
        part = _spelled(new, asked and asked[start : len(dst) - end])
        return x.unflatten(start, tuple(part))
    return x.reshape(*sizes) if sizes else x.reshape(())


def merged(x: Any, first: int, last: int, rank: int) -> Any:
    """Axes first..last as one: `x.flatten(1)`, `x.flatten(0, 1)`."""
    if last < rank - 1:
        return x.flatten(first, last)
    return x.flatten(first) if first else x.flatten()


def _common(src: Dims, dst: Dims) -> tuple[int, int]:
    """How many axes are equal at the front, and then at the back."""
    shorter = min(len(src), len(dst))
    start = 0
    while start < shorter and same(src[start], dst[start]):
        start += 1
    end = 0
    while end < shorter - start and same(src[-1 - end], dst[-1 - end]):
        end += 1
    return start, end


def _without_ones(dims: Dims) -> list[Dim]:
    return [dim for dim in dims if dim != 1]


def unsqueezed(x: Any, added: Sequence[int], rank: int) -> Any:
    """New axes at the places `added` of a result of `rank` axes, counted from 0."""
    if len(added) == 1:
        return x.unsqueeze(-1 if rank > 1 and added[0] == rank - 1 else added[0])
    if not added:
        return x
    items = [None if i in added else EVERYTHING for i in range(rank)]
    lead, behind = min(added), rank - 1 - max(added)
    if lead > 2:
        return subscript(x, items)
    # One trailing colon shows where the axes went; more of them are noise.
    return x[tuple(items if behind == 1 else items[: rank - behind])]


def _remove_ones(x: Any, start: int, old: Dims, new: Dims, end: int) -> Any:
    gone = [start + i for i, dim in enumerate(old) if dim == 1]
    rank = start + len(old) + end
    trailing = gone == list(range(rank - len(gone), rank))
    if len(gone) > 1 and trailing and start:
        return x.flatten(gone[0] - 1)
    return squeezed(x, gone, rank)


def squeezed(x: Any, gone: Sequence[int], rank: int) -> Any:
    """Without the axes `gone`, which are 1."""
    axes = [-1 if axis == rank - 1 and rank > 1 else axis for axis in gone]
    return x.squeeze(axes[0]) if len(axes) == 1 else x.squeeze(tuple(axes))


def _spelled(dims: Dims, asked: Sizes | None) -> list[int | Expr]:
    """Sizes to print: numbers, one -1 where it is sure to be solved, or DimOf."""
    sizes = [size(dim) for dim in dims]
    unknown = [i for i, item in enumerate(sizes) if not isinstance(item, int)]
    if any(isinstance(item, int) and item == 0 for item in sizes):
        return sizes
    if len(unknown) == 1:
        sizes[unknown[0]] = -1
        return sizes
    for i in unknown:
        # What the graph says comes first. Its own -1 may be a size that nothing else
        # carries; a zero beside it is an error in ONNX Runtime as well.
        if asked is not None and not isinstance(asked[i], Expr) and asked[i] != 0:
            sizes[i] = asked[i]
    return sizes


# ---- Reshape


_SAME_ORDER: dict[str, Any] = dict(since=25, mapping=REORGANIZE)


@operator("Reshape", requires={1: Between(0, 1)}, **_SAME_ORDER)
def _reshape(t: Any, n: NodeView, x: Any, shape: Any) -> Any:
    target = n.ints(1)
    if target is None:
        if n.attr("allowzero", 0):
            return x.reshape(shape.tolist())
        return t.helper(helpers.reshape_copying_zeros)(x, shape)
    numbers = [e for e in target if isinstance(e, int)]
    if n.shapes.dims(n.value(0)) is None and (0 not in numbers or n.attr("allowzero")):
        return x.reshape(*target)  # whatever rank x has, as after a Squeeze of all ones
    return reshaped(x, n.dims(0), n.out_dims(), target)


# ---- Flatten


@operator("Flatten", **_SAME_ORDER)
def _flatten(t: Any, n: NodeView, x: Any) -> Any:
    rank = n.rank(0)
    axis = front(int(n.attr("axis", 1)), rank)
    if axis == 0:
        return x.unsqueeze(0) if rank == 1 else x.reshape(1, -1)
    if axis == rank:
        return x.unsqueeze(-1) if rank == 1 else x.reshape(-1, 1)
    if rank - axis > 1:
        x = x.flatten(axis)
    return x.flatten(0, axis - 1) if axis > 1 else x


# ---- Squeeze, Unsqueeze


@operator("Squeeze", requires={1: Axes()}, **_SAME_ORDER)
def _squeeze(t: Any, n: NodeView, x: Any, axes: Any = None) -> Any:
    if axes is None:
        known = n.node.outputs[0] in n.shapes.settled
        if not known or len(n.out_dims()) != len(_without_ones(n.dims(0))):
            return x.squeeze()  # a rank that the file declares may be one of several
        gone = [i for i, size in enumerate(n.dims(0)) if size == 1]
        return squeezed(x, gone, n.rank(0)) if gone else x
    listed = flat_ints(n.ints(1))
    if listed is None:
        return x.squeeze(axes.tolist())
    rank = n.rank(0)
    gone = sorted({front(axis, rank) for axis in listed})
    return squeezed(x, gone, rank) if gone else x


@operator("Unsqueeze", requires={1: Axes()}, **_SAME_ORDER)
def _unsqueeze(t: Any, n: NodeView, x: Any, axes: Any) -> Any:
    listed = flat_ints(n.ints(1))
    if listed is None:
        return t.helper(helpers.unsqueeze_axes)(x, axes)
    if len(listed) == 1 and n.shapes.dims(n.value(0)) is None:
        return x.unsqueeze(listed[0])
    rank = n.rank(0) + len(listed)
    return unsqueezed(x, sorted(front(axis, rank) for axis in listed), rank)
