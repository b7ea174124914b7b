"""Concat of any number of inputs."""

from __future__ import annotations

from ..language.operators.movement import Concat
from ..language.pattern import Many
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, eq

# Whether other inputs stand before and after one.
PLACES = {"first": (False, True), "last": (True, False), "between": (True, True)}


def _around(law: Law, rank: Int, place: str) -> tuple[list[Many], list[Many]]:
    """The inputs before and after."""
    before, after = PLACES[place]
    return (
        [law.many("before", rank)] if before else [],
        [law.many("after", rank)] if after else [],
    )


def _sample(place: str) -> dict[str, object]:
    names = zip(("before", "after"), PLACES[place], strict=True)
    return {name: [[2, 1], [2, 4]] for name, given in names if given}


def _concat_of_concat(name: str, place: str) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        a = law.axis("a", r)
        before, after = _around(law, r, place)
        inner = law.many("inner", r)
        b = law.axis("b", r) if law.mutant("other_axis") else a
        left = Concat(*before, Concat(inner, axis=b), *after, axis=a)
        law.rewrite(left, Concat(*before, inner, *after, axis=a))

    return rule(
        "concat",
        name=name,
        statement=f"Concat(.., Concat(..), ..) = Concat(.., ..), the inner one {place}",
        samples=[{**_sample(place), "inner": [[2, 3], [2, 2]], "a": 1}],
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
    concat_single,
    _concat_of_empty("concat_of_empty_first", "first"),
    _concat_of_empty("concat_of_empty_last", "last"),
    _concat_of_concat("concat_of_concat_first", "first"),
    _concat_of_concat("concat_of_concat_between", "between"),
    _concat_of_concat("concat_of_concat_last", "last"),
]
