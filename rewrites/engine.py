"""Apply rules to a graph until none applies.

A worklist of nodes: at each, the rules that its form admits (index.py) are tried in the
order of the catalogue. An application must make the graph lighter by its rule's measure
(measure.py), which is why this ends. Only rules with a valid verdict in proofs.json
come here at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from .apply import Rewriter
from .history import Application
from .index import index_of
from .match import Matcher
from .rule import Rule
from .walk import all_nodes


class Engine:
    """One pass of some rules over a graph."""

    def __init__(self, rewriter: Rewriter, rules: Sequence[Rule]) -> None:
        self.history: list[Application] = []
        self._rewriter = rewriter
        self._index = index_of(tuple(rules))
        self._queue: deque[ir.Node] = deque()
        self._queued: set[ir.Node] = set()

    def run(self) -> int:
        """Rewrite to a fixpoint; returns how many rules applied."""
        facts = self._rewriter.facts
        self._push(all_nodes(self._rewriter.model.graph))
        while self._queue:
            node = self._queue.popleft()
            self._queued.discard(node)
            if node.graph is None or node.domain or not node.outputs:
                continue
            rules = self._index.rules(node, facts)
            # A constant is folded, not rewritten.
            if rules and not facts.is_constant(node.outputs[0]):
                self._visit(node, rules)
        return len(self.history)

    def _push(self, nodes: Iterable[ir.Node]) -> None:
        for node in nodes:
            if node.op_type in self._index.operators and node not in self._queued:
                self._queued.add(node)
                self._queue.append(node)

    def _visit(self, node: ir.Node, rules: Sequence[Rule]) -> None:
        for rule in rules:
            match = Matcher(rule, self._rewriter.facts).at(node)
            if match is None:
                continue
            done = self._rewriter.apply(match)
            if isinstance(done, Application):
                self.history.append(done)
                self._push(self._rewriter.touched)
                self._push([node])
                self._rewriter.touched.clear()
                return
