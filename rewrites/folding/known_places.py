"""And, Or and Where of what is true, or false, at every place."""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.shapes.index_functions import Places
from ...analysis.shapes.infer import ShapeFacts
from ..adapters.provenance import became_constants


def take_decided(model: ir.Model, shapes: ShapeFacts) -> int:
    """Let the operand that decides stand for such a node; returns how many.

    That operand has to be as large as the result. The graph's own outputs stay.
    """
    found, places = 0, Places(shapes)
    for node in list(model.graph):
        if node.domain or node.op_type not in ("And", "Or", "Where"):
            continue
        out, taken = node.outputs[0], _taken(node, places)
        if taken is None or out.is_graph_output() or not out.uses():
            continue
        dims = shapes.dims(out)
        if dims is None or dims != shapes.dims(taken):
            continue
        became_constants(model, [node])
        out.replace_all_uses_with(taken)
        found += 1
    return found


def _taken(node: ir.Node, places: Places) -> ir.Value | None:
    if node.op_type == "Where":
        condition, yes, no = node.inputs
        decided = places.of(condition)
        return (yes if decided else no) if isinstance(decided, bool) else None
    neutral = node.op_type == "And"
    for x, other in (node.inputs, node.inputs[::-1]):
        if places.of(x) is neutral:
            return other
    return None
