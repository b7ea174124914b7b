"""Integer tensors whose elements shape inference proves become constants."""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.ops.registry import constant
from ...analysis.shapes.infer import ShapeFacts
from ..adapters.provenance import became_constants
from .constant_folding import reads_learned


def store_known_sizes(
    model: ir.Model, shapes: ShapeFacts, faithful: bool = False
) -> int:
    """Replace such values by initializers of their names; returns how many.

    Values that are computed from them may now fold. The graph's own outputs stay, and
    if `faithful`, what is computed from a named buffer.
    """
    found = 0
    for node in list(model.graph):
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
