"""Concat of any number of inputs."""

from __future__ import annotations

from ..language.operators.movement import Concat
from ..language.rule import Law, Rule, rule
from ..language.terms import eq


def _concat_of_concat(place: str, *around: str) -> Rule:
    """Inputs stand around the inner one, "before" it, "after" it or both."""

    def build(law: Law) -> None:
        r = law.rank(low=1)
        a = law.axis("a", r)
        before, after = (
            [law.many(name, r)] if name in around else []
            for name in ("before", "after")
        )
        inner = law.many("inner", r)
        b = law.axis("b", r) if law.mutant("other_axis") else a
        left = Concat(*before, Concat(inner, axis=b), *after, axis=a)
        law.rewrite(left, Concat(*before, inner, *after, axis=a))

    given = {name: [[2, 1], [2, 4]] for name in around}
    return rule(
        "concat",
        name=f"concat_of_concat_{place}",
        statement=f"Concat(.., Concat(..), ..) = Concat(.., ..), the inner one {place}",
        samples=[given | {"inner": [[2, 3], [2, 2]], "a": 1}],
    )(build)


def _concat_of_empty(name: str, place: str) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        a = law.axis("a", r)
        x, empty = law.tensor("x", r), law.tensor("empty", r)
        if not law.mutant("any_size"):
            law.require(eq(empty.dim(a), 0), "no input is empty along the axis")
        inputs = [empty, x] if place == "first" else [x, empty]
        law.rewrite(Concat(*inputs, axis=a), x)

    return rule(
        "concat",
        name=name,
        statement=f"Concat(x, empty) = x, the empty one {place}",
        samples=[dict(x=[2, 3], empty=[2, 0], a=1)],
    )(build)


@rule("concat", samples=[dict(x=[2, 3], a=1)])
def concat_single(law: Law) -> None:
    """Concat(x) = x"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    twice = law.mutant("twice")
    law.rewrite(Concat(x, x, axis=a) if twice else Concat(x, axis=a), x)


RULES: list[Rule] = [
    _concat_of_empty("concat_of_empty_first", "first"),
    _concat_of_empty("concat_of_empty_last", "last"),
    _concat_of_concat("first", "after"),
    _concat_of_concat("between", "before", "after"),
    _concat_of_concat("last", "before"),
]
