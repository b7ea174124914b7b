"""Variances and deviations that exporters write out: x.std(dim=-1, keepdim=True)."""

from __future__ import annotations

from ...analysis.graph.dims import Dim, product
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.ops.node_view import NodeView
from ...analysis.ops.operands import equal
from ...analysis.spelling.expr import Binary, Literal, Ref, callee
from ..ir.assignment import Assignment
from .combine import FLOATS, Flow, Gone, does, is_binary, operands


def varied(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """The variance along some axes: the mean of squared differences from the mean, or
    their sum by one less than they are."""
    sums = "ReduceSum", "ReduceSumSquare"
    whole = flow.before(step, *sums) if does(step, "Div") else step
    if whole is None or (whole is step and not does(step, "ReduceMean")):
        return ()
    squared = whole if does(whole, "ReduceSumSquare") else flow.before(whole)
    if squared is None or not (squared is whole or _is_square(squared)):
        return ()
    change = squared.reads()[0]
    apart = flow.maker(change, "Sub")
    x, mean = operands(apart, "-") or (None, None)
    centre, dims = flow.maker(mean or change, "ReduceMean"), x and shapes.dims(x)
    if not (x and dims and mean and apart and centre and centre.reads() == [x]):
        return ()
    axes, others = (_reduced(y, len(dims), shapes) for y in (centre, whole))
    options = dict(zip(whole.expr.label, whole.expr.operands[1:], strict=True))
    if not axes or axes != others or not options.keys() <= {"dim", "keepdim"}:
        return ()
    alone = flow.uses[change] == len(squared.reads())
    count = product(dims[axis] for axis in axes)
    if step is whole and alone:
        options["correction"] = Literal(0)
    elif not _divides(step, whole, count - 1):
        return ()
    if shapes.rank(mean) != len(dims) or count == 1 or x.dtype not in FLOATS:
        return ()
    step.expr, step.result = Ref(x).var(**options), "var"
    inner = [apart, *([centre] if flow.only(mean) else [])] if alone else []
    return [*dict.fromkeys(y for y in (whole, squared) if y is not step), *inner]


def _is_square(step: Assignment) -> bool:
    both = is_binary(step, "*") and len({*step.reads()}) == 1
    return both or callee(step.expr) == ".square"


def _divides(step: Assignment, whole: Assignment, by: Dim) -> bool:
    """Whether a step is written as a sum by that number."""
    match step.expr:
        case Binary((Ref() as left, Literal(number))):
            return left.value in whole.outputs and number == by
    return False


def _reduced(step: Assignment, rank: int, shapes: ShapeFacts) -> set[int]:
    """The axes that a step reduces, from the front; none where they aren't known."""
    assert step.node is not None
    view = NodeView(step.node, shapes)
    axes = view.const(1)
    listed = range(rank) if not view.has(1) else () if axes is None else axes.flat
    return {int(axis) % rank for axis in listed}


def deviated(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """The root of a variance, and one that is given the axes again that it lost."""
    inner = flow.before(step)
    if inner is None or callee(inner.expr) != ".var":
        return ()
    (x,), (_, *given) = inner.reads(), inner.expr.operands
    options = dict(zip(inner.expr.label, given, strict=True))
    if does(step, "Sqrt"):
        step.expr, step.result = Ref(x).std(**options), "std"
        return (inner,)
    dims, dim = shapes.dims(x) or (), options.get("dim")
    if not does(step, "Unsqueeze", "Reshape") or dim is None or "keepdim" in options:
        return ()
    axes = {axis.label % len(dims) for axis in dim.operands or [dim]}
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(dims))
    made = [shapes.dims(out) or () for out in step.outputs if out is not None]
    if not equal(made[0], kept):
        return ()
    step.expr, step.result = Ref(x).var(**options, keepdim=True), "var"
    return (inner,)
