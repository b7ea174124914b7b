"""What a graph costs: arithmetic operations, and the bytes of intermediate values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import onnx_ir as ir

from ..errors import MALFORMED
from ..graph.dims import Dim, ceildiv, plain, product, simplify
from ..graph.shape_facts import NodeFacts, ShapeFacts
from ..graph.traversal import all_nodes
from ..ops import lookup
from ..ops.facts.flop_counts import total


@dataclass(frozen=True)
class GraphCost:
    """The cost of one graph; sizes that are not fixed stay symbols.

    `nodes` counts those of branches and loop bodies too, but neither Constant nodes nor
    initializers. `flops` and `intermediate_bytes` (values that are neither inputs,
    results nor constants of the graph, and that something reads) are of the main graph
    alone. What could not be counted is missing from them: operators in `unknown`,
    sorted, and `unsized` values.
    """

    nodes: int
    flops: Dim
    intermediate_bytes: Dim
    unknown: tuple[str, ...] = ()
    unsized: int = 0

    def at(self, sizes: Mapping[str, int]) -> GraphCost:
        """The same with numbers for the symbols of these names."""
        return replace(
            self,
            flops=_at(self.flops, *sizes.items()),
            intermediate_bytes=_at(self.intermediate_bytes, *sizes.items()),
        )


def graph_cost(model: ir.Model, shapes: ShapeFacts) -> GraphCost:
    """The cost of a model, given the sizes of its values; functions count as one node.

    `shapes` are those that analysis.shapes.infer found for this very model.
    """
    counts: list[Dim] = []
    sizes: list[Dim] = []
    unknown: set[str] = set()
    unsized = 0
    for node in model.graph:
        count = flops(node, shapes)
        if count is None:
            unknown.add(f"{node.domain}::{node.op_type}".removeprefix("::"))
        else:
            counts.append(count)
        for value in node.outputs:
            if not _is_intermediate(value):
                continue
            size = _bytes(value, shapes)
            if size is None:
                unsized += 1
            else:
                sizes.append(size)
    nodes = sum(not is_constant(node) for node in all_nodes(model.graph))
    return GraphCost(
        nodes, total(counts), total(sizes), tuple(sorted(unknown)), unsized
    )


def flops(node: ir.Node, shapes: ShapeFacts) -> Dim | None:
    """How many arithmetic operations a node takes, as ops/facts/flop_counts.py counts.

    None for an operator of which that is not said, and where a needed size is unknown
    or isn't there.
    """
    op = lookup(node)
    if op is None:
        return 0 if is_constant(node) else None
    try:
        return op.count_flops(NodeFacts(node, shapes))
    except MALFORMED:  # of other axes than the operator takes: spelling it refuses them
        return None


@lru_cache(maxsize=65536)
def _at(dim: Dim, *sizes: tuple[str, int]) -> Dim:
    dim, numbers = plain(dim), dict(sizes)
    if isinstance(dim, int):
        return dim
    # By name: a size that no input carries is a symbol of another kind.
    known = {s: numbers[s.name] for s in dim.free_symbols if s.name in numbers}
    return simplify(dim.subs(known))


def is_constant(node: ir.Node) -> bool:
    """Whether a node is Constant of ONNX."""
    return node.op_type == "Constant" and not node.domain


def _is_intermediate(value: ir.Value) -> bool:
    node = value.producer()
    return (
        node is not None
        and not is_constant(node)
        and not value.is_graph_output()
        and bool(value.uses())
    )


def bytes_of(
    value: ir.Value, shapes: ShapeFacts, sizes: Mapping[str, int]
) -> Dim | None:
    """The bytes of one value at these sizes; None if its type or rank is not known."""
    count = _bytes(value, shapes)
    return None if count is None else _at(count, *sizes.items())


def _bytes(value: ir.Value, shapes: ShapeFacts) -> Dim | None:
    """None if its size is not known, and for what is no tensor of numbers."""
    dims, dtype = shapes.dims(value), value.dtype
    if dims is None or dtype is None or dtype == ir.DataType.STRING:
        return None
    return ceildiv(product([dtype.bitwidth, *dims]), 8)
