"""Operators that pick elements by index, by order or by a condition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from ...graph.dims import Dim, same
from ...spelling.expr import DimOf, Expr
from ..facts import cuts, flop_counts
from ..facts.requirements import Between, IndexOf, PlaceIn
from ..helpers import indexing as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView, constant
from ..operands import (
    COMPLEX,
    at_axis,
    axis_of,
    flat_ints,
    front,
    kernel_result,
    kernel_view,
    shown,
    signed,
    size,
)
from ..registry import MANY_TO_MANY, ONE_TO_MANY, OPAQUE, operator
from .reshape import reshaped

LISTED = 8  # indices up to this many are written out


# ---- Gather


def _index(n: NodeView, dim: Dim | None, operand: Any) -> Any:
    """A number, a slice, a short list, or the operand itself."""
    found = n.ints(1)
    if found is None or n.rank(1) > 1:
        return operand
    if n.rank(1) == 0:
        return found[0]
    numbers = flat_ints(found)
    if numbers is None:
        return list(found) if len(found) <= LISTED else operand
    run = _as_slice(numbers, dim)
    if run is not None:
        return run
    return numbers if 0 < len(numbers) <= LISTED else operand


def _as_slice(numbers: Sequence[int], dim: Any) -> slice | None:
    """`start:stop` for consecutive indices that don't cross from -1 to 0."""
    if not numbers or list(numbers) != list(
        range(numbers[0], numbers[0] + len(numbers))
    ):
        return None
    start, stop = numbers[0], numbers[-1] + 1
    if start < 0 < stop:
        return None
    if start >= 0:
        return slice(
            start or None, None if dim is not None and same(dim, stop) else stop
        )
    whole = isinstance(dim, int) and start == -dim
    return slice(None if whole else start, stop or None)


class _Windows(NamedTuple):
    """Places in rows, each a stretch that begins `step` behind the one before."""

    start: int
    rows: int
    size: int
    step: int

    def of(self, x: Any, axis: int, rank: int, dim: Any) -> Any:
        """`x.unfold`, of the part of `x` that these windows end with."""
        stop = self.start + (self.rows - 1) * self.step + self.size
        whole = None if stop + self.step > dim else stop
        if self.start or whole is not None:
            x = at_axis(x, axis, rank, slice(self.start or None, whole))
        x = x.unfold(shown(axis, rank), self.size, self.step)
        return x if axis == rank - 1 else x.movedim(-1, axis + 1)


def _as_windows(n: NodeView, numbers: list[int] | None) -> _Windows | None:
    """What a constant table of places says, as exporters write out an unfold."""
    if not numbers or n.rank(1) != 2 or n.dtype(0) == ir.DataType.STRING:
        return None
    table = np.array(numbers).reshape(n.shapes.dims(n.value(1)))
    start, (rows, size) = int(table[0, 0]), table.shape
    step = int(table[1, 0]) - start if rows > 1 else 0
    begins = start + step * np.arange(rows)[:, None]
    if start < 0 or step < 1 or size < 2 or (table != begins + np.arange(size)).any():
        return None
    return _Windows(start, rows, size, step)


def _counts_from_end(indices: ir.Value) -> bool:
    """Whether indices are computed so that they can be negative, or are in part."""
    node = indices.producer()
    while node is not None and node.op_type in _PASSING and node.inputs[0] is not None:
        indices = node.inputs[0]
        node = indices.producer()
    if indices.const_value is not None:
        return indices.const_value.size > 0 and bool(
            indices.const_value.numpy().min() < 0
        )
    if node is None or node.domain:
        return False
    if node.op_type in ("Neg", "Sub"):
        return True
    bounds = [v.const_value for v in node.inputs[1:2] if v is not None]
    if node.op_type not in ("Add", "Clip", "Max") or not bounds or bounds[0] is None:
        return False
    return bounds[0].size > 0 and bool(bounds[0].numpy().min() < 0)


_PASSING = ("Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def embedding(n: NodeView) -> ModuleForm | None:
    """A constant table of vectors, looked up by indices known at run time."""
    if not n.has(1) or n.attr("axis", 0) != 0 or n.value(0).const_value is None:
        return None
    if n.rank(0) != 2 or not n.is_float(0) or n.ints(1) is not None:
        return None
    if _counts_from_end(n.value(1)):
        return None  # which an nn.Embedding refuses
    rows, width = n.size(0, 0), n.size(0, 1)
    return ModuleForm(
        "nn.Embedding",
        (rows, width),
        {},
        {"weight": Weight(n.value(0))},
        inputs=(n.value(1),),
        outputs=(n.node.outputs[0],),
    )


@operator(
    "Gather",
    since=13,
    mapping=ONE_TO_MANY,
    flops=0,
    carries=(0,),
    requires={1: IndexOf(0, "axis")},
    module=embedding,
)
def _gather(t: Any, n: NodeView, x: Any, indices: Any) -> Any:
    dims, axis = n.shapes.dims(n.value(0)), axis_of(n)
    found = [i for i in n.ints(1) or () if isinstance(i, int)]
    dim = None if dims is None else dims[axis]
    if isinstance(dim, int) and any(not -dim <= i < dim for i in found):
        n.refuse(f"{n.node.op_type} of an index that is out of range: {found[:9]}")
    numbers = flat_ints(n.ints(1)) if n.ints(1) and n.rank(1) > 1 else None
    run = _as_slice(numbers, dim) if numbers else None
    rank = None if dims is None else len(dims)
    windows = _as_windows(n, numbers) if run is None and isinstance(dim, int) else None
    if windows is not None and rank is not None:
        return windows.of(x, axis, rank, dim)
    if run is None:
        return at_axis(x, axis, rank, _index(n, dim, indices))
    # Consecutive indices in several axes: the same elements in another shape.
    src = [*n.dims(0)]
    src[axis] = len(numbers or ())
    return reshaped(at_axis(x, axis, rank, run), tuple(src), n.out_dims())


# ---- GatherElements, GatherND


def index_from_front(n: NodeView, i: int, axis: int, operand: Any) -> Any:
    """An index for torch's gather and scatter: int64, and counted from the front."""
    if n.dtype(i) != ir.DataType.INT64:
        operand = operand.long()
    if is_nonnegative(n, n.value(i)):
        return operand
    return operand % size(n.dims(0)[axis])


_COUNTED = {"ArgMax": 0, "ArgMin": 0, "NonZero": 0, "TopK": 1}
_MOVED = "Cast Expand Flatten Reshape Slice Squeeze Tile Transpose Unsqueeze".split()


def is_nonnegative(n: NodeView, value: ir.Value) -> bool:
    """Whether every element is proven to be 0 or more."""
    while True:
        if value.const_value is not None:
            return bool((value.const_value.numpy() >= 0).all())
        node = value.producer()
        if node is None:
            return False
        if node.op_type in _COUNTED:
            return bool(value.index() == _COUNTED[node.op_type])
        if node.op_type == "Mod":  # of the sign of what it divides by, but for fmod
            view = NodeView(node, n.shapes)
            by = view.ints(1)
            return (
                by is not None
                and not view.attr("fmod", 0)
                and all(e > 0 if isinstance(e, int) else _is_size(n, e) for e in by)
            )
        if node.op_type not in _MOVED or node.inputs[0] is None:
            return False
        value = node.inputs[0]


def only_place(n: NodeView, i: int, axis: int) -> int | None:
    """The place in x[:, place] = y, along an axis, of which input i is the indices."""
    value = n.value(i)
    while (node := value.producer()) is not None and node.op_type in _MOVED:
        assert node.inputs[0] is not None
        value = node.inputs[0]
    found, dims = constant(value, n.shapes), n.dims(0)
    if found is None or len({*found.flat}) != 1 or None in dims:
        return None
    place = int(found.flat[0])
    whole = (*dims[:axis], 1, *dims[axis + 1 :])
    return place if place >= 0 and n.dims(i) == whole else None


def _is_size(n: NodeView, e: Expr) -> bool:
    return isinstance(e, DimOf) and n.shapes.never_negative(e.dim)


def _takes_all_in_order(n: NodeView) -> bool:
    """Whether constant indices name every element once, from the first to the last."""
    places = n.const(1)
    if places is None or not places.size:
        return False
    sizes = flat_ints([size(dim) for dim in n.dims(0)[: places.shape[-1]]])
    if sizes is None or places.size != math.prod(sizes) * len(sizes):
        return False
    columns = np.moveaxis(places % np.array(sizes), -1, 0).reshape(len(sizes), -1)
    return bool(
        (
            np.ravel_multi_index(tuple(columns), tuple(sizes))
            == np.arange(columns.shape[1])
        ).all()
    )


@operator(
    "GatherElements",
    since=13,
    mapping=ONE_TO_MANY,
    cut=cuts.together(),
    flops=0,
    carries=(0,),
    requires={1: IndexOf(0, "axis")},
)
def _gather_elements(t: Any, n: NodeView, x: Any, indices: Any) -> Any:
    axis, rank, dtype = axis_of(n), n.rank(0), n.dtype(0)
    index = index_from_front(n, 1, axis, indices)
    found = kernel_view(t, dtype, x).gather(shown(axis, rank), index)
    return kernel_result(t, dtype, found)


@operator(
    "GatherND",
    since=13,
    mapping=ONE_TO_MANY,
    flops=0,
    carries=(0,),
    requires={1: PlaceIn(0)},
)
def _gather_nd(t: Any, n: NodeView, x: Any, indices: Any) -> Any:
    batch = n.attr("batch_dims", 0)
    if batch:
        return t.helper(helpers.gather_nd)(x, indices, batch)
    if _takes_all_in_order(n):
        return reshaped(x, n.dims(0), n.out_dims())
    if n.dims(1)[-1] == 1:
        return x[indices.squeeze(-1)]
    return x[indices.unbind(-1)]


# ---- NonZero, Compress


@operator("NonZero", since=13, mapping=OPAQUE, onnx_errs=True, flops=0, result="places")
def _nonzero(t: Any, n: NodeView, x: Any) -> Any:
    if n.rank(0) == 0:
        x = x.unsqueeze(0)  # ONNX counts a scalar as a vector of one element
    return kernel_view(t, n.dtype(0), x).nonzero().T


@operator("Compress", since=11, mapping=OPAQUE, flops=0)
def _compress(t: Any, n: NodeView, x: Any, condition: Any) -> Any:
    """The condition may have any rank, and be shorter or longer than the axis."""
    axis, rank, dims = n.attr("axis"), n.rank(0), n.dims(0)
    if n.rank(1) != 1:
        condition = condition.flatten()
    if axis is None:
        x, axis, rank, dims = x.flatten(), 0, 1, (math.prod(dims),)
    axis = front(int(axis), rank)
    room, there = dims[axis], math.prod(n.dims(1))
    if same(room, there):
        return at_axis(x, axis, rank, condition)
    if not (isinstance(room, int) and isinstance(there, int) and there <= room):
        condition = condition[: room if isinstance(room, int) else x.shape[axis]]
    return at_axis(x, axis, rank, condition.nonzero().squeeze(1))


# ---- TopK, Unique


@operator(
    "TopK",
    since=24,
    mapping=MANY_TO_MANY,
    cut=cuts.but_axis(-1),
    flops=flop_counts.per_input(1),
    requires={1: Between(1, 2)},
)
def _top_k(t: Any, n: NodeView, x: Any, k: Any) -> Any:
    axis, rank = axis_of(n, -1), n.shapes.rank(n.value(0))
    found = n.ints(1)
    count: int | Expr = k.item() if found is None else found[0]
    options: dict[str, Any] = {} if axis == (rank or 0) - 1 else {"dim": axis}
    if not n.attr("largest", 1):
        options["largest"] = False
    if not n.used(1) and signed(n.dtype(0)) == n.dtype(0):
        return x.topk(count, **options).values
    made = t.helper(helpers.top_k)(x, count, **options)
    return made if n.used(1) else made[0]


@operator("Unique", since=11, mapping=OPAQUE)
def _unique(t: Any, n: NodeView, x: Any) -> Any:
    text = n.value(0).dtype == ir.DataType.STRING
    if not text and n.dtype(0) in COMPLEX:
        n.refuse("Unique of complex numbers is not supported")
    where = {"dim": n.attr("axis")} if "axis" in n.node.attributes else {}
    in_order = n.attr("sorted", 1)
    if in_order and not text and not any(n.used(j) for j in range(1, n.outputs)):
        return x.unique(**where)
    order = {} if in_order else {"in_order": False}
    helper = t.helper(helpers.unique_strings if text else helpers.unique)
    found = helper(x, *([t.device] if text else []), **where, **order)
    if not any(n.used(j) for j in range(1, n.outputs)):
        return found[0]
    return found if n.outputs == 4 else found[: n.outputs]
