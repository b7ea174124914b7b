"""Facts of a graph that is being rewritten: what is constant is known at any depth."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ...analysis.graph.constants import RANDOM
from ...analysis.graph.parameters import is_parameter
from ...analysis.graph.shape_facts import ShapeFacts
from ..language.facts import Facts


class GraphFacts(Facts):
    """The measure that ends rewriting weighs no constants, so it needs them exactly:
    a constant that is taken for none once it is computed in more steps would let the
    weight rise again."""

    def __init__(self, shapes: ShapeFacts) -> None:
        super().__init__(shapes)
        self._depends: dict[ir.Value, bool] = {}  # on the model's inputs
        self._trains: dict[ir.Value, bool] = {}  # is a parameter, or made of one

    def is_constant(self, value: ir.Value) -> bool:
        """Whether a value doesn't depend on the model's inputs."""
        known = self._depends.get(value)
        return not (_above(value, _at_once, self._depends) if known is None else known)

    def holds_parameter(self, value: ir.Value) -> bool:
        """Whether a constant is a parameter, or computed from one."""
        return _above(value, _trains_itself, self._trains)

    def replaced(self, old: ir.Value, new: ir.Value) -> None:
        """Forget what depends on `old`, whose users get `new` in its place next."""
        changed = self.is_constant(old) != self.is_constant(new)
        super().replaced(old, new)
        if changed:
            self._depends.clear()
        if self._trains:
            self._trains.pop(new, None)
            if self.holds_parameter(old) != self.holds_parameter(new):
                self._trains.clear()


def _above(
    value: ir.Value,
    at_once: Callable[[ir.Value], bool | None],
    known: dict[ir.Value, bool],
) -> bool:
    """Whether something holds of a value or of one that it is computed from.

    `at_once` tells it of one value, or says None: then its operands do.
    """
    stack = [value]
    while stack:
        at = stack[-1]
        if at not in known:
            found = at_once(at)
            if found is None:
                node = at.producer()
                given = [x for x in node.inputs if x is not None] if node else []
                unknown = [x for x in given if x not in known]
                found = any(known.get(x) for x in given)
                if unknown and not found:
                    stack += unknown
                    continue
            known[at] = found
        stack.pop()
    return known[value]


def _trains_itself(value: ir.Value) -> bool | None:
    if is_parameter(value):
        return True
    return None if value.producer() is not None else False


def _at_once(value: ir.Value) -> bool | None:
    """Whether a value depends on the model's inputs; None if its own inputs say."""
    if value.const_value is not None:
        return value.is_graph_input()
    node = value.producer()
    if node is None or node.domain or not node.inputs or node.op_type in RANDOM:
        return True
    kinds = (a.type for a in node.attributes.data.values())
    return True if ir.AttributeType.GRAPH in kinds else None
