"""Symbolic sizes become Python: `x.shape[0]`, a local name, or an argument.

A size is read off a tensor argument of the function that uses it. When no argument has
it, the caller passes it as an int. Used twice, it is bound to its ONNX name first. A
device is that of an argument or a member; where there is none, the caller passes it.
"""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir
import sympy

from ...analysis.errors import Unsupported
from ...analysis.graph.dims import Dim
from ...analysis.graph.element_types import is_whole
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.spelling.expr import (
    Call,
    DeviceOf,
    DimOf,
    Expr,
    Leaf,
    Literal,
    Name,
    Ref,
    callee,
    leaves,
    substitute,
)
from ..ir.annotations import annotation, device_argument
from ..ir.assignment import Assignment, LayerRef
from ..ir.control_flow import Block
from ..ir.module_call import ModuleCall
from ..ir.size_expr import dim_expr

_FILLS = {f"torch.{x}": Name(f"torch.{x}_like") for x in ("zeros", "ones", "full")}


def settle_dimensions(
    root: ModuleCall, graph_inputs: list[ir.Value], shapes: ShapeFacts
) -> None:
    """Exchange every DimOf and DeviceOf in the tree; fills `Run.sizes`, `Run.ints`."""
    root.inputs = list(graph_inputs)
    for missing in _settle(root, shapes, Literal("cpu")):
        raise Unsupported(
            f"size {missing} can't be read off any input of the model",
            hint="name the dynamic dimension in an input's shape",
        )


def _settle(
    call: ModuleCall, shapes: ShapeFacts, device: Expr | None = None
) -> list[Dim | DeviceOf]:
    """Rewrite one call, children first; returns what its caller must pass. `device` is
    that of a call without tensors, where the caller may not be asked."""
    for child in call.calls():
        needed = _settle(child, shapes)
        child.size_args = [x if isinstance(x, Leaf) else DimOf(x) for x in needed]
    _fill_like_arguments(call, shapes)
    sources = _sources(call, shapes)
    anchor = _on_the_device(call)
    device = device if anchor is None else anchor.device
    asked: dict[ir.Value, DeviceOf] = {}
    passed: dict[Dim, ir.Value] = {}
    bound: dict[Dim, ir.Value] = {}

    def atom(dim: sympy.Expr) -> Expr | None:
        if dim in sources:
            value, axis = sources[dim]
            return Ref(value).shape[axis]
        if isinstance(dim, sympy.Symbol):
            if dim not in passed:
                passed[dim] = ir.Value(name=str(dim))
            return Ref(passed[dim])
        return None

    prelude: list[Assignment | ModuleCall] = []
    for dim, count in _counts(call).items():
        if count > 1 and not isinstance(dim, int):
            expr = dim_expr(dim, atom)
            if isinstance(expr, Ref):
                bound[dim] = expr.value
                continue
            name = str(dim) if isinstance(dim, sympy.Symbol) else "size"
            bound[dim] = ir.Value(name=name)
            prelude.append(Assignment((bound[dim],), expr, None, inlines=False))

    def replace(leaf: Leaf) -> Expr | None:
        if isinstance(leaf, DimOf):
            if leaf.dim in bound:
                return Ref(bound[leaf.dim])
            return dim_expr(leaf.dim, atom)
        if isinstance(leaf, DeviceOf):
            if device is None and not asked:
                asked[device_argument()] = leaf
            return Ref(*asked) if device is None else device
        return None

    for item in call.contents():
        if isinstance(item, ModuleCall):
            item.size_args = [substitute(arg, replace) for arg in item.size_args]
        else:
            item.expr = substitute(item.expr, replace)
    call.items = _together(prelude, sources, bound, shapes) + call.items
    call.ints = [*bound.values(), *passed.values()]
    call.sizes = [*passed.values(), *asked]
    return [*passed, *asked.values()]


def _fill_like_arguments(call: ModuleCall, shapes: ShapeFacts) -> None:
    """torch.zeros_like(input_ids), for zeros of an argument's sizes and type."""
    whole = [value for value in call.inputs if is_whole(value)]
    for step in call.contents():
        if not isinstance(step, Assignment) or callee(step.expr) not in _FILLS:
            continue
        (out,) = step.outputs
        dims = shapes.dims(out) if out is not None else None
        like = [
            x for x in whole if out and (x.dtype, shapes.dims(x)) == (out.dtype, dims)
        ]
        if like and dims and not all(isinstance(n, int) for n in dims):
            match step.expr:
                case Call((_, _, *rest), keywords):
                    number = rest[: len(rest) - len(keywords)]
                    step.expr = _FILLS[callee(step.expr)](Ref(like[0]), *number)


def _counts(call: ModuleCall) -> dict[Dim, int]:
    """How often each size is read."""
    exprs = (
        expr
        for item in call.items
        for expr in (item.size_args if isinstance(item, ModuleCall) else [item.expr])
    )
    return Counter(
        leaf.dim for expr in exprs for leaf in leaves(expr) if isinstance(leaf, DimOf)
    )


def _on_the_device(call: ModuleCall) -> Expr | None:
    """A tensor that is where the module is: an argument, else a member."""
    given = [v for v in call.inputs if annotation(v) == "Tensor"]
    given.sort(key=lambda v: v.const_value is not None)
    own = [v for v in call.constants if annotation(v) == "Tensor"]
    for value in given + own:
        return Ref(value)
    forms = (s.form for s in call.contents() if isinstance(s, Assignment))
    layers = (f for f in forms if f is not None and f.source is None and f.weights)
    return next(
        (getattr(LayerRef(f), name) for f in layers for name in f.weights), None
    )


def _together(
    prelude: list[Assignment | ModuleCall],
    sources: dict[Dim, tuple[ir.Value, int]],
    bound: dict[Dim, ir.Value],
    shapes: ShapeFacts,
) -> list[Assignment | ModuleCall]:
    """`batch, seq = x.shape` where a function binds the leading sizes of one tensor."""
    names = {value: dim for dim, value in bound.items()}
    found: dict[ir.Value, dict[int, ir.Value]] = {}
    for step in prelude:
        out = step.outputs[0]
        if out is not None and names.get(out) in sources:
            tensor, axis = sources[names[out]]
            found.setdefault(tensor, {})[axis] = out
    made: list[Assignment | ModuleCall] = []
    done: set[ir.Value] = set()
    for tensor, axes in found.items():
        count = len(axes)
        if count > 1 and set(axes) == set(range(count)):
            whole = Ref(tensor).shape
            expr = whole if shapes.rank(tensor) == count else whole[:count]
            outputs = tuple(axes[i] for i in range(count))
            made.append(Assignment(outputs, expr, None, inlines=False))
            done.update(outputs)
    return made + [step for step in prelude if step.outputs[0] not in done]


def _sources(call: ModuleCall, shapes: ShapeFacts) -> dict[Dim, tuple[ir.Value, int]]:
    """Which argument and axis to read each size off; the first argument wins, but one
    that a branch alone reads: a first call has no cache but may be given an empty one.
    """
    found: dict[Dim, tuple[ir.Value, int]] = {}
    blocks = [item for item in call.items if isinstance(item, Block)]
    asked = {value for block in blocks for value in block.reads()}
    for item in call.items:
        if isinstance(item, ModuleCall):
            asked.difference_update(item.inputs)
        elif not isinstance(item, Block):
            asked.difference_update(item.reads())
    for value in sorted(call.inputs, key=lambda value: value in asked):
        for axis, dim in enumerate(shapes.dims(value) or ()):
            if not isinstance(dim, int):
                found.setdefault(dim, (value, axis))
    return found
