"""Where with a known or repeated choice, and Trilu."""

from __future__ import annotations

from collections.abc import Callable

from ..language.operators.elementwise import Not, Where
from ..language.operators.movement import Trilu
from ..language.pattern import Term, Var, leaves
from ..language.rule import Law, Rule, rule
from ..language.terms import BoolLike, Int, eq, forall

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
        name=f"where_{name}",
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


def _where_not(exact: str) -> Rule:
    """`exact` names the operand that has as many axes as the result."""

    def build(law: Law) -> None:
        r = law.rank()
        kinds = {"c": "bool", "a": "", "b": ""}
        c, a, b = (
            law.tensor(n, r, kinds=k, aligned=n != exact) for n, k in kinds.items()
        )
        swapped = (a, b) if law.mutant("unswapped") else (b, a)
        law.rewrite(Where(Not(c), a, b), Where(c, *swapped))

    shapes = {n: [3] if n != exact else [2, 3] for n in "cab"}
    return rule(
        "where",
        name=f"where_not_{exact}",
        statement="Where(Not(c), a, b) = Where(c, b, a)",
        samples=[dict(r=2, **shapes)],
    )(build)


Nested = Callable[[Var, Var, Var, Var], tuple[Term, Term]]

# Where(c, .., ..) of which one branch is another Where of c.
NESTED: dict[str, tuple[str, Nested]] = {
    "where_where_then": (
        "Where(c, Where(c, a, b), d) = Where(c, a, d)",
        lambda c, a, b, d: (Where(c, Where(c, a, b), d), Where(c, a, d)),
    ),
    "where_where_else": (
        "Where(c, d, Where(c, a, b)) = Where(c, d, b)",
        lambda c, a, b, d: (Where(c, d, Where(c, a, b)), Where(c, d, b)),
    ),
    "where_where_then_not": (
        "Where(c, Where(Not(c), a, b), d) = Where(c, b, d)",
        lambda c, a, b, d: (Where(c, Where(Not(c), a, b), d), Where(c, b, d)),
    ),
    "where_where_else_not": (
        "Where(c, d, Where(Not(c), a, b)) = Where(c, d, a)",
        lambda c, a, b, d: (Where(c, d, Where(Not(c), a, b)), Where(c, d, a)),
    ),
}


def _kept(right: Term, left: Term, k: Int) -> BoolLike:
    """An operand that stays has the size of the result."""
    found: BoolLike = False
    for leaf in leaves([right]):
        found = eq(leaf.dim(k), left.dim(k)) | found
    return found


def _nested(name: str, statement: str, sides: Nested) -> Rule:
    def build(law: Law) -> None:
        r = law.rank()
        c = law.tensor("c", r, kinds="bool")
        a, b, d = (law.operand(n, r) for n in "abd")
        left, right = sides(c, a, b, d)
        if not law.mutant("enlarged"):
            # The branch that falls away must not be what made the result as large.
            law.require(
                forall(r, lambda k: _kept(right, left, k)),
                "the result would be smaller",
            )
        if law.mutant("other_branch"):
            right = sides(c, b, a, d)[1]
        law.rewrite(left, right)

    return rule("where", name=name, statement=statement, samples=[TENSORS])(build)


# ---- Trilu


def _trilu_trilu(upper: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=2)
        x = law.tensor("x", r)
        first, second = law.int("i"), law.int("j")
        left = Trilu(Trilu(x, k=first, upper=upper), k=second, upper=upper)
        # The smaller triangle of the two.
        if not law.mutant("any_diagonal"):
            smaller = second >= first if upper else second <= first
            law.require(smaller, "the first triangle is the smaller one")
        law.rewrite(left, Trilu(x, k=second, upper=upper))

    side = "upper" if upper else "lower"
    return rule(
        "where",
        name=f"trilu_trilu_{side}",
        statement=f"Trilu(Trilu(x, i), j) = Trilu(x, j), both {side}, j inside i",
        samples=[dict(r=3, x=[2, 4, 5], i=0, j=1 if upper else -1)],
    )(build)


def _trilu_idle(upper: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=2)
        x = law.tensor("x", r)
        k = law.int("k")
        if not law.mutant("any_diagonal"):
            reach = k <= 1 - x.dim(r - 2) if upper else k >= x.dim(r - 1) - 1
            law.require(reach, "a part is cut off")
        law.rewrite(Trilu(x, k=k, upper=upper), x)

    side = "upper" if upper else "lower"
    return rule(
        "where",
        name=f"trilu_everything_{side}",
        statement=f"Trilu(x, {side}) = x, the triangle being the whole matrix",
        samples=[dict(r=2, x=[4, 5], k=-3 if upper else 4)],
    )(build)


RULES: list[Rule] = [
    _known("true", 1),
    _known("false", 0),
    where_same,
    *(_nested(name, *given) for name, given in NESTED.items()),
    *(_where_not(exact) for exact in "cab"),
    *(_trilu_trilu(upper) for upper in (1, 0)),
    *(_trilu_idle(upper) for upper in (1, 0)),
]

NOT_SHIPPED = [
    (
        "where_true_false",
        "Where(c, true, false) = c",
        "true, but no model has it: ONNX Runtime doesn't choose between truth values",
    ),
]
