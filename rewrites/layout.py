"""Layouts: which values are computed with their axes in the other order.

A Transpose sinks below one node at a time, by laws that leave it where nothing gets
lighter (rules/sink_movements.py). Channels last around each convolution, with residuals
and gates between them, take many steps that only together take Transposes away. So
all nodes below which a permutation can sink are looked at at once: those that shall
have the order of before it are the one side of a minimal cut, whose capacity is what
Transposes are left (Ford and Fulkerson, Maximal flow through a network, 1956). A plan
is carried out where at most one in four is.

Each step is an application of a law; a plan is made for a graph that is lighter than
the one that the last plan was made for, so this ends as termination.py says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import onnx_ir as ir

from ..analysis.graph.traversal import all_nodes
from ..analysis.lazy import lazy
from .adapters.provenance import SCOPES
from .engine.apply import Rewriter
from .engine.history import LAYOUT, Application
from .engine.match import Matcher
from .engine.termination import weight
from .language.operators.elementwise import pointwise_operands
from .language.operators.movement import Transpose
from .language.operators.read_write import NoReading, reading
from .language.pattern import Apply, Leaf, Many, Pointwise, Term, Var
from .language.rule import Rule
from .language.terms import Perm
from .recognition.movement_chains import permutation

nx: Any = lazy("networkx")

_Perm: TypeAlias = "tuple[int, ...]"
_BEFORE, _AFTER = "before", "after"  # the two sides of a cut
_GONE = 4  # Transposes for one that stays, at least


class _Law(NamedTuple):
    """A law by which a Transpose sinks: what its root is, and what its operands are;
    None if each is transposed. `stays` is False where no Transpose is left."""

    rule: Rule
    root: Any
    operands: tuple[str, ...] | None
    stays: bool


_TURNED = "transposed"


class Layout:
    """The graphs of a model, planned for one permutation after the other."""

    def __init__(
        self, rewriter: Rewriter, rules: Sequence[Rule], lightest: float
    ) -> None:
        self.history: list[Application] = []
        self.touched: list[ir.Node] = []
        self.lightest = lightest  # of the graphs that plans were made for
        self._rewriter, self._facts = rewriter, rewriter.facts
        self._laws = [law for law in map(_law, rules) if law is not None]

    def run(self) -> int:
        """Carry out a plan for each permutation; returns how many laws applied."""
        self.history, self.touched = [], []
        self._rewriter.finish()
        nodes = [*all_nodes(self._rewriter.model.graph)]
        turns: dict[_Perm, list[ir.Node]] = {}
        for node in nodes:
            # Of a module that the file names, the order is what its author wants.
            named = (node.name or "").startswith("/") or SCOPES in node.metadata_props
            perm = None if named else self._perm(node)
            if perm is not None:
                turns.setdefault(perm, []).append(node)
        weighs = weight(nodes, self._facts.is_constant)
        if weighs >= self.lightest:
            return 0
        for perm, entries in turns.items():
            for node in self._chosen(nodes, perm, [n.outputs[0] for n in entries]):
                self._sink(node)
        self.lightest = weighs if self.history else self.lightest
        return len(self.history)

    def _sink(self, node: ir.Node) -> None:
        """Apply the first law that holds at a node whose operands are transposed."""
        for law in self._laws if node.graph is not None else ():
            match = Matcher(law.rule, self._facts).at(node)
            done = "" if match is None else self._rewriter.apply(match, LAYOUT)
            if isinstance(done, Application):
                self.history.append(done)
                new, self._rewriter.touched = self._rewriter.touched, []
                self.touched += new
                return

    def _perm(self, node: ir.Node) -> _Perm | None:
        if node.op_type != "Transpose" or node.domain or node.inputs[0] is None:
            return None
        dims = self._facts.dims(node.inputs[0])
        constant = self._facts.is_constant(node.inputs[0])
        return None if dims is None or constant else (*permutation(node, len(dims)),)

    def _chosen(
        self, nodes: Sequence[ir.Node], perm: _Perm, entries: Sequence[ir.Value]
    ) -> Iterator[ir.Node]:
        """Nodes below which the permutation shall sink, in an order of computation."""
        found: dict[ir.Node, list[ir.Value]] = {}
        turned = dict.fromkeys(entries)
        for node in nodes:
            operands = self._operands(node, turned, perm)
            if operands is not None:
                found[node] = operands
                turned.update(dict.fromkeys(node.outputs))
        net = self._network(found, perm, entries)
        inner = net.subgraph(net.nodes - {_BEFORE, _AFTER})
        before: set[Any] = set()
        for part in nx.weakly_connected_components(inner):
            whole = net.subgraph({*part, _BEFORE, _AFTER})
            now = sum(kept for *_, kept in whole.out_edges(_BEFORE, data="capacity"))
            if now:
                back = whole.reverse(copy=False)  # so that the first side is the least
                left, sides = nx.minimum_cut(back, _AFTER, _BEFORE)
                # Where many stay, blocks that are alike would no longer be.
                before |= sides[1] if _GONE * left <= now else set()
        return (node for node in found if node in before)

    def _network(
        self,
        found: dict[ir.Node, list[ir.Value]],
        perm: _Perm,
        entries: Sequence[ir.Value],
    ) -> Any:
        """A cut through it costs the Transposes that are left if the nodes on its first
        side have the order of before: one for each value that is read in the other
        order, too, and those that lead back to it from the others."""
        first = frozenset(entries)
        net = nx.DiGraph()
        net.add_nodes_from((_BEFORE, _AFTER))

        def add(a: Any, b: Any, capacity: int) -> None:
            known = net.get_edge_data(a, b, {"capacity": 0})["capacity"]
            net.add_edge(a, b, capacity=known + capacity)

        for value in (*entries, *(y for node in found for y in node.outputs)):
            maker = _BEFORE if value in first else value.producer()
            users = dict.fromkeys(user for user, _ in value.uses())
            back = [u for u in users if self._leads_back(u, perm)]
            if value not in first and any(u.op_type == "Transpose" for u in back):
                add(_BEFORE, maker, 1)
            others = [u for u in users if u not in back]
            if value.is_graph_output() or any(u not in found for u in others):
                if value not in first:
                    add(maker, _AFTER, 1)
            elif others:
                add(maker, value, 1)
                for user in others:
                    net.add_edge(value, user)  # no capacity: it isn't cut
        for node, operands in found.items():
            for x in operands:
                if x not in first:
                    net.add_edge(node, x.producer())
        return net

    def _leads_back(self, user: ir.Node, perm: _Perm) -> bool:
        """Whether a user of a transposed value can do without the Transpose."""
        if self._turns_back(user, perm):
            return True
        law = self._law_of(user, stays=False)
        try:
            axes = reading(user, self._facts).parameters.get("axes") if law else None
        except NoReading:
            return False
        rest = [k for i, k in enumerate(perm) if axes is not None and i not in axes]
        return axes is not None and rest == sorted(rest)

    def _operands(
        self, node: ir.Node, turned: Collection[ir.Value], perm: _Perm
    ) -> list[ir.Value] | None:
        """Those that are transposed, if all are that a law wants so."""
        found = [x for x in node.inputs if x is not None and x in turned]
        if not found or any(x.graph is not node.graph for x in found):
            return None
        law = self._law_of(node, stays=True, turned=turned, perm=perm)
        return None if law is None else found

    def _law_of(
        self,
        node: ir.Node,
        stays: bool,
        turned: Collection[ir.Value] | None = None,
        perm: _Perm = (),
    ) -> _Law | None:
        for law in self._laws:
            given = self._given(node, law) if law.stays == stays else None
            if given is None:
                continue
            wanted = law.operands or (_TURNED,) * len(given)
            if turned is None or (
                len(wanted) == len(given)
                and all(
                    x in turned if what == _TURNED else self._is_other(x, what, perm)
                    for x, what in zip(given, wanted, strict=True)
                )
            ):
                return law
        return None

    def _is_other(self, value: ir.Value, what: str, perm: _Perm) -> bool:
        """Whether a constant may have its axes in the other order, or a value has."""
        dims, constant = self._facts.dims(value), self._facts.is_constant(value)
        if what == Leaf.TENSOR.value:
            users = [user for user, _ in value.uses()]
            return not constant and any(self._turns_back(u, perm) for u in users)
        stored = self._rewriter.level == 0 and self._facts.holds_parameter(value)
        return constant and not stored and dims is not None and len(dims) <= len(perm)

    def _turns_back(self, user: ir.Node, perm: _Perm) -> bool:
        other = self._perm(user)
        return other == (*map(perm.index, range(len(perm))),)

    def _given(self, node: ir.Node, law: _Law) -> Sequence[ir.Value] | None:
        """A node's operands, if it is what the law's root is."""
        root = law.root
        symbol = root.parameters.get("f")
        if isinstance(symbol, Pointwise):
            return pointwise_operands(node, symbol.arity, symbol.family, self._facts)
        if (node.op_type, node.domain) != (root.operator.name, root.operator.domain):
            return None
        try:
            read = reading(node, self._facts)
        except NoReading:
            return None
        for name, wanted in root.parameters.items():
            if isinstance(wanted, int | str) and read.parameters[name] != wanted:
                return None
        if root.count != len(node.outputs):
            return None
        return [x for x in read.inputs if x is not None]


def _law(rule: Rule) -> _Law | None:
    """A law by its form; None unless a Transpose is all that moves below its root."""
    left, right = (
        [x.node for x in side if isinstance(x, Apply)]
        for side in (rule.law.left, rule.law.right)
    )
    if len({*left}) != 1 or not right:
        return None
    root, result = left[0], right[0]
    terms = [x for x in root.inputs if x is not None]
    operands = tuple(map(_what, terms))
    stays = result.operator is Transpose
    alone = len(terms) == 1 and result.operator is root.operator
    if _TURNED not in operands or not (stays or alone):
        return None
    if any(isinstance(term, Many) for term in terms):
        return _Law(rule, root, None, stays) if len(terms) == 1 else None
    return _Law(rule, root, operands, stays)


def _what(term: Term | Many) -> str:
    """What a term stands for: what is transposed by any permutation, or a leaf."""
    form = term.form if isinstance(term, Many) else term
    if isinstance(form, Var):
        return form.kind.value
    if not isinstance(form, Apply) or form.node.operator is not Transpose:
        return ""
    return _TURNED if isinstance(form.node.parameters["perm"], Perm) else ""
