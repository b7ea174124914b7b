"""The parts of a graph that are a function of one value.

Element by element, or along rows: then means and the like may stand in it, all over the
same axes, and constants of several elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from ..language.facts import Facts
from ..language.operators.read_write import NoReading, Reading, reading
from .denotation import MEANINGS, REDUCTIONS, Reference, Step, Term

NODES = 40  # of a region at most
CONSTANTS = 4  # of several elements, in a region at most
REGIONS = 12  # that are looked at for one node

# One of these stands in every spelling of a function but a sum, a product or a power.
TELLING = REDUCTIONS.keys() | frozenset(
    "Abs Celu Clip Elu Erf Exp Gelu HardSigmoid HardSwish LeakyRelu Log Max Min Mish "
    "PRelu Relu Selu Sigmoid Sign Softplus Softsign Sqrt Swish Tanh ThresholdedRelu "
    "Where Cast".split()
)


@dataclass(frozen=True)
class Region:
    """What computes `root` from `base` alone: its term, and its nodes, root first."""

    root: ir.Value
    base: ir.Value
    term: Term
    nodes: tuple[ir.Node, ...]
    axes: frozenset[int] | None  # that its reductions go over; None without any

    @property
    def constants(self) -> bool:
        """Whether it reads constants of several elements."""
        return any(
            isinstance(x, ir.Value) for step in self.term.steps for x in step.operands
        )


def regions(node: ir.Node, facts: Facts) -> Iterator[Region]:
    """The regions of at least two nodes that end at a node, smallest first.

    Each value that all ways from the operands to the node go through begins one. Sums
    and products alone are none, nor what reads constants but along rows.
    """
    order = _above(node, facts)
    if not any(inner.op_type in TELLING for inner in order):
        return
    root = node.outputs[0]
    waiting: dict[ir.Value, None] = {root: None}
    inside: list[tuple[ir.Node, Reading]] = []
    axes: frozenset[int] | None = None
    telling, count = False, 0
    for inner in reversed(order):
        waiting.pop(inner.outputs[0])
        read = reading(inner, facts)
        inside.append((inner, read))
        telling = telling or inner.op_type in TELLING
        for x in read.inputs:
            if x is not None and not facts.is_constant(x):
                waiting[x] = None
        if inner.op_type in REDUCTIONS:
            over = read.parameters["axes"]
            if over != (axes or over) or not read.parameters["keepdims"]:
                return
            axes = over
        if len(waiting) == 1 and len(inside) > 1 and telling and count < REGIONS:
            (base,) = waiting
            if _alike(base, root, facts):
                count += 1
                term, nodes = _term(base, inside, facts), _nodes(inside)
                yield Region(root, base, term, nodes, axes)


def _nodes(inside: list[tuple[ir.Node, Reading]]) -> tuple[ir.Node, ...]:
    return tuple(node for node, _ in inside)


def _alike(base: ir.Value, root: ir.Value, facts: Facts) -> bool:
    """Whether two values have one float type and one shape."""
    dtype = base.dtype
    if dtype is None or dtype is not root.dtype or not dtype.is_floating_point():
        return False
    dims = facts.dims(base)
    return dims is not None and dims == facts.dims(root)


def _above(node: ir.Node, facts: Facts) -> list[ir.Node]:
    """The node, after the nearest ones that it is computed by, operands first."""
    if not _is_read(node, facts) or _vectors(node, facts):
        return []
    near, vectors = {node: None}, 0
    for inner in (queue := [node]):
        for x in inner.inputs:
            producer = None if x is None else x.producer()
            if producer is None or producer in near or len(near) == NODES:
                continue
            if producer.graph is not node.graph or not _is_read(producer, facts):
                continue
            if facts.is_constant(producer.outputs[0]):
                continue
            vectors += _vectors(producer, facts)
            if vectors <= CONSTANTS:
                near[producer] = None
                queue.append(producer)
    return _in_order(node, near)


def _in_order(node: ir.Node, among: dict[ir.Node, None]) -> list[ir.Node]:
    """The node after those among some that it is computed by, operands first."""
    order: list[ir.Node] = []
    seen = {node}
    stack = [(node, iter(node.inputs))]
    while stack:
        inner, inputs = stack[-1]
        for x in inputs:
            producer = None if x is None else x.producer()
            if producer is not None and producer in among and producer not in seen:
                seen.add(producer)
                stack.append((producer, iter(producer.inputs)))
                break
        else:
            order.append(inner)
            stack.pop()
    return order


def _vectors(node: ir.Node, facts: Facts) -> int:
    """How many of its operands are constants of several elements."""
    if node.op_type in REDUCTIONS:
        return 0
    return sum(
        x is not None and facts.is_constant(x) and _number(x, facts) is None
        for x in node.inputs
    )


def _is_read(node: ir.Node, facts: Facts) -> bool:
    if node.domain or node.op_type not in MEANINGS or len(node.outputs) != 1:
        return False
    try:
        read = reading(node, facts)
    except NoReading:
        return False
    return node.op_type != "Cast" or read.parameters["source"] == "BOOL"


def _number(value: ir.Value, facts: Facts) -> float | None:
    """The number that a constant is throughout."""
    found = facts.uniform(value) if value.const_value is not None else None
    if found is None or isinstance(found, bool) or value.is_graph_input():
        return None
    return float(found)


def _term(base: ir.Value, inside: list[tuple[ir.Node, Reading]], facts: Facts) -> Term:
    places: dict[ir.Value, int] = {base: 0}
    steps = []
    for node, read in reversed(inside):

        def referred(x: ir.Value | None) -> Reference:
            if x is None or x in places:
                return None if x is None else places[x]
            number = _number(x, facts)
            return x if number is None else number

        operands = tuple(map(referred, read.inputs))
        steps.append(Step(node.op_type, read.parameters, operands))
        places[node.outputs[0]] = len(steps)
    return Term(tuple(steps))
