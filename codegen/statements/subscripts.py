"""Indices and sizes that exporters compute, as what they stand for.

TorchScript writes a size that is added to positions as an element of a shape. PyTorch's
other exporter joins a table of places. What a mask picks is written as places, too.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import onnx_ir as ir

from ...analysis.graph.dims import Dim
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.ops.operands import equal
from ...analysis.spelling.expr import (
    Attribute,
    Binary,
    Call,
    DeviceOf,
    DimOf,
    Expr,
    Literal,
    Name,
    Ref,
    Subscript,
    Tuple,
    exchange,
    joined,
    renamed,
)
from ..ir.assignment import Assignment
from .combine import Flow, Gone, axis_of, does, without


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
        elif picks.counted(step):
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
    """Elements of a tensor by a table of their places."""

    def __init__(self, flow: Flow, shapes: ShapeFacts) -> None:
        self.makers, self.shapes = flow.makers, shapes

    def counted(self, step: Assignment) -> bool:
        """x[rows, columns], which places hold as columns."""
        match step.expr:
            case Subscript(
                (Ref() as of, Call((Attribute((Ref() as by,), "unbind"), *_)))
            ):
                x, places = of.value, by.value
            case _:
                return False
        rank = len(self.shapes.dims(places) or ())
        join = self.makers.get(places)
        columns = (
            [x.value for x in joined(join.expr) if isinstance(x, Ref)] if join else []
        )
        if join is None or not columns or axis_of(join, rank) != rank - 1:
            return False
        parts = [self.column(value) for value in columns]
        if len(parts) != len(join.reads()) or any(part is None for part in parts):
            return False
        step.expr = Ref(x)[tuple(parts)]
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


# ---- table[index]


def picked_by_column(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """By numbers that were a column for the operator, as they were before."""
    gone = []
    for value in dict.fromkeys(step.reads()):
        column = flow.maker(value, "Unsqueeze")
        numbers = [*(column.reads() if column else ()), value][0]
        inner = shapes.dims(numbers)
        if column is None or inner is None or (*inner, 1) != shapes.dims(value):
            continue
        before = step.reads().count(value)
        step.expr = exchange(step.expr, partial(_as_it_was, value, numbers))
        flow.uses[value] += step.reads().count(value) - before
        gone += [] if flow.uses[value] else [column]
    return gone


def _as_it_was(column: ir.Value, numbers: ir.Value, expr: Expr) -> Expr | None:
    plain = Ref(numbers)
    match expr:
        case Subscript((table, Call((Attribute((Ref() as of,), "unbind"), *_)))):
            return Subscript(table, plain) if of.value is column else None
        case Call((Attribute((Ref() as of,), name), Literal(-1))) if of.value is column:
            return {"squeeze": plain, "unbind": Tuple(plain)}.get(str(name))
    return None


def picked_along(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """x[:, index] of an axis that was brought to the front for the operator."""
    picked = flow.before(step, "Gather") if does(step, "Transpose") else None
    turned = flow.before(picked, "Transpose")
    if picked is None or turned is None or not isinstance(picked.expr, Subscript):
        return ()
    perms = [s.node.attributes.get_ints("perm") for s in (turned, step) if s.node]
    first, back = (list(perm or ()) for perm in perms)
    (x,), (_, *index) = turned.reads(), picked.expr.operands
    if not first or sorted(first[1:]) != first[1:] or len(index) != 1:
        return ()
    turns = [first.index(i) for i in range(len(first))]
    if back != turns or axis_of(picked, len(first)):
        return ()
    step.expr = Ref(x)[tuple([*[slice(None)] * first[0], index[0]])]
    return picked, turned


# ---- x[mask]


def picked_by_mask(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """Rows of places, which the operator gives as columns, and what stands there."""
    rows = step if does(step, "Transpose") else None
    if does(step, "GatherND") and len(step.reads()) > 1:
        rows = flow.only(step.reads()[1], "Transpose")
    found = flow.before(rows, "NonZero")
    if rows is None or rows.node is None or found is None:
        return ()
    (mask,), turned = found.reads(), found.expr
    stays = rows.node.attributes.get_ints("perm") == [0, 1]
    if stays or not isinstance(turned, Attribute) or turned.label != "T":
        return ()
    if rows is step:
        (step.expr,) = turned.operands
        return (found,)
    x, assumed = step.reads()[0], shapes.dims(mask)
    assert step.node is not None
    if not assumed or (shapes.dims(x) or ())[: len(assumed)] != assumed:
        return ()
    batches = step.node.attributes.get_int("batch_dims", 0)
    if mask.dtype != ir.DataType.BOOL or batches:
        return ()
    step.expr = Ref(x)[Ref(mask)]
    return (rows,)


def read_from_front(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """x.gather(1, places % 9): counting from the front is a part of reading at places,
    as where the file has these from either end."""
    if not does(step, "GatherElements", "ScatterElements") or step.node is None:
        return ()
    places = flow.only(step.node.inputs[1])
    made = places and places.expr
    if not (places and isinstance(made, Binary) and made.label == "%"):
        return ()
    step.expr = renamed(step.expr, {places.outputs[0]: made})
    return (places,)
