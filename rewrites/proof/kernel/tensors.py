"""Tensors as functions of an index, and the context in which two of them are compared.

A tensor is a rank, the size at each axis position, and a scalar at each index; an index
is itself a function of the axis position. So the rank, axis numbers and permutations
may be symbols, and a proof holds for all of them. What `dim` and `at` say about
positions outside 0 <= k < rank has no meaning and is never compared.

A context is sound when its hypotheses hold wherever the left side of the law is well
formed and the law's precondition holds. Definitions may be added as hypotheses at any
time (an offset is a sum of sizes), because they constrain new symbols only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import z3

from .scalars import All, Guard, Scalar, guard_formula
from .smt import (
    IndexMap,
    Integer,
    choose,
    every,
    formula,
    fresh,
    implies,
    integer,
    remembered,
    term,
    within,
)


@dataclass(eq=False)
class Tensor:
    """rank: integer; dim: axis position -> size; at: index -> scalar.

    `name`: a name unique to the tensor, if it has one. `flat`: the scalar at an offset
    into the row-major elements, if known.
    """

    rank: Integer
    dim: IndexMap
    at: Callable[[IndexMap], Scalar]
    name: str | None = None
    flat: Callable[[Integer], Scalar] | None = None

    def __post_init__(self) -> None:
        self.rank = integer(self.rank)
        self.dim = remembered(self.dim)


@dataclass(eq=False)
class Family:
    """`count` tensors of one rank: dim and at take the member's number first."""

    count: Integer
    rank: Integer
    dim: Callable[[Integer, Integer], Integer]
    at: Callable[[Integer, IndexMap], Scalar]

    def __post_init__(self) -> None:
        self.count, self.rank = integer(self.count), integer(self.rank)

    def member(self, j: Integer) -> Tensor:
        """Tensor number j, 0 <= j < count."""
        return Tensor(self.rank, lambda k: self.dim(j, k), lambda i: self.at(j, i))


def shape(*sizes: Integer) -> IndexMap:
    """The `dim` of a tensor whose rank is the number of sizes."""

    def dim(k: Integer) -> Integer:
        k = integer(k)
        if isinstance(k, int):
            return integer(sizes[k]) if 0 <= k < len(sizes) else 1
        result = integer(sizes[-1]) if sizes else 1
        for j in reversed(range(len(sizes) - 1)):
            result = choose(k == j, sizes[j], result)
        return result

    return dim


@dataclass(eq=False)
class Offsets:
    """Where the members of a concatenation start, and which one a position is in."""

    count: Integer
    sizes: IndexMap
    offset: Any
    selector: Any


@dataclass(eq=False)
class Context:
    """What is known while two tensors are compared, and what remains to be shown.

    scalar_facts: boolean scalars taken as true at the level `order`. evaluated: numbers
    that something is divided by before a law is applied, which it isn't if one is 0.
    """

    hypotheses: list[Any] = field(default_factory=list)
    obligations: list[tuple[str, Any]] = field(default_factory=list)
    permutations: list[tuple[IndexMap, IndexMap]] = field(default_factory=list)
    scalar_facts: list[Scalar] = field(default_factory=list)
    evaluated: list[Scalar] = field(default_factory=list)
    offsets: list[Offsets] = field(default_factory=list)
    on_rhs: bool = False

    def require(self, cond: Guard, what: str = "well-formedness") -> None:
        """A condition of an operator: given on the left, to be shown on the right."""
        if self.on_rhs:
            self.obligations.append((what, guard_formula(cond)))
        else:
            self.assume(cond)

    def require_one(self, *operands: object) -> None:
        """That each of them which is a tensor is one number."""
        for x in operands:
            if isinstance(x, Tensor):
                self.require(All(x.rank, lambda k, x=x: x.dim(k) == 1), "one number")  # type: ignore[misc]

    def assume(self, cond: Guard) -> None:
        """Part of the precondition, or a definition."""
        self.hypotheses.append(guard_formula(cond))

    def assume_each(
        self, rank: Integer, f: IndexMap, cond: Callable[[Integer], Any]
    ) -> None:
        """The condition at each position 0 <= k < rank; used where f(k) occurs."""
        k = fresh("ke")
        body = implies(within(k, rank), formula(cond(k)))
        trigger = term(f(k))
        usable = z3.is_app(trigger) and trigger.num_args() > 0
        self.hypotheses.append(every(k, body, trigger if usable else None))

    def permutation(self, p: IndexMap, inverse: IndexMap, rank: Integer) -> None:
        """Declare that p permutes the positions 0 <= k < rank, with that inverse."""
        self.permutations.append((p, inverse))
        self._maps_back(p, inverse, rank)
        self._maps_back(inverse, p, rank)

    def _maps_back(self, p: IndexMap, inverse: IndexMap, rank: Integer) -> None:
        """p maps positions to positions, and its inverse maps them back."""
        self.assume_each(rank, p, lambda k: within(p(k), rank))
        k = fresh("kp")
        body = implies(within(k, rank), inverse(p(k)) == k)
        self.hypotheses.append(every(k, body, term(inverse(p(k)))))
