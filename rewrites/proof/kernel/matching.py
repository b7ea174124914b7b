"""When two monomials, or two sums of monomials, are equal over the reals.

Two terms are equal when a bijection between what their binders run over makes their
guards equivalent and their atoms equal, pairwise and to the same powers. A polynomial
vanishes when its terms cancel in groups of equal ones; the group's coefficients are
numbers, or integer expressions (`FromInt` factors) that z3 shows to add up to 0.
Answering False is always sound: it only means "not shown".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import lcm
from typing import Any

import z3

from .bijections import Domains
from .integer_terms import mentions
from .monomials import (
    Application,
    Atom,
    Poly,
    Powers,
    Reduction,
    Term,
    guard_truth,
    head,
    negated,
    renamed,
    substitute_atom,
    substitute_poly,
)
from .questions import FIELD, Hypotheses
from .scalars import FromInt
from .smt import both, negate, term
from .substitution import in_guard


class Matching(Domains):
    """Equality of terms and polynomials."""

    def same_term(self, s: Term, t: Term, hypotheses: Hypotheses) -> bool:
        """Equal but for the coefficient."""
        if len(s.binders) != len(t.binders) or signature(s.atoms) != signature(t.atoms):
            return False
        if not (s.binders or s.guards or t.guards):
            return self.same_powers(s.atoms, t.atoms, hypotheses)
        s, t = s.renamed(), t.renamed()
        atoms = [a for a, _ in s.atoms], [a for a, _ in t.atoms]
        inner = (*hypotheses, *t.domain())
        for bijection in self.bijections(s.binders, t.binders, atoms):
            pairs = bijection.pairs
            guards = [(in_guard(g, pairs), v) for g, v in s.guards]
            if not self.same_domain(
                bijection, t.binders, (guards, t.guards), hypotheses
            ):
                continue
            mine = tuple((substitute_atom(a, pairs), n) for a, n in s.atoms)
            if self.same_powers(mine, t.atoms, inner):
                if bijection.step:
                    self.steps.add(bijection.step)
                return True
        return False

    def same_powers(self, s: Powers, t: Powers, hypotheses: Hypotheses) -> bool:
        """Equal atoms to equal powers, in any order."""
        left = list(t)
        for a, n in s:
            for j, (b, m) in enumerate(left):
                if n == m and self.same_atom(a, b, hypotheses):
                    del left[j]
                    break
            else:
                return False
        return not left

    def same_atom(self, a: Atom, b: Atom, hypotheses: Hypotheses) -> bool:
        if head(a) != head(b):
            return False
        if isinstance(a, Application) and isinstance(b, Application):
            return self.same_application(a, b, hypotheses)
        if isinstance(a, Reduction) and isinstance(b, Reduction):
            return self.same_reduction(a, b, hypotheses)
        return self.same_leaf(a, b, hypotheses)

    def same_application(
        self, a: Application, b: Application, hypotheses: Hypotheses
    ) -> bool:
        if len(a.args) != len(b.args):
            return False
        if all(
            self.same_poly(p, q, hypotheses)
            for p, q in zip(a.args, b.args, strict=True)
        ):
            return True
        return (
            a.commutative
            and len(a.args) == 2
            and self.same_poly(a.args[0], b.args[1], hypotheses)
            and self.same_poly(a.args[1], b.args[0], hypotheses)
        )

    def same_reduction(
        self, a: Reduction, b: Reduction, hypotheses: Hypotheses
    ) -> bool:
        """The same kind over equal domains, of equal bodies."""
        if len(a.binders) != len(b.binders):
            return False
        mine, pairs = renamed(a.binders)
        theirs, other = renamed(b.binders)
        body, goal = substitute_poly(a.body, pairs), substitute_poly(b.body, other)
        atoms = [x for t in body for x, _ in t.atoms], [
            x for t in goal for x, _ in t.atoms
        ]
        inner = (*hypotheses, *(c.domain() for c in theirs))
        for bijection in self.bijections(mine, theirs, atoms):
            if self.same_domain(bijection, theirs, ((), ()), hypotheses):
                moved_body = substitute_poly(body, bijection.pairs)
                if self.same_poly(moved_body, goal, inner):
                    if bijection.step:
                        self.steps.add(bijection.step)
                    return True
        return False

    def same_poly(self, p: Poly, q: Poly, hypotheses: Hypotheses) -> bool:
        return self.vanishes((*p, *negated(q)), hypotheses)

    def vanishes(self, poly: Poly, hypotheses: Hypotheses) -> bool:
        """Do the terms cancel in groups of equal ones?"""
        terms = self.tidied(poly, hypotheses)
        if self.level >= FIELD:
            terms = self.tidied(
                self.without_denominators(terms, hypotheses), hypotheses
            )
        left = [split_integers(t) for t in terms]
        while left:
            first, group = left[0][2], [left[0]]
            rest: list[tuple[Any, Any, Term]] = []
            for part in left[1:]:
                same = self.same_term(first, part[2], hypotheses)
                (group if same else rest).append(part)
            if not self.adds_up_to_nothing(group, hypotheses):
                return False
            left = rest
        return True

    def adds_up_to_nothing(
        self, group: Sequence[tuple[Any, Any, Term]], hypotheses: Hypotheses
    ) -> bool:
        """Is the sum of coefficient * factor / divisor 0? No divisor is."""
        if all(f is None and d is None for f, d, _ in group):
            return sum(t.coefficient for _, _, t in group) == 0
        scale = lcm(*(t.coefficient.denominator for _, _, t in group))
        total = z3.IntVal(0)
        for j, (factor, _, t) in enumerate(group):
            others = [
                d for n, (_, d, _) in enumerate(group) if n != j and d is not None
            ]
            factors = [*others, *([] if factor is None else [factor])]
            total = total + int(t.coefficient * scale) * z3.Product(1, *factors)
        return self.proves(hypotheses, total == 0)

    def tidied(self, poly: Poly, hypotheses: Hypotheses) -> Poly:
        """The polynomial without terms that are 0, each term in its simplest form."""
        return tuple(u for t in poly for u in self.tidy(t, hypotheses))

    def tidy(self, t: Term, hypotheses: Hypotheses) -> Poly:
        """Equal atoms merged, powers 0 and idle binders dropped, roots squared out."""
        t = t.renamed() if t.binders else t
        if t.coefficient == 0 or self.is_infeasible(t, hypotheses):
            return ()
        inner = (*hypotheses, *t.domain())
        merged: list[tuple[Atom, int]] = []
        for a, n in t.atoms:
            for j, (b, m) in enumerate(merged):
                if self.same_atom(a, b, inner):
                    merged[j] = (b, m + n)
                    break
            else:
                merged.append((a, n))
        t = replace(t, atoms=tuple((a, n) for a, n in merged if n != 0))
        expanded = self.expanded(t, inner) if self.level >= FIELD else None
        if expanded is not None:
            return self.tidied(expanded, hypotheses)
        return (self.without_idle_binders(t, hypotheses),)

    def is_infeasible(self, t: Term, hypotheses: Hypotheses) -> bool:
        if not t.guards:
            return False
        ranges = tuple(b.domain() for b in t.binders)
        guards = both(*(guard_truth(g, v) for g, v in t.guards))
        if self.proves((*hypotheses, *ranges), negate(guards)):
            self.steps.add("infeasible-branch")
            return True
        return False

    def without_idle_binders(self, t: Term, hypotheses: Hypotheses) -> Term:
        """The sum of b < n equal terms is n of them, for n >= 0."""
        for j in reversed(range(len(t.binders))):
            b, inner = t.binders[j], t.binders[j + 1 :]
            rest = replace(t, binders=inner)
            if b.vec or rest.depends(b.variable):
                continue
            ranges = tuple(c.domain() for c in t.binders[:j])
            if self.proves((*hypotheses, *ranges), b.size >= 0):
                self.steps.add("sum-of-equal-terms")
                binders = (*t.binders[:j], *inner)
                t = replace(t, binders=binders, atoms=(*t.atoms, (FromInt(b.size), 1)))
        return t

    def expanded(self, t: Term, hypotheses: Hypotheses) -> Poly | None:
        raise NotImplementedError

    def without_denominators(self, poly: Poly, hypotheses: Hypotheses) -> Poly:
        raise NotImplementedError


def signature(powers: Powers) -> list[Any]:
    """Equal for equal products; cheap."""
    return sorted((head(a), n) for a, n in powers)


def split_integers(t: Term) -> tuple[Any, Any, Term]:
    """(factor, divisor, rest): the integers in a term that its binders don't change.

    None for no factor or no divisor.
    """
    bound = [b.variable for b in t.binders]
    factor, divisor, rest = None, None, []
    for a, n in t.atoms:
        if not isinstance(a, FromInt) or any(mentions(a.value, b) for b in bound):
            rest.append((a, n))
            continue
        power = z3.Product(*(term(a.value) for _ in range(abs(n))))
        if n > 0:
            factor = power if factor is None else factor * power
        else:
            divisor = power if divisor is None else divisor * power
    return factor, divisor, replace(t, atoms=tuple(rest))
