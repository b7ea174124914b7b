"""GroupNormalization: an image seen as groups, each of them normalised, seen as before.

A group is some channels in a row, so it is a part of the image's elements as they lie;
whatever the sizes are by which a Reshape spells the groups, and whichever operator
normalises all that is behind them. Parts that are the last axes are rows of these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dims, product, same
from ..language.facts import Facts
from ..language.operators.read_write import (
    WORDS,
    CannotWrite,
    Draft,
    NewConstant,
    NoReading,
    Reading,
    reading,
    whole,
)
from .recognition import Recognition
from .regions import Neighbourhoods

STATEMENT = "groups of channels normalised = GroupNormalization(x, 1, 0)"


def group_norm(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """What is normalised as groups."""
    facts = around.facts
    normal = _above(node, "Reshape", "InstanceNormalization", "LayerNormalization")
    grouping = None if normal is None else _above(normal, normal.op_type, "Reshape")
    if normal is None or grouping is None:
        return
    x, rows = grouping.inputs[0], normal.inputs[0]
    if x is None or rows is None or x.dtype is None:
        return
    dims, groups = facts.dims(x), facts.dims(rows)
    if dims is None or groups is None or dims != facts.dims(node.outputs[0]):
        return
    try:
        read = reading(normal, facts)
        epsilon, axis = _epsilon(read, facts), read.parameters.get("axis", 2)
        if epsilon is None:
            return
        name, draft = "group_norm", None
        if axis == 2 and len(dims) > 2 < len(groups):
            draft = _of_groups(x, dims, groups, epsilon)
        if draft is None:
            name, draft = "layer_norm", _of_rows(x, dims, groups[axis:], epsilon)
    except (CannotWrite, NoReading):
        return
    if draft is not None:
        evidence = f"{normal.name} normalises parts of {x.name} as they lie"
        yield Recognition(name, (node, normal, grouping), (draft,), evidence)


def _of_groups(x: ir.Value, dims: Dims, groups: Dims, epsilon: float) -> Draft | None:
    count, channels = groups[1], dims[1]
    if same(groups[0], dims[0]) is not True or x.dtype is None:
        return None
    if not (isinstance(count, int) and isinstance(channels, int)):
        return None
    if count < 1 or channels % count:
        return None
    given = [NewConstant(np.full(channels, n, x.dtype.numpy())) for n in (1, 0)]
    parameters = {"groups": count, "epsilon": epsilon}
    return WORDS["GroupNormalization"].write([x, *given], parameters)


def _of_rows(x: ir.Value, dims: Dims, row: Dims, epsilon: float) -> Draft | None:
    """Of the last axes, if a part has as many elements as these."""
    for first in range(1, len(dims)):
        sizes = dims[first:]
        if same(product(sizes), product(row)) is True and x.dtype is not None:
            scale = NewConstant(np.ones(whole(sizes), x.dtype.numpy()))
            parameters = {"axis": first, "epsilon": epsilon}
            word = WORDS["LayerNormalization"]
            return word.write([x, scale, None], parameters)
    return None


def _epsilon(found: Reading, facts: Facts) -> float | None:
    """Of a normalisation that scales and shifts nothing."""
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
