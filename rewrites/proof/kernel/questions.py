"""Yes-or-no questions about positions, indices and guards, as the prover puts them.

Sound when each answer True is a theorem under the hypotheses given: all of them end in
`smt.proves`. A condition at every axis position is shown at one position of which
nothing is known but its range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import z3

from .scalars import All, Element, FromInt, Guard, Opaque, Symbol, guard_formula
from .smt import (
    POSITION,
    RLIMIT,
    IndexMap,
    Integer,
    Truth,
    both,
    bound,
    known,
    proves,
    same,
    scan,
    within,
)
from .tensors import Context, Tensor

LEVELS = ("struct", "comm", "order", "ring", "field")
COMM, ORDER, RING, FIELD = 1, 2, 3, 4

Hypotheses = tuple[Any, ...]


class Failure(Exception):
    """The terms can't be compared at this level; says why."""


class Questions:
    """What one attempt at one level knows, and the steps it took."""

    def __init__(self, context: Context, level: int) -> None:
        self.context = context
        self.level = level
        self.steps: set[str] = set()
        self.schemas: list[Callable[[Integer], Truth]] = []
        # Polynomials divided by, and the hypotheses under which that was met.
        self.divisors: list[tuple[Any, Hypotheses]] = []
        self.compared: list[Any] = []  # with them, at the moment

    def proves(
        self,
        hypotheses: Hypotheses,
        goal: Truth,
        rlimit: int = RLIMIT,
        patient: bool = False,
    ) -> bool:
        """Do they imply it? Facts about all positions are used at those that occur."""
        value = known(goal)
        if value is not None:
            return value
        goal = at_fresh_variables(goal)
        ground = [h for h in hypotheses if quantifier_free(h)]
        found = self.positions([*ground, goal])
        extra = [schema(k) for k in found for schema in self.schemas]
        if self.context.permutations:
            for k in list(found):
                for f in (f for pair in self.context.permutations for f in pair):
                    if z3.is_const(k):
                        add_new(found, f(k))
            extra += [i for h in hypotheses for i in instances(h, found)]
        return proves((*hypotheses, *extra), goal, rlimit, patient)

    def positions(self, expressions: Sequence[Any]) -> list[Any]:
        """What occurs as the argument of a function of one integer."""
        found: list[Any] = []
        if self.schemas or self.context.permutations:
            for e in expressions:
                for k in scan(e).arguments:
                    add_new(found, k)
        return found

    def at_each(
        self,
        hypotheses: Hypotheses,
        rank: Integer,
        cond: Callable[[Integer], Truth],
        rlimit: int = RLIMIT,
    ) -> bool:
        """Does the condition hold at each position 0 <= k < rank?"""
        if isinstance(rank, int):
            return all(self.proves(hypotheses, cond(k), rlimit) for k in range(rank))
        k = POSITION
        return self.proves((*hypotheses, within(k, rank)), cond(k), rlimit)

    def same_integer(self, a: Integer, b: Integer, hypotheses: Hypotheses) -> bool:
        """Whether two integers are proved equal."""
        return a is b or self.proves(hypotheses, same(a, b))

    def same_index(
        self, a: IndexMap, b: IndexMap, rank: Integer | None, hypotheses: Hypotheses
    ) -> bool:
        """Equal at each position below the rank; at all positions if rank is None."""
        if a is b:
            return True
        if rank is None:
            return self.proves(hypotheses, same(a(POSITION), b(POSITION)))
        return self.at_each(hypotheses, rank, lambda k: same(a(k), b(k)))

    def same_element(self, a: Element, b: Element, hypotheses: Hypotheses) -> bool:
        """The same element of the same tensor."""
        if a.tensor != b.tensor or a.extended != b.extended:
            return False
        if not self.same_integer(a.rank, b.rank, hypotheses):
            return False
        if a.member is None or b.member is None:
            if a.member is not b.member:
                return False
        elif not self.same_integer(a.member, b.member, hypotheses):
            return False
        rank = a.rank if isinstance(a.rank, int) else b.rank
        return self.same_index(a.index, b.index, rank, hypotheses)

    def same_opaque(self, a: Opaque, b: Opaque, hypotheses: Hypotheses) -> bool:
        """The same function of equal tensors at the same index."""
        if a.name != b.name or len(a.tensors) != len(b.tensors):
            return False
        if (a.rank is None) != (b.rank is None):
            return False
        if a.rank is not None and not self.same_integer(a.rank, b.rank, hypotheses):
            return False
        return self.same_index(a.index, b.index, a.rank, hypotheses) and all(
            self.same_tensor(s, t, hypotheses)
            for s, t in zip(a.tensors, b.tensors, strict=True)
        )

    def same_leaf(self, a: object, b: object, hypotheses: Hypotheses) -> bool:
        """Equal symbols, integers, elements or opaque results."""
        if isinstance(a, Symbol) and isinstance(b, Symbol):
            return a.name == b.name
        if isinstance(a, FromInt) and isinstance(b, FromInt):
            return self.same_integer(a.value, b.value, hypotheses)
        if isinstance(a, Element) and isinstance(b, Element):
            return self.same_element(a, b, hypotheses)
        if isinstance(a, Opaque) and isinstance(b, Opaque):
            return self.same_opaque(a, b, hypotheses)
        return False

    def same_tensor(self, a: Tensor, b: Tensor, hypotheses: Hypotheses) -> bool:
        """Whether two tensors are proved equal: rank, sizes, elements."""
        raise NotImplementedError

    def same_guard(self, a: Guard, b: Guard, hypotheses: Hypotheses) -> bool:
        """Equivalent conditions; two `All` are compared position by position."""
        if a is b:
            return True
        if isinstance(a, All) and isinstance(b, All):
            return self.same_all([a], [b], hypotheses)
        return self.proves(hypotheses, guard_formula(a) == guard_formula(b))

    def same_all(
        self, left: Sequence[All], right: Sequence[All], hypotheses: Hypotheses
    ) -> bool:
        """Is the conjunction of the left ones equivalent to that of the right ones?

        With all ranks equal both are conditions at each position, which suffice to
        agree at each position.
        """
        if not left or not right:
            return not left and not right
        rank = left[0].rank
        if not all(
            self.same_integer(rank, g.rank, hypotheses) for g in (*left, *right)
        ):
            return False
        return self.at_each(
            hypotheses,
            rank,
            lambda k: same_truth(
                both(*(g.cond(k) for g in left)), both(*(g.cond(k) for g in right))
            ),
        )


def same_truth(a: Truth, b: Truth) -> Truth:
    """Both conditions hold, or neither."""
    return a == b


def quantifier_free(hypothesis: Any) -> bool:
    """False for a quantified formula; one deeper inside does no harm."""
    return z3.is_expr(hypothesis) and not z3.is_quantifier(hypothesis)


def at_fresh_variables(goal: Any) -> Any:
    """A goal for all values at values nothing is known of."""
    while z3.is_quantifier(goal) and goal.is_forall():
        symbols = [bound("all") for _ in range(goal.num_vars())]
        if any(goal.var_sort(j) != z3.IntSort() for j in range(goal.num_vars())):
            break
        goal = z3.substitute_vars(goal.body(), *symbols)
    return goal


def instances(hypothesis: Any, positions: Sequence[Any]) -> list[Any]:
    """What a hypothesis for all values of one integer says at these."""
    if not z3.is_quantifier(hypothesis) or not hypothesis.is_forall():
        return []
    if hypothesis.num_vars() != 1 or hypothesis.var_sort(0) != z3.IntSort():
        return []
    body = hypothesis.body()
    return [z3.substitute_vars(body, k) for k in positions]


def add_new(found: list[Any], k: Any) -> None:
    """Append an integer term that is not in the list yet."""
    if z3.is_int(k) and not any(z3.eq(k, other) for other in found):
        found.append(k)
