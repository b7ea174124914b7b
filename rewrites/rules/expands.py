"""Expand in an operand of an elementwise operator, which broadcasts by itself."""

from __future__ import annotations

from functools import reduce

from ..language.operators.elementwise import Where
from ..language.operators.movement import Expand
from ..language.pattern import Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Bool, Int, eq, forall


def _as_large(law: Law, x: Var, expanded: Term, others: list[Var], q: Int) -> None:
    """Without the Expand the result is as large, by x itself or another operand."""
    if law.mutant("smaller"):
        return
    shift = others[0].rank - q

    def kept(k: Int) -> Bool:
        size = expanded.dim(k)
        by_others = [eq(y.dim(k + shift), size) for y in others]
        return reduce(lambda a, b: a | b, by_others, eq(x.dim(k), size))

    law.require(forall(q, kept), "the result would be smaller")


def _binary(position: int, wide: str) -> Rule:
    """`wide`: which operand has as many axes as the result."""

    def build(law: Law) -> None:
        r = law.rank()
        f = law.pointwise("f", 2)
        if wide == "other":
            q = law.int("q", 0, r)
            x, y = law.operand("x", q), law.tensor("y", r)
        else:
            q = r
            x, y = law.tensor("x", r), law.operand("y", r)
        expanded = Expand(x, shape=law.sizes("s", q))
        _as_large(law, x, expanded, [y], q)
        order = [0, 1] if position == 0 else [1, 0]
        pairs = [(expanded, y), (x, y)]
        law.rewrite(*(f(*(pair[i] for i in order)) for pair in pairs))

    shapes = dict(x=[3], s=[4, 3], y=[2, 4, 3], q=2, r=3)
    if wide == "x":
        shapes = dict(x=[2, 1, 3], s=[2, 4, 3], y=[4, 3], r=3)
    place = "first" if position == 0 else "second"
    return rule(
        "movement",
        name=f"expand_in_{place}_of_two_{'below' if wide == 'other' else 'above'}",
        statement="f(Expand(x), y) = f(x, y), the result being as large",
        samples=[dict(shapes, f="Sub")],
    )(build)


def _where(position: int) -> Rule:
    names = ["c", "a", "b"]

    def build(law: Law) -> None:
        r = law.rank()
        # The operand after the expanded one has as many axes as the result.
        exact = names[(position + 1) % 3]
        operands = [
            law.tensor(n, r, kinds="bool" if n == "c" else "", aligned=n != exact)
            for n in names
        ]
        x = operands[position]
        expanded = Expand(x, shape=law.sizes("s", r))
        others = [y for y in operands if y is not x]
        _as_large(law, x, expanded, others, r)
        left: list[Term] = list(operands)
        left[position] = expanded
        law.rewrite(Where(*left), Where(*operands))

    shapes = {n: [2, 3] for n in names}
    shapes[names[position]] = [1, 3]
    which = ("condition", "then", "else")[position]
    return rule(
        "movement",
        name=f"expand_in_where_{which}",
        statement=f"Where with Expand in its {which} = Where without, as large",
        samples=[dict(shapes, s=[2, 3])],
    )(build)


@rule("movement", samples=[dict(q=1, x=[3], s=[2, 3], f="Exp")], measure="flops")
def unary_of_expand(law: Law) -> None:
    """f(Expand(x)) = Expand(f(x))"""
    x = law.tensor("x", law.rank("q"))
    s = law.sizes("s", law.rank())
    f = law.pointwise("f")
    g = law.pointwise("g") if law.mutant("other_function") else f
    law.rewrite(f(Expand(x, shape=s)), Expand(g(x), shape=s))


@rule("movement", false=True)
def expand_in_two_of_any_size(law: Law) -> None:
    """f(Expand(x), y) = f(x, y), whatever the sizes"""
    r = law.rank()
    x, y = law.tensor("x", r), law.tensor("y", r)
    f = law.pointwise("f", 2)
    law.rewrite(f(Expand(x, shape=law.sizes("s", r)), y), f(x, y))


RULES: list[Rule] = [
    *(_binary(position, wide) for position in (0, 1) for wide in ("other", "x")),
    *(_where(position) for position in range(3)),
    unary_of_expand,
]
FALSE_RULES = [expand_in_two_of_any_size]
