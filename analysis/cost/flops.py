"""How many arithmetic operations a node takes."""

from __future__ import annotations

import onnx_ir as ir

from ..errors import MALFORMED
from ..graph.dims import Dim
from ..graph.shape_facts import NodeFacts, ShapeFacts
from ..ops import lookup


def flops(node: ir.Node, shapes: ShapeFacts) -> Dim | None:
    """How many arithmetic operations a node takes, as ops/facts/flop_counts.py counts.

    None for an operator of which that is not said, and where a needed size is unknown
    or isn't there.
    """
    op = lookup(node)
    if op is None:
        return 0 if node.op_type == "Constant" and not node.domain else None
    try:
        return op.count_flops(NodeFacts(node, shapes))
    except MALFORMED:  # of other axes than the operator takes: spelling it refuses them
        return None
