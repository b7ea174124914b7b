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
            known = node.inputs, self._site(node)
            # What reads through a node above depends on that one's operands, too.
            if known[1] is None or {*known[1].read.inputs} <= {*node.inputs}:
                self._sites[node] = known
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
    if root.dtype is None or not root.dtype.is_floating_point():
        return
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
            if over != (axes or over):
                return
            axes = over
        if len(waiting) == 1 and len(inside) > 1 and telling and count < REGIONS:
            (base,) = waiting
            if _fits(base, inside, axes, facts):
                count += 1
                nodes = tuple(node for node, _ in inside)
                yield Region(root, base, _term(base, inside, facts), nodes, axes)


def _fits(
    base: ir.Value,
    inside: list[tuple[ir.Node, Reading]],
    axes: frozenset[int] | None,
    facts: Facts,
) -> bool:
    """Whether each value has a number per element of the base, or one per row, and what
    is computed together means the same rows.

    Numbers of rows may have any sizes, for a view of them keeps their order; beside
    elements they need the base's, with 1 for each axis that was summed over. Times a
    vector they are numbers for parts of a row, 1 where all of an axis has the same.
    """
    root, full, over = inside[0][0].outputs[0], facts.dims(base), axes or frozenset()
    if full is None or base.dtype is not root.dtype:
        return False
    kept = tuple(1 if k in over else n for k, n in enumerate(full))
    dropped = tuple(n for k, n in enumerate(full) if k not in over)
    rows: set[ir.Value] = set()  # those of one number per row
    for node, read in reversed(inside):
        y = node.outputs[0]
        given = [x for x in read.inputs if x is not None and not facts.is_constant(x)]
        of_rows = {facts.dims(x) for x in given if x in rows}
        sizes, elements = facts.dims(y), not rows.issuperset(given)
        if node.op_type in REDUCTIONS:
            if of_rows or any(facts.dims(x) != full for x in given):
                return False
            if sizes != full or full == kept:
                rows.add(y)
        elif node.op_type in RESTORING:
            if elements and sizes != full:
                return False
            rows.update([] if elements else [y])
        elif elements or _vectors(node, facts):
            if of_rows - {kept} or not _is_part(sizes, full, over):
                return False
            rows.update([y] if sizes == kept != full else [])
        elif {sizes} != of_rows:
            return False
        else:
            rows.add(y)
    return facts.dims(root) in ((kept, dropped) if root in rows else (full,))


def _is_part(sizes: Dims | None, full: Dims, over: frozenset[int]) -> bool:
    """Whether a value has the sizes of all elements, or 1 for an axis of its row."""
    if sizes == full or sizes is None or len(sizes) != len(full):
        return sizes == full
    pairs = enumerate(zip(sizes, full, strict=True))
    return all(n == whole or (n == 1 and k in over) for k, (n, whole) in pairs)


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


def _vectors(node: ir.Node, facts: Facts) -> int:
    """How many of its operands are constants of several elements."""
    if node.op_type == "MatMul" or node.op_type in RESTORING:
        return 0
    return sum(
        x is not None and facts.is_constant(x) and number(x, facts) is None
        for x in node.inputs
    )


def _read(node: ir.Node, facts: Facts) -> Reading | None:
    if node.domain or node.op_type not in MEANINGS or len(node.outputs) != 1:
        return None
    if node.op_type in RESTORING:
        x, (y,) = node.inputs[0], node.outputs
        before, after = (() if v is None else facts.dims(v) or () for v in (x, y))
        if node.op_type == "Transpose" and before:
            perm = reading(node, facts).parameters["perm"]
            moved = [k for k in perm if before[k] != 1]
            return Reading((x,), {}) if moved == sorted(moved) else None
        return Reading((x,), {}) if 1 in before + after else None
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
        of_channels = node.op_type == "InstanceNormalization" and _vectors(node, facts)
        return Reading(read.inputs, given) if axes and not of_channels else None
    if node.op_type == "Cast":
        return read if read.parameters["source"] == "BOOL" else None
    return _of_what_is_seen(read, facts) if node.op_type in REDUCTIONS else read


def _of_what_is_seen(read: Reading, facts: Facts) -> Reading:
    """The sum of what a tensor is turned or flattened for alone, as that tensor's."""
    x, over = read.inputs[0], read.parameters.get("axes")
    above = None if x is None else x.producer()
    if (
        x is None
        or over is None
        or above is None
        or above.domain
        or x.is_graph_output()
    ):
        return read
    if any(user.op_type not in REDUCTIONS for user, _ in x.uses()):
        return read
    source, last = above.inputs[0], len(facts.dims(x) or ()) - 1
    dims = None if source is None else facts.dims(source)
    if above.op_type == "Transpose" and dims:
        perm = reading(above, facts).parameters["perm"]
        rest = [axis for k, axis in enumerate(perm) if k not in over]
        if rest != sorted(rest):
            return read
        axes = frozenset(perm[k] for k in over)
    elif above.op_type == "Reshape" and over == {last} and dims and last < len(dims):
        if dims[:last] != (facts.dims(x) or ())[:last]:
            return read
        axes = frozenset(range(last, len(dims)))
    else:
        return read
    return Reading((source, *read.inputs[1:]), {**read.parameters, "axes": axes})


def _mean_of_image(read: Reading, facts: Facts) -> Reading | None:
    """A mean over all axes of an image, or in one window over all of it."""
    x, given = read.inputs[0], read.parameters
    dims = () if x is None else facts.dims(x) or ()
    if given and (given["kernel"][2:] != dims[2:] or any(given["low"] + given["high"])):
        return None
    axes = frozenset(range(2, len(dims)))
    return Reading((x,), {"axes": axes}) if axes else None


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
    given: dict[str, Any] = {"axes": frozenset([last])}
    each = number(matrix, facts)
    if each is not None and sizes[1:] in ((), (1,), sizes[:1]):
        return Reading((x,), {**given, "each": each})
    if sizes[1:] != sizes[:1] or (array := facts.array(matrix)) is None or each == 0:
        return None
    if len(array) < 2 or array[0, 1] != array[1, 0] or array[0, 0] != array[1, 1]:
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
        ops = RESTORING.keys() - {"Transpose"}
        views = above is not None and not above.domain and above.op_type in ops
        row = above.inputs[0] if above is not None and views else None
        sizes = None if row is None else facts.dims(row)
        if not sizes or dims[0][-1] != sizes[-1]:
            return None
        found.append((row, sizes))
    (x, sizes), (y, others) = found
    if sizes != others or same(product(sizes), product(dims[0])) is not True:
        return None
    if product(dims[0][:-2]) != product(dims[1][:-2]) or len(dims[0]) != len(dims[1]):
        return None
    return Reading((x, y), {"axes": frozenset([len(sizes) - 1])})


def number(value: ir.Value, facts: Facts) -> float | None:
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
            known = number(x, facts)
            return x if known is None else known

        operands = tuple(map(referred, read.inputs))
        steps.append(Step(node.op_type, read.parameters, operands))
        places[node.outputs[0]] = len(steps)
    return Term(tuple(steps))
