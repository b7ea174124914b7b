"""Apply rules to a graph until none applies.

Each phase has a worklist of nodes: at each, the rules that its form admits
(rule_index.py) are tried in the order of the catalogue. What an application touches is
looked at again by every phase. An application must make the graph lighter by its rule's
measure (measure.py), which is why this ends. Only rules with a valid verdict in
proofs.json come here at all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set

import onnx_ir as ir

from ...analysis.graph.traversal import all_nodes
from ..language.rule import Rule
from ..recognition.recognise import CLASSES, OPERATORS, recognitions
from ..rules.catalogue import PHASES, RECOMPOSE, RULES, SHARE
from .apply import Rewriter
from .flop_search import SEARCH
from .history import Application
from .match import Matcher
from .rule_index import form_of, index_of

_LATE = {"attention_causal", "attention_grouped"}
_EARLY = {"einsum", "heads_added", "movement_chain"}
_PHASED = {"simplify": _EARLY, RECOMPOSE: CLASSES.keys() - _LATE - _EARLY, SHARE: _LATE}


OWN = "own"  # the phase of the user's laws, before those of the catalogue
_PHASES = {
    **{name: phase for phase, names in _PHASED.items() for name in names},
    **{rule.name: phase.name for phase in PHASES for rule in phase.rules},
    **{rule.name: SEARCH for rule in RULES if rule.when == SEARCH},
}


def phase_of(name: str) -> str:
    """When a law is applied, or an operator recognised: the phase in a certificate."""
    return _PHASES.get(name, OWN)


class Worklist:
    """Phases of rules, applied to one graph in turn until none applies."""

    def __init__(
        self, rewriter: Rewriter, phases: Iterable[tuple[str, Sequence[Rule]]]
    ) -> None:
        self.history: list[Application] = []
        self._rewriter = rewriter
        self._lists = [_Worklist(name, tuple(rules)) for name, rules in phases]
        self._lists_of: dict[str, list[_Worklist]] = {}  # by operator
        for worklist in self._lists:
            for op in worklist.index.operators:
                self._lists_of.setdefault(op, []).append(worklist)
        self._recognised = rewriter.classes.keys() & CLASSES.keys()
        for worklist in self._lists if self._recognised else ():
            if worklist.phase in _PHASED:
                for op in OPERATORS - worklist.index.operators.keys():
                    self._lists_of.setdefault(op, []).append(worklist)
        self.push(all_nodes(rewriter.model.graph))

    def push(self, nodes: Iterable[ir.Node]) -> None:
        """Let every phase look at these nodes, if not for the first time."""
        for node in dict.fromkeys(nodes):
            for worklist in self._lists_of.get(node.op_type, ()):
                worklist.queue.setdefault(node)

    def run(self) -> int:
        """Rewrite to a fixpoint; returns how many rules applied."""
        before = len(self.history)
        while worklist := next((each for each in self._lists if each.queue), None):
            self._exhaust(worklist)
        return len(self.history) - before

    def _exhaust(self, worklist: _Worklist) -> None:
        facts = self._rewriter.facts
        queue, admitted = worklist.queue, worklist.index.admitted
        named = self._recognised & _PHASED.get(worklist.phase, set())
        while queue:
            node = queue.popitem(last=False)[0]
            if node.graph is None:
                continue
            if node.domain or not node.outputs:
                continue
            if facts.is_constant(node.outputs[0]):
                continue  # it is folded, not rewritten
            if not (named and self._recognise(node, worklist.phase, named)):
                rules = admitted(facts.forms.get(node) or form_of(node, facts))
                self._visit(node, rules, worklist.phase)

    def _recognise(self, node: ir.Node, phase: str, wanted: Set[str]) -> bool:
        """Name what ends at a node; returns whether anything has changed."""
        for found in recognitions(node, self._rewriter.around, wanted):
            done = self._rewriter.apply_recognised(found, phase)
            if isinstance(done, Application):
                self._note(done, node)
                return True
        return False

    def _visit(self, node: ir.Node, rules: Sequence[Rule], phase: str) -> None:
        for rule in rules:
            match = Matcher(rule, self._rewriter.facts).at(node)
            if match is None:
                continue
            done = self._rewriter.apply(match, phase)
            if isinstance(done, Application):
                self._note(done, node)
                return

    def _note(self, done: Application, node: ir.Node) -> None:
        self.history.append(done)
        self.push([*self._rewriter.touched, node])
        self._rewriter.touched.clear()


class _Worklist:
    """The nodes that the rules of a phase are still to be tried at, in order."""

    def __init__(self, phase: str, rules: tuple[Rule, ...]) -> None:
        self.phase, self.index = phase, index_of(rules)
        self.queue: OrderedDict[ir.Node, None] = OrderedDict()
