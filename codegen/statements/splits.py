"""Parts that are taken apart again are taken from the whole: q, k, v = x.chunk(3)."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from ...analysis.ops.axes import dim_keyword
from ...analysis.shapes.infer import ShapeFacts
from ...analysis.spelling.expr import Expr, Ref
from ..ir.assignment import Assignment


def flat_splits(
    steps: list[Assignment], shapes: ShapeFacts, results: set[ir.Value]
) -> list[Assignment]:
    """One step in the place of a split and the split of one of its parts.

    So come three matrices out of a product that was merged pair by pair.
    """
    uses = Counter(value for step in steps for value in step.reads())
    whole: dict[ir.Value, Assignment] = {}  # by its parts
    kept: list[Assignment] = []
    for step in steps:
        part = next(iter(step.reads()), None)
        outer = whole.get(part) if part is not None and _splits(step) else None
        axis = _axis(step, shapes)
        if (
            outer is not None
            and part is not None
            and uses[part] == 1
            and part not in results
            and axis == _axis(outer, shapes)
        ):
            at = outer.outputs.index(part)
            parts = (*outer.outputs[:at], *step.outputs, *outer.outputs[at + 1 :])
            found = [_size(value, axis, shapes) for value in parts]
            sizes = [size for size in found if size is not None]
            if len(sizes) == len(parts):
                outer.outputs = parts
                outer.absorbed += (step.node,) if step.node is not None else ()
                outer.expr = _spelled(outer, sizes, axis, shapes)
                whole.update((value, outer) for value in parts if value is not None)
                continue
        if _splits(step):
            whole.update((out, step) for out in step.outputs if out is not None)
        kept.append(step)
    return kept


def _splits(step: Assignment) -> bool:
    is_split = step.node is not None and step.node.op_type == "Split"
    return is_split and len(step.outputs) > 1 and len(step.reads()) == 1


def _axis(step: Assignment, shapes: ShapeFacts) -> int:
    if step.node is None or step.node.op_type != "Split":
        return 0
    source = step.node.inputs[0]
    rank = shapes.rank(source) if source is not None else None
    axis = step.node.attributes.get_int("axis", 0)
    return axis + (rank or 0) if axis < 0 else axis


def _size(value: ir.Value | None, axis: int, shapes: ShapeFacts) -> int | None:
    dims = shapes.dims(value) if value is not None else None
    size = dims[axis] if dims is not None else None
    return size if isinstance(size, int) else None


def _spelled(step: Assignment, sizes: list[int], axis: int, shapes: ShapeFacts) -> Expr:
    (source,) = step.reads()
    dim = dim_keyword(axis, shapes.rank(source) or 0)
    if len(set(sizes)) == 1:
        return Ref(source).chunk(len(sizes), **dim)
    return Ref(source).split(sizes, **dim)
