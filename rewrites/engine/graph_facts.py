"""Facts of a graph that is being rewritten: what is constant is known at any depth."""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.graph.constants import RANDOM
from ...analysis.graph.shape_facts import ShapeFacts
from ..language.facts import Facts


class GraphFacts(Facts):
    """The measure that ends rewriting weighs no constants, so it needs them exactly:
    a constant that is taken for none once it is computed in more steps would let the
    weight rise again."""

    def __init__(self, shapes: ShapeFacts) -> None:
        super().__init__(shapes)
        self._depends: dict[ir.Value, bool] = {}  # on the model's inputs

    def is_constant(self, value: ir.Value) -> bool:
        """Whether a value doesn't depend on the model's inputs."""
        depends, stack = self._depends, [value]
        while stack:
            value = stack[-1]
            if value not in depends:
                found = _at_once(value)
                if found is None:
                    node = value.producer()
                    given = [x for x in node.inputs if x is not None] if node else []
                    unknown = [x for x in given if x not in depends]
                    found = any(depends.get(x) for x in given)
                    if unknown and not found:
                        stack += unknown
                        continue
                depends[value] = found
            stack.pop()
        return not depends[value]

    def replaced(self, old: ir.Value, new: ir.Value) -> None:
        """Forget what depends on `old`, whose users get `new` in its place next."""
        changed = self.is_constant(old) != self.is_constant(new)
        super().replaced(old, new)
        if changed:
            self._depends.clear()


def _at_once(value: ir.Value) -> bool | None:
    """Whether a value depends on the model's inputs; None if its own inputs say."""
    if value.const_value is not None:
        return value.is_graph_input()
    node = value.producer()
    if node is None or node.domain or not node.inputs or node.op_type in RANDOM:
        return True
    kinds = (a.type for a in node.attributes.data.values())
    return True if ir.AttributeType.GRAPH in kinds else None
