"""Whether the rows of a batch are computed each by itself."""

from __future__ import annotations

import onnx_ir as ir
import sympy

from ..graph.shape_facts import ShapeFacts
from ..literals import one_line
from .regions import known_by_sizes, site_cuts


def batch_sizes(graph: ir.Graph, shapes: ShapeFacts) -> frozenset[sympy.Symbol]:
    """The open sizes that come first in the inputs; none if an input has no such."""
    leads = [(shapes.dims(value) or (0,))[0] for value in graph.inputs]
    if not all(isinstance(size, sympy.Symbol) for size in leads):
        return frozenset()
    return frozenset(leads)


def mixes_rows(graph: ir.Graph, shapes: ShapeFacts) -> str:
    """Why the network can't be given part of a batch; "" if it can.

    Every input is cut along its first axis. Where every operator may be cut likewise,
    as OpDef.cut says, up to all outputs, the parts of a batch give the parts of the
    results.
    """
    sizes = batch_sizes(graph, shapes)
    if not sizes:
        return "an input has no open size that comes first"
    cut: dict[ir.Value, int] = dict.fromkeys(graph.inputs, 0)
    for node in graph:
        reason = _through(node, cut, sizes, shapes)
        if reason:
            return reason
    whole = [value for value in graph.outputs if cut.get(value) != 0]
    if whole:
        return f"{one_line(whole[0].name or '?', 40)} is no result for each row"
    return ""


def _through(
    node: ir.Node,
    cut: dict[ir.Value, int],
    sizes: frozenset[sympy.Symbol],
    shapes: ShapeFacts,
) -> str:
    """Note how a node's results are cut; says why they are not."""
    has_rows = any(_has(value, sizes, shapes) for value in node.outputs)
    taken = [cut.get(value) if value is not None else None for value in node.inputs]
    if not has_rows and (
        all(axis is None for axis in taken) or known_by_sizes(node, shapes)
    ):
        return ""
    for law in site_cuts(node, shapes):
        axes = zip(taken, law.inputs, strict=False)
        if all(axis == wanted for axis, wanted in axes) and law.pieces == 1:
            for value, axis in zip(node.outputs, law.outputs, strict=True):
                if axis is not None:
                    cut[value] = axis
            return ""
    name = one_line(node.name or node.outputs[0].name or "?", 40)
    return f"{node.op_type} {name} may take rows of a batch together"


def _has(value: ir.Value, sizes: frozenset[sympy.Symbol], shapes: ShapeFacts) -> bool:
    return any(
        not isinstance(dim, int) and not sizes.isdisjoint(dim.free_symbols)
        for dim in shapes.dims(value) or ()
    )
