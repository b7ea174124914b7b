"""Apply rules to a graph until none applies.

A worklist of nodes: at each, the rules for its operator are tried in the order of the
catalogue. An application must make the graph lighter by its rule's measure
(measure.py), which is why this ends. Only rules with a valid verdict in proofs.json
come here at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from .apply import Rewriter
from .facts import is_constant
from .history import Application
from .match import Matcher
from .rule import Rule


class Engine:
    """One pass of some rules over a graph."""

    def __init__(self, rewriter: Rewriter, rules: Sequence[Rule]) -> None:
        self.history: list[Application] = []
        self._rewriter = rewriter
        self._by_operator: dict[str, list[Rule]] = {}
        for rule in rules:
            for op in rule.roots:
                self._by_operator.setdefault(op, []).append(rule)
        self._queue: deque[ir.Node] = deque()
        self._queued: set[ir.Node] = set()

    def run(self) -> int:
        """Rewrite to a fixpoint; returns how many rules applied."""
        self._push(self._rewriter.model.graph.all_nodes())
        while self._queue:
            node = self._queue.popleft()
            self._queued.discard(node)
            if node.graph is None or node.domain or not node.outputs:
                continue
            if not is_constant(node.outputs[0]):  # that is folded, not rewritten
                self._visit(node)
        return len(self.history)

    def _push(self, nodes: Iterable[ir.Node]) -> None:
        for node in nodes:
            if node.op_type in self._by_operator and node not in self._queued:
                self._queued.add(node)
                self._queue.append(node)

    def _visit(self, node: ir.Node) -> None:
        for rule in self._by_operator.get(node.op_type, ()):
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
