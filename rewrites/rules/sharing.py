"""Sums of the same three operands in another order are one.

Equal nodes are one anyway, with their operands in either order (graph_editor.py); here
the two sums have no node in common.
"""

from __future__ import annotations

from ..language.operators.elementwise import Add, And, Mul, Or, Xor
from ..language.pattern import Operator
from ..language.rule import Law, Rule, rule


def _shared(op: Operator, kinds: str) -> Rule:
    @rule(
        "horizontal",
        name=f"{op}_shared".lower(),
        statement=f"{op}({op}(a, b), c), {op}({op}(a, c), b) = the first, twice",
        samples=[dict(r=2, a=[2, 3], b=[2, 3], c=[3])],
    )
    def build(law: Law) -> None:
        r = law.rank()
        a, b, c = (law.operand(name, r, kinds=kinds) for name in "abc")
        first = op(op(a, b), c)
        other = op(op(a, c), a if law.mutant("repeated") else b)
        law.rewrite((first, other), (first, first))

    return build


RULES: list[Rule] = [
    *(_shared(op, "") for op in (Add, Mul)),
    *(_shared(op, "bool") for op in (And, Or, Xor)),
]
