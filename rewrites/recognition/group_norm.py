"""GroupNormalization: an image seen as groups, each of them normalised, seen as before.

A group is some channels in a row, so it is a part of the image's elements as they lie;
whatever the sizes are by which a Reshape spells the groups, and whichever operator
normalises all that is behind them.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import same
from ..language.facts import Facts
from ..language.operators.read_write import (
    WORDS,
    CannotWrite,
    Draft,
    NewConstant,
    NoReading,
    reading,
)

STATEMENT = "groups of channels normalised = GroupNormalization(x, 1, 0)"


def group_norm(
    node: ir.Node, facts: Facts
) -> tuple[ir.Value, tuple[ir.Node, ...], Draft] | None:
    """What is normalised, by which nodes, and the operator; None if nothing is."""
    normal = _above(node, "Reshape", "InstanceNormalization", "LayerNormalization")
    grouping = None if normal is None else _above(normal, normal.op_type, "Reshape")
    if normal is None or grouping is None:
        return None
    x, rows = grouping.inputs[0], normal.inputs[0]
    if x is None or rows is None or x.dtype is None:
        return None
    dims, groups = facts.dims(x), facts.dims(rows)
    if dims is None or dims != facts.dims(node.outputs[0]) or len(dims) < 3:
        return None
    if groups is None or len(groups) < 3 or same(groups[0], dims[0]) is not True:
        return None
    count, channels = groups[1], dims[1]
    if not (isinstance(count, int) and isinstance(channels, int)):
        return None
    if count < 1 or channels % count:
        return None
    try:
        epsilon = _epsilon(normal, facts)
        if epsilon is None:
            return None
        given = [NewConstant(np.full(channels, n, x.dtype.numpy())) for n in (1, 0)]
        parameters = {"groups": count, "epsilon": epsilon}
        draft = WORDS["GroupNormalization"].write([x, *given], parameters)
    except (CannotWrite, NoReading):
        return None
    return x, (node, normal, grouping), draft


def _epsilon(normal: ir.Node, facts: Facts) -> float | None:
    """Of a normalisation of all from axis 2 on that scales and shifts nothing."""
    found = reading(normal, facts)
    if found.parameters.get("axis", 2) != 2:
        return None
    for x, number in zip(found.inputs[1:], (1, 0), strict=True):
        if x is not None and (x.const_value is None or facts.uniform(x) != number):
            return None
    return float(found.parameters["epsilon"])


def _above(node: ir.Node, own: str, *wanted: str) -> ir.Node | None:
    """What computes the first operand of a node, if it is such an operator."""
    if node.op_type != own or node.domain or node.inputs[0] is None:
        return None
    found = node.inputs[0].producer()
    if found is None or found.op_type not in wanted or found.domain:
        return None
    return found if found.graph is node.graph else None
