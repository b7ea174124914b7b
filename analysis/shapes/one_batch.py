"""The sizes of a network whose inputs have rows of one batch."""

from __future__ import annotations

import onnx_ir as ir
import sympy

from ..graph.shape_facts import ShapeFacts
from .infer import infer


def batch_sizes(graph: ir.Graph, shapes: ShapeFacts) -> frozenset[sympy.Symbol]:
    """The open sizes that come first in the inputs; none if an input has no such."""
    leads = [(shapes.dims(value) or (0,))[0] for value in graph.inputs]
    if not all(isinstance(size, sympy.Symbol) for size in leads):
        return frozenset()
    return frozenset(leads)


def one_batch(
    model: ir.Model, shapes: ShapeFacts
) -> tuple[ShapeFacts, frozenset[sympy.Symbol]]:
    """All sizes where those that come first in the inputs are one, and that one; none
    if an input has no such."""
    sizes = batch_sizes(model.graph, shapes)
    if len(sizes) < 2:
        return shapes, sizes
    given = {value: value.shape for value in model.graph.inputs}
    name = min(size.name for size in sizes)
    for value, shape in given.items():
        value.shape = ir.Shape([name, *tuple(shape or ())[1:]])
    try:
        found = infer(model)
    finally:
        for value, shape in given.items():
            value.shape = shape
    return found, batch_sizes(model.graph, found)
