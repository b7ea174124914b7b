"""Helpers for laws that put an operator together from its spellings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..language.pattern import Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, RealLike


class Numbers:
    """The constants of a law, each with one element: `n(3)` is one that is 3."""

    def __init__(self, law: Law, rank: Int) -> None:
        self._law, self._rank = law, rank
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"n{self._count}"

    def __call__(self, number: RealLike) -> Var:
        return self._law.full(self._name(), self._rank, number)

    def about(self, number: RealLike) -> Var:
        """One that is this number as far as its type can hold it."""
        return self._law.about(self._name(), self._rank, number)


Left: TypeAlias = Callable[[Term, Numbers], Term]
Right: TypeAlias = Callable[[Term], Term]


def recompose(
    statement: str, left: Left, right: Right, *, name: str, wrong: Mapping[str, Right]
) -> Rule:
    """left = right in one operand x; `wrong` are right sides that aren't equal."""

    def build(law: Law) -> None:
        r = law.rank()
        x = law.tensor("x", r, kinds="float")
        found = right
        for mutant, other in wrong.items():
            if law.mutant(mutant):
                found = other
        law.rewrite(left(x, Numbers(law, r)), found(x))

    sample = dict(r=2, x=[2, 3])
    return rule("recompose", name=name, statement=statement, samples=[sample])(build)
