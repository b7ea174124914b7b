"""What is asked of steps when several become one, and how they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

import onnx_ir as ir

from ...analysis.graph.dims import Dim
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import bodies
from ...analysis.literals import shortest
from ...analysis.ops.node_view import NodeView
from ...analysis.ops.operands import dim_keyword, equal, shown
from ...analysis.spelling.expr import (
    Binary,
    List,
    Name,
    Ref,
    callee,
    joined,
    renamed,
)
from ..ir.assignment import Assignment

FLOATS = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16}
FLOATS |= {ir.DataType.BFLOAT16}


class Flow:
    """What makes each value of some steps, and how often it is read.

    `results` are read by others, too.
    """

    def __init__(
        self, steps: list[Assignment], results: Collection[ir.Value] = ()
    ) -> None:
        self.uses = Counter(value for step in steps for value in step.reads())
        self.uses.update(results)
        self.makers = {out: step for step in steps for out in step.outputs}
        self.readers = {value: step for step in steps for value in step.reads()}

    def maker(self, value: ir.Value, *ops: str) -> Assignment | None:
        """The step that makes a value, if it does one of these; of any, without."""
        step = self.makers.get(value)
        return step if step and (not ops or does(step, *ops)) else None

    def only(self, value: ir.Value | None, *ops: str) -> Assignment | None:
        """The same, if the value is read once."""
        return self.maker(value, *ops) if value and self.uses[value] == 1 else None

    def reader(self, value: ir.Value | None) -> Assignment | None:
        """The step that reads a value, if that is read once."""
        return self.readers.get(value) if value and self.uses[value] == 1 else None

    def before(self, step: Assignment | None, *ops: str) -> Assignment | None:
        """The same of the first operand of a step."""
        taken = step.node.inputs[:1] if step and step.node else ()
        return self.only(taken[0], *ops) if taken else None


def does(step: Assignment, *ops: str) -> bool:
    """Whether a step is one of these operators of ONNX's own."""
    node = step.node
    return node is not None and node.op_type in ops and not node.domain


def is_binary(step: Assignment | None, label: str) -> bool:
    """Whether a step is written as such an operation of two values, and no more."""
    expr = step.expr if step is not None else None
    if not isinstance(expr, Binary) or expr.label != label:
        return False
    return all(isinstance(x, Ref) for x in expr.operands)


def axis_of(step: Assignment, rank: int) -> int:
    """The attribute `axis` of a step's node, counted from the front."""
    assert step.node is not None
    return step.node.attributes.get_int("axis", 0) % rank


def size_of(dims: Sequence[Dim], axis: int) -> int:
    """The size of an axis; 0 if that isn't a number."""
    size = dims[axis]
    return size if isinstance(size, int) else 0


def without(
    steps: list[Assignment], gone: dict[Assignment, Assignment]
) -> list[Assignment]:
    """The steps but for some, whose nodes are behind those that took their work."""
    for step, by in gone.items():
        by.absorbed += (*step.absorbed, *([step.node] if step.node else []))
    return [step for step in steps if step not in gone]


# Steps whose work the one asked about does now; none where it is no such idiom.
Gone = Sequence[Assignment]


def spelled(
    idiom: Callable[[Assignment, Flow, ShapeFacts], Gone],
    steps: list[Assignment],
    shapes: ShapeFacts,
    results: Collection[ir.Value],
) -> list[Assignment]:
    """The steps with an idiom in the place of what it stands for."""
    flow = Flow(steps, results)
    gone: dict[Assignment, Assignment] = {}
    for step in steps:
        gone |= dict.fromkeys(idiom(step, flow, shapes), step)
    return without(steps, gone)


# ---- F.normalize(x, dim=1)


def normalized(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """A value over its norm along one axis, which is given a least value."""
    pair = step.expr.operands if is_binary(step, "/") else ()
    x, norm = [p.value if isinstance(p, Ref) else None for p in pair] or [None] * 2
    wide = y if (y := flow.only(norm)) and callee(y.expr) == ".expand" else None
    clip = flow.before(wide) or flow.only(norm)  # a Clip, or a Max by a number
    first = flow.before(clip, "ReduceL2")
    if not (x and clip and clip.node and clip.expr.label == ("min",)):
        return ()
    made = first or flow.only(clip.node.inputs[-1], "ReduceL2")
    if not (made and made.node):
        return ()
    bounds, over = NodeView(clip.node, shapes), NodeView(made.node, shapes)
    least = bounds.const(1 if first else 0)
    dims, axes = shapes.dims(x), over.const(1)
    same = over.value(0) is x and not (wide and norm and shapes.dims(norm) != dims)
    sizes = [shapes.dims(s.node.outputs[0]) for s in (clip, made) if s.node]
    same = same and sizes[0] == sizes[1] and over.attr("keepdims", 1)
    if not same or bounds.has(2) or least is None or least.size != 1:
        return ()
    if dims and axes is not None and axes.size == 1:
        dim = shown(int(axes.item()) % len(dims), len(dims))
        eps = shortest(least.reshape(-1)[0])
        options = {} if eps == 1e-12 else {"eps": eps}
        step.expr = Name("F.normalize")(Ref(x), dim=dim, **options)
        return [x for x in (wide, clip, made) if x is not None]
    return ()


# ---- x.repeat_interleave(4, dim=1)


def repeated(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """Each place of an axis several times, as keys for groups of queries."""
    wide = flow.before(step) if does(step, "Reshape") else None
    apart = flow.before(wide, "Unsqueeze")
    if wide is None or apart is None or callee(wide.expr) != ".expand":
        return ()
    x = apart.reads()[0]
    before, between, after, last = (
        shapes.dims(v) or ()
        for v in (x, apart.outputs[0], wide.outputs[0], step.outputs[0])
        if v is not None
    )
    for axis, size in enumerate(before):
        front, behind = before[: axis + 1], before[axis + 1 :]
        times = size_of(after, axis + 1) if len(after) == len(before) + 1 else 0
        if (
            times > 1
            and equal(between, (*front, 1, *behind))
            and equal(after, (*front, times, *behind))
            and equal(last, (*before[:axis], size * times, *behind))
        ):
            dim = shown(axis, len(before))
            step.expr = Ref(x).repeat_interleave(times, dim=dim)
            return apart, wide
    return ()


# ---- torch.stack([x, y], dim=1)


def stacked(step: Assignment, flow: Flow, shapes: ShapeFacts) -> Gone:
    """Values that are joined along an axis that each was given for that."""
    parts = [x.value for x in joined(step.expr) if isinstance(x, Ref)]
    wide = [shapes.dims(x) or () for x in parts]
    if not (does(step, "Concat") and parts and all(wide)):
        return ()
    axis = axis_of(step, len(wide[0]))
    apart = [y for x in parts if (y := flow.only(x, "Unsqueeze"))]
    plain = [y.expr.operands[0] for y in apart if callee(y.expr) == ".unsqueeze"]
    found = [x for y in plain if isinstance(x := y.operands[0], Ref)]
    narrow = [d[:axis] + d[axis + 1 :] for d in wide if size_of(d, axis) == 1]
    dims = [shapes.dims(x.value) or () for x in found]
    same = len(found) == len(narrow) == len(joined(step.expr))
    if same and all(map(equal, dims, narrow)):
        dim = dim_keyword(axis, len(wide[0]))
        step.expr = Name("torch.stack")(List(*found), **dim)
        return apart
    return ()


# ---- x + (rounded - x).detach()


def pass_gradients(steps: list[Assignment]) -> None:
    """What is added to x to make it a rounded x, as a codebook's entry, is detached.

    ONNX can't say so. Without it the gradients of x cancel, and no layer before trains.
    """
    flow = Flow(steps)
    for step in steps:
        pair = [v for v in operands(step, "+") if v is not None]
        for x, change in (pair, pair[::-1]) if len(pair) == 2 else ():
            made, less = [*operands(flow.maker(change), "-"), None, None][:2]
            if less is x and made and x.dtype in FLOATS and _leaps(made):
                step.expr = renamed(step.expr, {change: Ref(change).detach()})


def operands(step: Assignment | None, label: str) -> Sequence[ir.Value | None]:
    """The two of a step that is written as such an operation; none of others."""
    if step is None or step.node is None or not is_binary(step, label):
        return ()
    return step.node.inputs


# Constant but where they leap.
_LEAPS = frozenset("Round Floor Ceil Sign".split())


def _leaps(value: ir.Value) -> bool:
    """Whether a value has no gradients but those of constants, and hangs on more: on
    what is rounded, or on whole numbers."""
    seen, todo, found = {value}, [value], False
    while todo:
        node = (one := todo.pop()).producer()
        if one.const_value is not None:
            continue
        if one.dtype not in FLOATS or (node is not None and node.op_type in _LEAPS):
            found = True
            continue
        if node is None or bodies(node):
            return False
        todo += [v for v in node.inputs if v is not None and v not in seen]
        seen.update(todo)
    return found
