"""A model's main graph as the planners see it: operators, tensors, their amounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from ..cost.graph_cost import flops, is_constant
from ..cost.typical_sizes import Sizes
from ..graph.shape_facts import ShapeFacts
from ..graph.traversal import reads_of
from ..literals import one_line
from ..ops.registry import ONE_TO_MANY, REORGANIZE, MappingType
from .dag import Dag
from .mapping_types import mapping_type
from .tiling import Tiling, keeps_rows, repeats, tiling


@dataclass(frozen=True)
class Operator:
    """A node: what it does, and what that takes.

    `reads` and `writes` are tensors by position. `moved_bytes` is what it reads and
    writes, constants too; nothing for a view. `row_bytes` is the innermost row of its
    result; `repeats`, `keeps_rows` and `tiling` are explained in tiling.py.
    `signature` is all that its running time depends on.
    """

    name: str
    kind: str
    mapping: MappingType
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    flops: int = 0
    moved_bytes: int = 0
    row_bytes: int = 0
    repeats: int = 1
    keeps_rows: bool = False
    tiling: Tiling | None = None
    signature: str = ""


@dataclass(frozen=True)
class Tensor:
    """A value: a graph input without a producer, or what an operator computes."""

    name: str
    bytes: int
    producer: int | None
    readers: tuple[int, ...]
    returned: bool = False


@dataclass(frozen=True)
class Dataflow:
    """Operators in topological order, and the tensors between them; no constants.

    `assumed` are the numbers that dynamic sizes were taken for.
    """

    operators: tuple[Operator, ...]
    tensors: tuple[Tensor, ...]
    assumed: Mapping[str, int]

    @cached_property
    def dag(self) -> Dag:
        """Which operators read what others write."""
        edges = (
            (t.producer, reader)
            for t in self.tensors
            if t.producer is not None
            for reader in t.readers
        )
        return Dag.of(len(self.operators), edges)

    def between(self, first: int, second: int) -> list[Tensor]:
        """The tensors that `second` reads of what `first` writes."""
        read = set(self.operators[second].reads)
        return [self.tensors[t] for t in self.operators[first].writes if t in read]


def dataflow(model: ir.Model, shapes: ShapeFacts) -> Dataflow:
    """The main graph of a model; a node with branches or a body is one operator.

    `shapes` are those that analysis.shapes.infer found for this very model; dynamic
    sizes are assumed.
    """
    nodes = [node for node in model.graph if not is_constant(node)]
    position = {node: i for i, node in enumerate(nodes)}
    sizes = Sizes(shapes)
    values: dict[ir.Value, int] = {}
    readers: list[list[int]] = []

    def number(value: ir.Value) -> int:
        if value not in values:
            values[value] = len(readers)
            readers.append([])
        return values[value]

    operators = []
    for i, node in enumerate(nodes):
        reads = [number(v) for v in dict.fromkeys(reads_of(node)) if _is_data(v)]
        for tensor in reads:
            readers[tensor].append(i)
        writes = [number(v) for v in node.outputs if v.uses() or v.is_graph_output()]
        operators.append(_operator(node, reads, writes, sizes))
    tensors = tuple(
        Tensor(
            one_line(value.name or "?", 60),
            sizes.bytes(value),
            None if (made := value.producer()) is None else position.get(made),
            tuple(readers[i]),
            value.is_graph_output(),
        )
        for value, i in values.items()
    )
    return Dataflow(tuple(operators), tensors, sizes.taken)


def _is_data(value: ir.Value) -> bool:
    producer = value.producer()
    return value.const_value is None and not (producer and is_constant(producer))


def _operator(
    node: ir.Node, reads: list[int], writes: list[int], sizes: Sizes
) -> Operator:
    mapping = mapping_type(node, sizes.shapes)
    count = flops(node, sizes.shapes)
    dims = sizes.dims(node.outputs[0]) if node.outputs else None
    row = sizes.bytes(node.outputs[0], dims[-1:]) if dims is not None else 0
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return Operator(
        one_line(node.name or "?", 60),
        one_line(kind, 60),
        mapping,
        tuple(reads),
        tuple(writes),
        0 if count is None else sizes.number(count),
        _moved(node, mapping, sizes),
        row,
        repeats(node, mapping, sizes) if node.outputs else 1,
        keeps_rows(node, mapping, sizes),
        tiling(node, mapping, sizes),
        _signature(node, sizes),
    )


def _moved(node: ir.Node, mapping: MappingType, sizes: Sizes) -> int:
    written = sum(sizes.bytes(v) for v in node.outputs)
    if mapping is REORGANIZE:
        return 0
    if node.op_type == "Slice" or (mapping is ONE_TO_MANY and "Gather" in node.op_type):
        return 2 * written  # of the operand only what is asked for
    return written + sum(sizes.bytes(v) for v in node.inputs if v is not None)


def _signature(node: ir.Node, sizes: Sizes) -> str:
    def spelled(values: Iterator[ir.Value | None]) -> str:
        return ", ".join(
            "-" if v is None else f"{v.dtype}{list(sizes.dims(v) or '?')}"
            for v in values
        )

    settings = sorted(
        f"{name}={attribute.value}"
        for name, attribute in node.attributes.items()
        if attribute.type
        in (ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING)
    )
    text = f"{node.domain}.{node.op_type}({spelled(iter(node.inputs))})"
    return f"{text} -> {spelled(iter(node.outputs))} {' '.join(settings)}"
