"""DNNFusion's search: algebra applied where it saves operations.

Matching up to associativity and commutativity is NP-complete, so the graph is cut at
operators that have none of the associative, distributive and commutative properties.
Inside each part the rule with the largest cut in FLOPs is applied, again and again,
until none saves any (Niu et al., DNNFusion, PLDI 2021, section 3.1). Every application
lowers the number of operations at the same sizes, so this ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

import onnx_ir as ir
import sympy

from ...analysis.cost.graph_cost import flops
from ...analysis.graph.dims import Dim
from ..language.pattern import Apply, Chain, Many, Term
from ..language.rule import Rule
from .apply import Rewriter
from .history import Application
from .match import Match, Matcher
from .rule_index import index_of
from .termination import dying

# Operators with at least one of the three properties: over sums, products, minima.
PROPERTIES = frozenset(
    "Abs Add And BitShift Conv ConvTranspose Div Exp Gemm Log MatMul Max Min Mul Neg "
    "Or Pow Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Sqrt Sub "
    "Sum".split()
)

SEARCH = "search"  # the phase of such an application, beside those of the catalogue

# Symbols stand for this size when counts are compared: large enough that a size
# counts for more than a number.
NOMINAL = 64


class Search:
    """One graph, searched part by part."""

    def __init__(self, rewriter: Rewriter, rules: Sequence[Rule]) -> None:
        self.history: list[Application] = []
        self.touched: list[ir.Node] = []  # nodes for the engine to look at again
        self._rewriter = rewriter
        self._index = index_of(tuple(rules))
        self._depth = max((_depth(r.law.left[0]) for r in rules), default=0)

    def run(self) -> int:
        """Search all parts; returns how many rules applied."""
        if self._index.operators:
            for part in _partitions(self._rewriter.model.graph):
                self._exhaust(part)
        return len(self.history)

    def _exhaust(self, part: list[ir.Node]) -> None:
        ranked: list[_Ranked] = []
        places = {node: place for place, node in enumerate(part)}
        looks: dict[ir.Node, int] = {}  # how often a node was looked at
        changed: Iterable[ir.Node] = part
        while True:
            for node in changed:
                place = places.setdefault(node, len(places))
                look = looks[node] = looks.get(node, 0) + 1
                for i, match in enumerate(self._matches(node)):
                    saved = self.saving(match)
                    if saved > 0:
                        heappush(ranked, (-saved, place, i, look, node, match))
            changed = self._applied_first(ranked, looks)
            if not changed:
                return

    def _applied_first(
        self, ranked: list[_Ranked], looks: dict[ir.Node, int]
    ) -> list[ir.Node]:
        """Apply the best match that may be; returns the nodes to look at again."""
        while ranked:
            *_, look, node, match = heappop(ranked)
            if look != looks[node] or node.graph is None:
                continue
            done = self._rewriter.apply(match, SEARCH)
            if isinstance(done, Application):
                self.history.append(done)
                new, self._rewriter.touched = self._rewriter.touched, []
                self.touched += new
                return self._around([node, *new])
        return []

    def _around(self, nodes: Iterable[ir.Node]) -> list[ir.Node]:
        """The nodes at which a match may have become another one."""
        found = dict.fromkeys(nodes)
        frontier = list(found)
        for _ in range(self._depth):
            users = dict.fromkeys(
                user for n in frontier for y in n.outputs for user, _ in y.uses()
            )
            frontier = [user for user in users if user not in found]
            found.update(dict.fromkeys(frontier))
        return [n for n in found if n.op_type in PROPERTIES and n.graph is not None]

    def _matches(self, node: ir.Node) -> Iterable[Match]:
        if node.domain or node.op_type not in self._index.operators:
            return
        facts = self._rewriter.facts
        for rule in self._index.rules(node, facts):
            match = Matcher(rule, facts).at(node)
            if match is not None:
                yield match

    def saving(self, match: Match) -> int:
        """Operations that an application saves; 0 if that can't be told."""
        change = self._rewriter.planned(match)
        if isinstance(change, str):
            return 0
        root = match.roots[0].producer()
        assert root is not None
        dead = dying(match.nodes(), match.roots)
        before = [self._count(node) for node in dead]
        trial = self._rewriter.graft.trial(change.drafts, root)
        after = [self._count(node) for node in trial]
        for node in trial:
            node.resize_inputs(0)  # takes the trial off the graph's values again
        if None in after or None in before:
            return 0
        return sum(n or 0 for n in before) - sum(n or 0 for n in after)

    def _count(self, node: ir.Node) -> int | None:
        if all(map(self._rewriter.facts.is_constant, node.outputs)):
            return 0
        found = flops(node, self._rewriter.shapes)
        return None if found is None else _nominal(found)


# What it saves, negative; the place of its node, and its rule's; at which look it was
# found.
_Ranked = tuple[int, int, int, int, ir.Node, Match]


def _depth(term: Term | Many | None) -> int:
    """How many nodes stand one above the other in a pattern."""
    if isinstance(term, Apply):
        return 1 + max(map(_depth, term.node.inputs), default=0)
    if isinstance(term, Chain):
        return len(term.parts) - 1 + max(map(_depth, term.parts))
    return _depth(term.form) if isinstance(term, Many) else 0


def _nominal(count: Dim) -> int | None:
    if isinstance(count, int):
        return count
    sizes: dict[sympy.Symbol, int] = dict.fromkeys(count.free_symbols, NOMINAL)
    found = count.subs(sizes)
    return int(found) if found.is_number else None


def _partitions(graph: ir.Graph) -> list[list[ir.Node]]:
    """The connected parts of a graph once the other operators are taken out."""
    part_of: dict[ir.Node, list[ir.Node]] = {}
    for node in graph:
        if node.domain or node.op_type not in PROPERTIES:
            continue
        part = part_of[node] = [node]
        for x in node.inputs:
            producer = x.producer() if x is not None else None
            other = part_of.get(producer) if producer is not None else None
            if other is None or other is part:
                continue
            small, part = sorted((part, other), key=len)
            part += small
            part_of.update(dict.fromkeys(small, part))
    return list({id(part): part for part in part_of.values()}.values())
