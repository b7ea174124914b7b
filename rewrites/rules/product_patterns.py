"""What the rules about matrix products share."""

from __future__ import annotations

from functools import cached_property

from ..language.operators.contraction import MatMul
from ..language.operators.movement import Expand, Squeeze, Unsqueeze
from ..language.pattern import Apply, Term, Var
from ..language.rule import Law
from ..language.terms import Int, Perm, Sizes, axis_range, choose, eq, forall


class Product:
    """x @ w with x of any rank from 2 and a constant matrix w."""

    def __init__(self, law: Law) -> None:
        self.law = law
        self.rank = law.rank(low=2)
        self.x = law.tensor("x", self.rank)
        self.weight = law.constant("w", 2)

    @cached_property
    def left(self) -> Apply:
        """The product, as it is matched."""
        return MatMul(self.x, self.weight)


def row(law: Law, name: str, rank: Int, size: Int) -> tuple[Var, Apply]:
    """A constant operand that differs along the last axis alone, and as a vector."""
    a = law.constant_operand(name, rank)
    if not law.mutant("differs_in_a_column"):
        law.require(
            forall(
                rank, lambda k: eq(a.dim(k), 1) | (eq(k, rank - 1) & eq(a.dim(k), size))
            ),
            "the constant differs along other axes than the last",
        )
    shape = Sizes(rank, lambda k: choose(eq(k, rank - 1), size, 1))
    spread = Expand(a, shape=shape)
    return a, Squeeze(spread, axes=axis_range(rank, 0, rank - 1))


def column(vector: Term) -> Apply:
    """A vector as a matrix with one column."""
    return Unsqueeze(vector, axes=axis_range(2, 1, 2))


def swap(rank: Int) -> Perm:
    """The permutation that transposes matrices."""

    def at(k: Int) -> Int:
        return choose(eq(k, rank - 2), rank - 1, choose(eq(k, rank - 1), rank - 2, k))

    return Perm(rank, at, at)
