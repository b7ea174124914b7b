"""Where with a known or repeated choice."""

from __future__ import annotations

from ..language.operators.elementwise import Where
from ..language.pattern import Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, eq, forall

TENSORS = dict(r=2, x=[2, 3], c=[2, 3], a=[2, 3], b=[3], d=[2, 3])


def _not_enlarged(law: Law, x: Term, *others: Term) -> None:
    """Broadcasting with the others leaves x its shape."""
    if law.mutant("enlarged"):
        return
    for other in others:
        fits = lambda k, y=other: eq(y.dim(k), 1) | eq(y.dim(k), x.dim(k))  # noqa: E731
        law.require(forall(x.rank, fits), "an operand enlarges the result")


def _condition(law: Law, r: Int, name: str = "c") -> Var:
    return law.operand(name, r, kinds="bool")


def _known(name: str, truth: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank()
        x = law.tensor("x", r)
        other = law.operand("other", r)
        c = law.filled("c", r, truth, kinds="bool")
        _not_enlarged(law, x, c, other)
        pair = (x, other) if truth else (other, x)
        law.rewrite(Where(c, *pair), other if law.mutant("other_branch") else x)

    return rule(
        "where",
        name=name,
        statement="Where(true, x, b) = x" if truth else "Where(false, a, x) = x",
        samples=[dict(r=2, x=[2, 3], other=[3], c=[1, 3])],
    )(build)


@rule("where", samples=[dict(TENSORS, c=[3])])
def where_same(law: Law) -> None:
    """Where(c, x, x) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    c = _condition(law, r)
    _not_enlarged(law, x, c)
    law.rewrite(Where(c, x, x), x)


RULES: list[Rule] = [_known("where_true", 1), _known("where_false", 0), where_same]
