"""Writing at given places, and shapes of results."""

from __future__ import annotations

from ..language.operators.movement import Shape
from ..language.operators.scatter import ScatterND
from ..language.rule import Law, Rule, rule
from ..language.terms import eq, forall, integer
from .law_table import fits


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


def _shape_of_binary(side: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank()
        x, y = law.tensor("x", r), law.operand("y", r)
        if not law.mutant("enlarging"):
            law.require(fits(y, x, r), "the other operand enlarges the first")
        f = law.pointwise("f", 2)
        operands = (x, y) if side == 0 else (y, x)
        law.rewrite(Shape(f(*operands)), Shape(x))

    return rule(
        "indexing",
        name=f"shape_of_binary_{('first', 'second')[side]}",
        statement=f"Shape(f({'x, y' if side == 0 else 'y, x'})) = Shape(x), "
        "where y doesn't enlarge x",
        samples=[dict(x=[2, 3], y=[3], r=2, f="Sub")],
    )(build)


@rule("indexing", false=True)
def scatter_rows_in_any_order(law: Law) -> None:
    """ScatterND(x, i, u) = u, for as many places as x has rows"""
    r = law.rank(low=1)
    n = law.int("n", 0)
    x, u = law.tensor("x", r), law.tensor("u", r)
    i = law.constant("i", 2, kinds="int", sizes=(n, integer(1)))
    law.require(eq(n, x.dim(0)))
    law.require(forall(r, lambda k: eq(u.dim(k), x.dim(k))))
    law.rewrite(ScatterND(x, i, u), u)


RULES: list[Rule] = [
    scatter_everything,
    *(_shape_of_binary(side) for side in range(2)),
]

FALSE_RULES = [scatter_rows_in_any_order]
