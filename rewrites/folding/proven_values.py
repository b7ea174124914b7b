"""What shape inference proves: integers become constants, decided masks go."""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes
from ...analysis.ops.node_view import constant
from ...analysis.shapes.index_functions import Places
from ..adapters.provenance import became_constants
from .constant_folding import reads_learned


def store_known_sizes(
    model: ir.Model, shapes: ShapeFacts, faithful: bool = False
) -> int:
    """Replace such values by initializers of their names; returns how many.

    Values that are computed from them may now fold. What a graph gives stays, and
    if `faithful`, what is computed from a named buffer.
    """
    found = 0
    for node in list(all_nodes(model.graph)):
        if faithful and reads_learned(node):
            continue
        for value in node.outputs:
            if value.is_graph_output() or not value.uses():
                continue
            array = constant(value, shapes)
            if array is None:
                continue
            name = value.name
            stored = ir.Value(
                name=name,
                type=value.type,
                shape=ir.Shape(array.shape),
                const_value=ir.tensor(array, name=name),
            )
            became_constants(model, [node])
            value.name = f"{name}_computed"
            value.replace_all_uses_with(stored)
            model.graph.register_initializer(stored)
            found += 1
    return found


def settle_types(model: ir.Model) -> int:
    """Cast constants to a type where it is known, and not like another value.

    Values that are computed from them may now fold. Returns how many were.
    """
    found = 0
    for node in all_nodes(model.graph):
        if node.domain or node.op_type != "CastLike":
            continue
        number, like = node.inputs
        if number is None or number.const_value is None:
            continue
        if like is not None and like.dtype is not None:
            node.op_type = "Cast"
            node.attributes.add(ir.AttrInt64("to", like.dtype.value))
            node.resize_inputs(1)
            found += 1
    return found


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
