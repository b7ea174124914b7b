"""The parts of a graph that are a function of one value.

Element by element, or along rows: then means and the like may stand in it, all over the
same axes, and constants of several elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dims, product, same
from ...analysis.graph.parameters import TRAINS
from ..language.facts import Facts
from ..language.operators.read_write import NoReading, Reading, reading
from .denotation import MEANINGS, REDUCTIONS, RESTORING, Reference, Step, Term

NODES = 40  # of a region at most
CONSTANTS = 4  # of several elements, in a region at most
REGIONS = 12  # that are looked at for one node
NORMS = ("LayerNormalization", "RMSNormalization", "InstanceNormalization")

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


class _Site(NamedTuple):
    """A node that has a meaning, as it was read."""

    read: Reading
    above: tuple[ir.Node, ...]  # what computes its operands in the same graph
    computed: tuple[ir.Value, ...]  # its operands that are no constants
    vectors: int  # how many of its operands are constants of several elements


class Neighbourhoods:
    """The nodes around nodes of a graph, each read once for the inputs that it has."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._sites: dict[ir.Node, tuple[Sequence[ir.Value | None], _Site | None]] = {}

    def site(self, node: ir.Node) -> _Site | None:
        """A node as it is; None if it has no meaning."""
        known = self._sites.get(node)
        if known is None or known[0] is not node.inputs:
            known = self._sites[node] = node.inputs, self._site(node)
        return known[1]

    def _site(self, node: ir.Node) -> _Site | None:
        read = _read(node, self.facts)
        if read is None:
            return None
        is_constant = self.facts.is_constant
        given = [x for x in read.inputs if x is not None]
        above = [
            p
            for p in (x.producer() for x in given)
            if p is not None and p.graph is node.graph and not is_constant(p.outputs[0])
        ]
        computed = tuple([x for x in given if not is_constant(x)])
        return _Site(read, tuple(above), computed, _vectors(node, self.facts))

    def above(self, node: ir.Node) -> list[tuple[ir.Node, _Site]]:
        """The node, after the nearest ones that it is computed by, operands first."""
        own = self.site(node)
        if own is None:
            return []
        near, vectors = {node: own}, own.vectors
        for inner in (queue := [node]):
            for producer in near[inner].above:
                if producer in near or len(near) == NODES:
                    continue
                site = self.site(producer)
                if site is None:
                    continue
                if vectors + site.vectors <= CONSTANTS:
                    vectors += site.vectors
                    near[producer] = site
                    queue.append(producer)
        if TELLING.isdisjoint([inner.op_type for inner in near]):
            return []
        return [(inner, near[inner]) for inner in _in_order(node, near)]


def regions(node: ir.Node, around: Neighbourhoods) -> Iterator[Region]:
    """The regions of at least two nodes that end at a node, smallest first.

    Each value that all ways from the operands to the node go through begins one. Sums
    and products alone are none, nor what reads constants but along rows.
    """
    facts, root = around.facts, node.outputs[0]
    waiting: dict[ir.Value, None] = {root: None}
    inside: list[tuple[ir.Node, Reading]] = []
    axes: frozenset[int] | None = None
    telling, count = False, 0
    for inner, site in reversed(around.above(node)):
        waiting.pop(inner.outputs[0])
        inside.append((inner, site.read))
        telling = telling or inner.op_type in TELLING
        waiting.update(dict.fromkeys(site.computed))
        if inner.op_type in REDUCTIONS:
            given = site.read.parameters
            over = given["axes"] if "axes" in given else frozenset([given["axis"]])
            kept = given.get("keepdims", 1) or _is_restored(inner, facts, NODES)
            if over != (axes or over) or not kept:
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


def _in_order(node: ir.Node, among: Mapping[ir.Node, _Site]) -> list[ir.Node]:
    """The node after those among some that it is computed by, operands first."""
    order: list[ir.Node] = []
    seen = {node}
    stack = [(node, iter(among[node].above))]
    while stack:
        inner, above = stack[-1]
        for producer in above:
            if producer in among and producer not in seen:
                seen.add(producer)
                stack.append((producer, iter(among[producer].above)))
                break
        else:
            order.append(inner)
            stack.pop()
    return order


def _restores(node: ir.Node, facts: Facts) -> bool:
    """Whether it gives a reduction its axes back, as axes of size 1."""
    if node.op_type not in RESTORING or node.domain or node.inputs[0] is None:
        return False
    inner = node.inputs[0].producer()
    for _ in range(NODES):
        above = None if inner is None else _only_operand(inner, facts)
        if above is None:
            break
        inner = above.producer()
    read = None if inner is None else _read(inner, facts)
    x = None if read is None else read.inputs[0]
    if read is None or x is None or read.parameters.get("keepdims", 1):
        return False
    over, dims = read.parameters["axes"], facts.dims(x)
    kept = tuple(1 if k in over else n for k, n in enumerate(dims or ()))
    return dims is not None and facts.dims(node.outputs[0]) == kept


def _is_restored(node: ir.Node, facts: Facts, most: int) -> bool:
    """Whether all that uses a node gets axes back, number by number until then."""
    return most > 0 and all(
        _restores(user, facts)
        or (
            _only_operand(user, facts) is not None
            and _is_restored(user, facts, most - 1)
        )
        for user, _ in node.outputs[0].uses()
    )


def _only_operand(node: ir.Node, facts: Facts) -> ir.Value | None:
    """What a node computes with beside numbers, element by element."""
    if node.op_type in REDUCTIONS or node.op_type in RESTORING:
        return None
    read = _read(node, facts)
    given = [] if read is None else [x for x in read.inputs if x is not None]
    others = [x for x in given if _number(x, facts) is None]
    return others[0] if len(others) == 1 else None


def _vectors(node: ir.Node, facts: Facts) -> int:
    """How many of its operands are constants of several elements."""
    if node.op_type == "MatMul" or node.op_type in RESTORING:
        return 0
    return sum(
        x is not None and facts.is_constant(x) and _number(x, facts) is None
        for x in node.inputs
    )


def _read(node: ir.Node, facts: Facts) -> Reading | None:
    if node.domain or node.op_type not in MEANINGS or len(node.outputs) != 1:
        return None
    if node.op_type in RESTORING:
        return Reading((node.inputs[0],), {}) if _restores(node, facts) else None
    if node.op_type == "MatMul":
        return _row_sum(node, facts)
    try:
        read = reading(node, facts)
    except NoReading:
        return None
    if node.op_type in ("GlobalAveragePool", "AveragePool"):
        return _mean_of_image(read, facts)
    if node.op_type in NORMS:
        dims = None if read.inputs[0] is None else facts.dims(read.inputs[0])
        axes = range(read.parameters.get("axis", 2), len(dims or ()))
        given = {"axes": frozenset(axes), "epsilon": read.parameters["epsilon"]}
        return Reading(read.inputs, given) if axes else None
    return (
        read if node.op_type != "Cast" or read.parameters["source"] == "BOOL" else None
    )


def _mean_of_image(read: Reading, facts: Facts) -> Reading | None:
    """A mean over all axes of an image, or in one window over all of it."""
    x, given = read.inputs[0], read.parameters
    dims = () if x is None else facts.dims(x) or ()
    if given and (given["kernel"][2:] != dims[2:] or any(given["low"] + given["high"])):
        return None
    axes = frozenset(range(2, len(dims)))
    return Reading((x,), {"axes": axes, "keepdims": 1}) if axes else None


def _row_sum(node: ir.Node, facts: Facts) -> Reading | None:
    """A product that is a sum along the last axis."""
    dims = [facts.dims(x) or () for x in node.inputs if x is not None]
    if not all(dims):
        return None
    return _of_matrix(node, dims, facts) or _of_rows(node, dims, facts)


def _of_matrix(node: ir.Node, dims: Sequence[Dims], facts: Facts) -> Reading | None:
    """A product with a column of one number, or a square of one with another in its
    diagonal."""
    x, matrix = node.inputs
    last, sizes = len(dims[0]) - 1, dims[1]
    if matrix is None or not last or dims[0][-1] != sizes[0] or matrix.meta.get(TRAINS):
        return None
    given: dict[str, Any] = {"axes": frozenset([last]), "keepdims": len(sizes) - 1}
    each = _number(matrix, facts)
    if each is not None and sizes[1:] in ((), (1,), sizes[:1]):
        return Reading((x,), {**given, "each": each})
    if sizes[1:] != sizes[:1] or (array := facts.array(matrix)) is None or each == 0:
        return None
    if sizes[0] == 1 or array[0, 1] != array[1, 0] or array[0, 0] != array[1, 1]:
        return None  # most matrices are told by that
    one, each = float(array[0, 0]), float(array[0, 1])
    if not (array == np.where(np.eye(len(array), dtype=bool), one, each)).all():
        return None
    return Reading((x,), {**given, "each": each, "itself": one - each})


def _of_rows(node: ir.Node, dims: Sequence[Dims], facts: Facts) -> Reading | None:
    """Products of rows with rows that were made columns."""
    if len(dims[0]) < 3 or dims[0][-2] != 1 or dims[1][-1] != 1:
        return None
    found = []
    for x in node.inputs:
        above = None if x is None else x.producer()
        ops = RESTORING if above is not None and not above.domain else ()
        row = above.inputs[0] if above is not None and above.op_type in ops else None
        sizes = None if row is None else facts.dims(row)
        if not sizes or dims[0][-1] != sizes[-1]:
            return None
        found.append((row, sizes))
    (x, sizes), (y, others) = found
    if sizes != others or same(product(sizes), product(dims[0])) is not True:
        return None
    if product(dims[0][:-2]) != product(dims[1][:-2]) or len(dims[0]) != len(dims[1]):
        return None
    return Reading((x, y), {"axes": frozenset([len(sizes) - 1]), "keepdims": 0})


def _number(value: ir.Value, facts: Facts) -> float | None:
    """The number that a constant is throughout, if it isn't one by chance: biases that
    nobody has trained are 0."""
    tensor = value.const_value
    if tensor is None or (tensor.size > 1 and value.meta.get(TRAINS)):
        return None
    found = facts.uniform(value)
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
