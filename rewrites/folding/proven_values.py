"""What shape inference proves: integers become constants, decided masks go, and so do
places of all there is."""

from __future__ import annotations

import math

import onnx_ir as ir

from ...analysis.graph.dims import Dims, same
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes
from ...analysis.ops.facts.index_functions import Count
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

    It is made as large as the result. The graph's own outputs stay.
    """
    found, places = 0, Places(shapes)
    for node in list(model.graph):
        if node.domain or node.op_type not in ("And", "Or", "Where"):
            continue
        out, taken = node.outputs[0], _taken(node, places)
        if taken is None or out.is_graph_output() or not out.uses():
            continue
        others = [x for x in node.inputs if x is not taken and x is not None]
        if all(_is_within(shapes.dims(x), shapes.dims(taken)) for x in others):
            became_constants(model, [node])
            out.replace_all_uses_with(taken)
        elif len(others) == 1:
            _become(node, "Expand", taken, sizes_of=others[0])
        else:
            continue
        found += 1
    return found


def _is_within(dims: Dims | None, wide: Dims | None) -> bool:
    """Whether broadcasting leaves `wide`: two names of sizes may be taken for equal
    where one of them is 1."""
    if dims is None or wide is None or len(dims) > len(wide):
        return False
    pairs = zip(reversed(dims), reversed(wide), strict=False)
    return all(n == 1 or same(n, m) is True for n, m in pairs)


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


def read_in_order(model: ir.Model, shapes: ShapeFacts) -> int:
    """Let what gathers all of a row in its order be a Reshape; returns how many did.

    So PyTorch's exporter writes as_strided, which pools to one place are made of.
    """
    found, places = 0, Places(shapes)
    for node in list(model.graph):
        if node.domain or node.op_type != "Gather":
            continue
        x, at = node.inputs
        assert x is not None and at is not None
        whole, dims = shapes.dims(x), shapes.dims(at)
        if not whole or not dims or len(whole) > 1 or len(dims) < 2:
            continue
        if same(whole[0], math.prod(dims)) is True and places.of(at) == _row(dims):
            node.attributes.clear()
            node.attributes.add(ir.AttrInt64("allowzero", 1))
            _become(node, "Reshape", x, sizes_of=at)
            found += 1
    return found


def _row(dims: Dims) -> Count | None:
    """0, 1, 2 ... in the order of memory; None where a step is of open size."""
    steps = [math.prod(dims[k + 1 :]) if n != 1 else 0 for k, n in enumerate(dims)]
    return Count(0, tuple(steps)) if all(isinstance(n, int) for n in steps) else None


def _become(node: ir.Node, op: str, x: ir.Value, sizes_of: ir.Value) -> None:
    assert node.graph is not None
    # The graph gives it a name that it has not.
    sizes = ir.node("Shape", [sizes_of], metadata_props=dict(node.metadata_props))
    node.graph.insert_before(node, sizes)
    node.op_type = op
    node.replace_input_with(0, x)
    node.replace_input_with(1, sizes.outputs[0])
