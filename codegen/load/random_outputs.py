"""Which outputs of a model are drawn at random, and so have no expected values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ...analysis.graph.constants import RANDOM
from ...analysis.graph.traversal import all_nodes, bodies
from ...analysis.ops.node_view import constant
from ...analysis.ops.registry import DOMAIN
from ...rewrites.adapters.cleanup import inlined


def drawn_outputs(model: ir.Model) -> frozenset[str]:
    """The names of outputs that depend on a random node."""
    model = inlined(model)
    drawn: set[ir.Value | None] = set()
    for node in model.graph:
        whole = (node, *inner_nodes(node))
        reads = (x for each in whole for x in each.inputs)
        if any(map(draws, whole)) or not drawn.isdisjoint(reads):
            drawn.update(node.outputs)
    return frozenset(v.name or "" for v in model.graph.outputs if v in drawn)


def inner_nodes(node: ir.Node) -> Sequence[ir.Node]:
    """All nodes of the graphs that a node holds."""
    return [inner for body in bodies(node) for inner in all_nodes(body)]


def draws(node: ir.Node) -> bool:
    """Whether a node is random; Dropout is in training alone."""
    if (node.domain, node.op_type) == (DOMAIN, "Sampling"):
        return True
    if node.domain or node.op_type not in RANDOM:
        return False
    if node.op_type != "Dropout":
        return True
    training = node.inputs[2] if len(node.inputs) > 2 else None
    mode = None if training is None else constant(training)
    return training is not None and (mode is None or bool(np.any(mode)))
