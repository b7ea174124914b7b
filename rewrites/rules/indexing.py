"""Writing at given places, and shapes of results."""

from __future__ import annotations

from ..language.operators.scatter import ScatterND
from ..language.rule import Law, Rule, rule
from ..language.terms import eq, forall, integer


@rule("indexing", samples=[dict(x=[3, 4], u=[3, 4], i=((0,), (1,), (2,)), n=3)])
def scatter_everything(law: Law) -> None:
    """ScatterND(x, [[0], [1], ..], u) = u, where every row of x is written"""
    r = law.rank(low=1)
    n = law.int("n", 0)
    x, u = law.tensor("x", r), law.tensor("u", r)
    i = law.constant("i", 2, kinds="int", sizes=(n, integer(1)))
    if not law.mutant("some_rows"):
        law.require(eq(n, x.dim(0)), "a row isn't written")
    if not law.mutant("any_order"):
        in_order = forall(n, lambda k: eq(i.element(k, 0), k))
        law.require(in_order, "the rows are written in another order")
    law.rewrite(ScatterND(x, i, u), x if law.mutant("old_rows") else u)


RULES: list[Rule] = [scatter_everything]
