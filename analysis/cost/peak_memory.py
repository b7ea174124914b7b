"""How many bytes of intermediate values are alive at a time, at given sizes.

Values are those of the main graph that something computes and something reads, results
included, inputs and constants not. A view (Reshape, Transpose ...) is the value that it
looks at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from ..graph.shape_facts import ShapeFacts
from ..graph.traversal import reads_of
from ..ops import lookup
from .graph_cost import bytes_of


@dataclass(frozen=True)
class Memory:
    """`planned`: each value is dropped behind its last reader, in the graph's order.
    `bound`: what one operator reads and gives, the least that any order needs."""

    planned: int
    bound: int


def peak_memory(
    model: ir.Model, shapes: ShapeFacts, sizes: Mapping[str, int]
) -> Memory | None:
    """None where the size of a value isn't known at these `sizes`."""
    viewed: dict[ir.Value, ir.Value] = {}
    last: dict[ir.Value, int] = {}
    size: dict[ir.Value, int] = {}
    nodes = list(model.graph)
    for at, node in enumerate(nodes):
        for value in _read(node, viewed):
            last[value] = at
        op = lookup(node)
        for out in node.outputs:
            if op is not None and op.views:
                source = node.inputs[0]
                assert source is not None
                viewed[out] = viewed.get(source, source)
                continue
            found = bytes_of(out, shapes, sizes)
            if not isinstance(found, int):
                return None
            size[out], last[out] = found, at
    for out in model.graph.outputs:
        last[viewed.get(out, out)] = len(nodes)
    alive = planned = bound = 0
    for at, node in enumerate(nodes):
        made = [out for out in node.outputs if out in size]
        alive += sum(size[out] for out in made)
        planned = max(planned, alive)
        both = {*made, *(value for value in _read(node, viewed) if value in size)}
        bound = max(bound, sum(size[value] for value in both))
        alive -= sum(size[value] for value in both if last[value] == at)
    return Memory(planned, bound)


def _read(node: ir.Node, viewed: Mapping[ir.Value, ir.Value]) -> set[ir.Value]:
    """What a node reads itself or through a view; its subgraphs count as one."""
    return {viewed.get(value, value) for value in reads_of(node)}
