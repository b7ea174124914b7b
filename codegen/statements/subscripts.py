"""Indices and sizes that exporters compute, as what they stand for.

TorchScript writes `mask[batch, position]` as a column of all elements and places in it,
and a size that is added to positions as an element of a shape. PyTorch's other exporter
joins a table of places, which are all that there are: `mask[:, None, None, :]`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.ops.operands import equal
from ...analysis.spelling.expr import (
    Attribute,
    Call,
    DeviceOf,
    DimOf,
    Expr,
    Name,
    Ref,
    Subscript,
    callee,
    joined,
)
from ..ir.assignment import Assignment
from .combine import Flow, axis_of, does, size_of, without


def spell_picks(
    steps: list[Assignment], shapes: ShapeFacts, results: set[ir.Value]
) -> list[Assignment]:
    """The same steps, without those that nothing reads any more."""
    flow = Flow(steps)
    picks = _Picks(flow, shapes)
    changed: list[Assignment] = []
    alone: set[ir.Value | None] = set()  # sizes that one step reads
    for step in steps:
        if _filled(step, shapes, alone):
            alone.update(out for out in step.outputs if out and flow.uses[out] == 1)
            changed.append(step)
        elif picks.spelled(step) or picks.counted(step):
            changed.append(step)
    return _without_unread(steps, flow.uses, results, changed)


def _without_unread(
    steps: list[Assignment],
    counts: Counter[ir.Value],
    results: set[ir.Value],
    changed: list[Assignment],
) -> list[Assignment]:
    gone, reads = [], set(results)
    for step in reversed(steps):
        made = [out for out in step.outputs if out is not None]
        if any(counts[out] for out in made) and reads.isdisjoint(made):
            gone.append(step)
        else:
            reads.update(step.reads())
    kept = [step for step in changed if step not in gone]
    return without(steps, dict.fromkeys(gone[::-1], kept[0])) if kept else steps


def _filled(step: Assignment, shapes: ShapeFacts, alone: set[ir.Value | None]) -> bool:
    """A tensor that holds one size, wherever its elements come from.

    What only changes the shape of such a tensor does so still if others read it too.
    """
    (value,) = step.outputs if len(step.outputs) == 1 else (None,)
    if value is None or value.dtype != ir.DataType.INT64 or step.form is not None:
        return False
    content = shapes.content(value)
    if content is None or not content.size:
        return False
    if does(step, "Unsqueeze", "Reshape") and alone.isdisjoint(step.reads()):
        return False
    first, *others = content.flat
    if isinstance(first, int) or any(other != first for other in others):
        return False
    if not _is_given(first, shapes):
        return False
    device = {"device": DeviceOf()}
    if content.ndim:
        step.expr = Name("torch.full")(content.shape, DimOf(first), **device)
    else:
        step.expr = Name("torch.tensor")(DimOf(first), **device)
    return True


def _is_given(size: Dim, shapes: ShapeFacts) -> bool:
    """Whether a size is one of the graph's inputs', which any function can be told."""
    symbols = set() if isinstance(size, int) else size.free_symbols
    anchors = map(shapes.anchor, symbols)
    return all(found and found[0].is_graph_input() for found in anchors)


class _Picks:
    """Elements of a tensor by their places in it as a column."""

    def __init__(self, flow: Flow, shapes: ShapeFacts) -> None:
        self.before, self.makers, self.shapes = flow.maker, flow.makers, shapes

    def spelled(self, step: Assignment) -> bool:
        """x.reshape(-1, 1)[places].squeeze(-1)"""
        if not does(step, "Squeeze", "Reshape") or len(step.reads()) != 1:
            return False
        pick = self.before(step.reads()[0], "Gather")
        if pick is None or pick.form is not None or len(pick.reads()) != 2:
            return False
        column, places = pick.reads()
        flat = self.before(column, "Flatten", "Reshape")
        wide, found = self.shapes.dims(column) or (), self.shapes.dims(places)
        (made,) = step.outputs
        told = self.shapes.dims(made) if made is not None else None
        if flat is None or len(wide) != 2 or size_of(wide, 1) != 1 or found is None:
            return False
        if told is None or not equal(told, found) or len(flat.reads()) != 1:
            return False
        (x,) = flat.reads()
        step.expr = self.picked(x, places)
        return True

    def counted(self, step: Assignment) -> bool:
        """x[rows, columns], which places hold as columns; a slice where each counts
        along an axis of its own, in the order of x's axes."""
        match step.expr:
            case Subscript(
                (Ref() as of, Call((Attribute((Ref() as by,), "unbind"), *_)))
            ):
                x, places = of.value, by.value
            case _:
                return False
        dims, rank = self.shapes.dims(x) or (), len(self.shapes.dims(places) or ())
        join = self.makers.get(places)
        columns = (
            [x.value for x in joined(join.expr) if isinstance(x, Ref)] if join else []
        )
        if join is None or not columns or axis_of(join, rank) != rank - 1:
            return False
        parts = [self.column(value) for value in columns]
        if len(parts) != len(join.reads()) or any(part is None for part in parts):
            return False
        items = self.slices(columns, dims, rank) or parts
        step.expr = Ref(x)[tuple(items)]
        return True

    def column(self, value: ir.Value) -> Expr | None:
        """One column of a table, without the axis that it has for that."""
        dims, step = self.shapes.dims(value) or (0,), self.makers.get(value)
        if dims[-1] != 1:
            return None
        if step is not None and does(step, "Unsqueeze") and step.reads():
            source = step.reads()[0]  # not the node's, which may be an alias of it
            inner = self.shapes.dims(source)
            if inner is not None and equal((*inner, 1), dims):
                return Ref(source)
        return Ref(value).squeeze(-1)

    def slices(
        self, columns: Sequence[ir.Value], dims: Dims, rank: int
    ) -> list[object]:
        """The item for each axis, if columns are counts along their own; else none."""
        items: list[object] = [None] * (rank - 1)
        last = -1
        if len(columns) != len(dims):
            return []
        for column, size in zip(columns, dims, strict=True):
            found = self.count(column)
            at = -1 if found is None else found[0] + rank
            if found is None or not last < at < rank - 1:
                return []
            if not _is_given(found[1], self.shapes):
                return []
            stop = None if equal((found[1],), (size,)) else found[1]
            shown = stop if stop is None or isinstance(stop, int) else DimOf(stop)
            items[at], last = slice(None, shown), at
        return items

    def count(self, value: ir.Value) -> tuple[int, Dim] | None:
        """The axis, from behind, along which a value is 0, 1, 2 ... and how far."""
        dims = self.shapes.dims(value)
        step = self.makers.get(value)
        node = step.node if step is not None else None
        if dims is None:
            return None
        wide = [i for i, dim in enumerate(dims) if dim != 1]
        if value.const_value is not None:
            array = value.const_value.numpy().reshape(-1)
            plain = len(wide) == 1 and np.array_equal(array, np.arange(array.size))
            return (wide[0] - len(dims), array.size) if plain else None
        if step is None or node is None or step.form is not None or not node.inputs:
            return None
        source = node.inputs[0]
        if source is None:
            return None
        if callee(step.expr) == ".expand":
            return self.count(source)
        if len(wide) == 1:
            axis = self.counts(value, dims[wide[0]])
            return None if axis is None else (axis, dims[wide[0]])
        inner = self.shapes.dims(source)
        if does(step, "Unsqueeze") and inner is not None and (*inner, 1) == tuple(dims):
            found = self.count(source)
            return None if found is None else (found[0] - 1, found[1])
        return None

    def picked(self, x: ir.Value, places: ir.Value) -> Expr:
        dims = self.shapes.dims(x) or ()
        rows = self.rows(dims, places) if len(dims) == 2 else None
        if rows is not None:
            return Ref(x)[rows]
        if len(dims) == 2 and dims[0] == 1:
            return Ref(x)[0, Ref(places)]
        return Ref(x).flatten()[Ref(places)] if len(dims) != 1 else Ref(x)[Ref(places)]

    def rows(
        self, dims: tuple[object, ...], places: ir.Value
    ) -> tuple[object, ...] | None:
        """How x itself is indexed if all of its rows are, each at all of its places."""
        total = self.before(places, "Add")
        for columns, first in _orders(total):
            product = self.before(first, "Mul")
            for row, width in _orders(product):
                content = self.shapes.content(width)
                wide = content is not None and content.size == 1
                if not wide or content.flat[0] != dims[1]:  # type: ignore[union-attr]
                    continue
                axes = [self.counts(row, dims[0]), self.counts(columns, dims[1])]
                rank = len(self.shapes.dims(places) or ())
                a, b = (None if axis is None else axis + rank for axis in axes)
                if a is not None and b is not None and a < b:
                    return tuple(
                        slice(None) if i in (a, b) else None for i in range(rank)
                    )
        return None

    def counts(self, value: ir.Value, size: object) -> int | None:
        """The axis, from behind, along which a value is 0, 1, 2 ... up to a size."""
        dims = self.shapes.dims(value) or ()
        wide = [i for i, d in enumerate(dims) if d != 1]
        if len(wide) != 1 or dims[wide[0]] != size:
            return None
        step = self.makers.get(value)
        while step is not None and does(step, "Unsqueeze", "Reshape"):
            step = self.makers.get(step.reads()[0])
        node = step.node if step is not None and does(step, "Range") else None
        if node is None:
            return None
        start, _, delta = (self.shapes.content(v) for v in node.inputs if v is not None)
        plain = start is not None and delta is not None
        if not plain or (start.item(), delta.item()) != (0, 1):  # type: ignore[union-attr]
            return None
        return wide[0] - len(dims)


def _orders(step: Assignment | None) -> list[tuple[ir.Value, ir.Value]]:
    """The two operands of a step, either way round."""
    reads = step.reads() if step is not None else []
    if len(reads) != 2:
        return []
    a, b = reads
    return [(a, b), (b, a)]
