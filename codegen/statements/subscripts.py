"""Indices and sizes that TorchScript computes, as what they stand for.

It writes `mask[batch, position]` as a column of all elements and places in it, and a
size that is added to positions as an element of a shape.
"""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.ops.operands import equal
from ...analysis.spelling.expr import DeviceOf, DimOf, Expr, Name, Ref
from ..ir.assignment import Assignment
from .combine import Flow, does, size_of, without


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
        elif picks.spelled(step):
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
    device = {"device": DeviceOf()}
    if content.ndim:
        step.expr = Name("torch.full")(content.shape, DimOf(first), **device)
    else:
        step.expr = Name("torch.tensor")(DimOf(first), **device)
    return True


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
