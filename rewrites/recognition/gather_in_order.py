"""A Gather that takes all elements in their order is a Reshape.

torch's exporter writes strides so: the elements in a row, and the place of each.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from ...analysis.graph.dims import same
from ...analysis.ops.facts.index_functions import Count
from ..language.facts import Facts
from ..language.operators.read_write import WORDS, CannotWrite, Draft

STATEMENT = "Gather of all elements in their order = Reshape"


def gather_in_order(node: ir.Node, facts: Facts) -> Draft | None:
    """The Reshape that a node is; None if it is none, or that isn't known."""
    if node.op_type != "Gather" or node.domain:
        return None
    x, places = node.inputs[0], node.inputs[1]
    if x is None or places is None:
        return None
    dims, shape = facts.dims(x), facts.dims(places)
    count = facts.places.of(places)
    if dims is None or len(dims) != 1 or shape is None or not isinstance(count, Count):
        return None
    # The first axis may be of any size, the others are counted.
    inner = shape[1:]
    if same(count.first, 0) is not True or not all(isinstance(n, int) for n in inner):
        return None
    for k, (size, step) in enumerate(zip(shape, count.steps, strict=True)):
        if size != 1 and step != math.prod(shape[k + 1 :]):
            return None
    if same(math.prod(shape), dims[0]) is not True:
        return None
    try:
        return WORDS["Reshape"].write([x], {"shape": shape})
    except CannotWrite:
        return None
