"""When two monomials, or two sums of monomials, are equal over the reals.

Two terms are equal when a bijection between what their binders run over makes their
guards equivalent and their atoms equal, pairwise and to the same powers. A polynomial
vanishes when its terms cancel in groups of equal ones; the group's coefficients are
numbers, or integer expressions (`FromInt` factors) that z3 shows to add up to 0.
Answering False is always sound: it only means "not shown".

Bijections between what two lists of binders run over.

Sound when `same_domain` says True only if the bijection maps the right domain onto the
left one: then a sum, product, maximum or minimum over the one is that of the moved body
over the other. The candidates, which are bijections of all tuples by their form:

  swap         binders paired in another order, each with the same kind of range
  reindex      b = d + c or b = d - c for an integer d that doesn't mention c: one
               binder is shifted by a d that may mention others, or several by d's that
               mention none
  permutation  b(k) = c(p(k)) where b is defined and 0 elsewhere; `same_range` shows by
               the inverse that p is injective on the positions, so onto them, and maps
               what b selects to what c selects
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import Any

import z3

from .integer_terms import mentions
from .monomials import (
    Application,
    Atom,
    Binder,
    Poly,
    Powers,
    Reduction,
    Term,
    atom_depends,
    guard_truth,
    head,
    negated,
    renamed,
    substitute_atom,
    substitute_poly,
)
from .questions import FIELD, Hypotheses, Questions
from .scalars import All, Element, FromInt, Guard, Opaque
from .smt import IndexMap, both, choose, implies, negate, same, term, within
from .substitution import in_guard, positions

Guards = Sequence[tuple[Guard, bool]]
SHIFTS = 8  # per binder


@dataclass(frozen=True)
class Bijection:
    """For each right binder the left one paired with it, and its value in terms of it.

    permutations: per pair, the (p, inverse) used, or None.
    """

    left: tuple[Binder, ...]
    values: tuple[Any, ...]
    permutations: tuple[tuple[IndexMap, IndexMap] | None, ...]
    step: str | None

    @property
    def pairs(self) -> list[tuple[Any, Any]]:
        """Each variable of the left, and what stands for it on the right."""
        return [(b.variable, v) for b, v in zip(self.left, self.values, strict=True)]


class Domains(Questions):
    """Comparing what sums and other reductions run over."""

    def bijections(
        self,
        left: Sequence[Binder],
        right: Sequence[Binder],
        atoms: tuple[list[Atom], list[Atom]],
    ) -> Iterator[Bijection]:
        """Candidates; whether the ranges agree is checked by `same_domain`."""
        if len(left) != len(right):
            return
        none = (None,) * len(right)
        for order in itertools.permutations(left):
            if any(b.vec != c.vec for b, c in zip(order, right, strict=True)):
                continue
            plain = tuple(c.variable for c in right)
            step = None if list(order) == list(left) else "sum-swap"
            yield Bijection(order, plain, none, step)
            for values in shift_candidates(order, right, atoms):
                yield Bijection(order, values, none, "sum-reindex")
            for j, (b, c) in enumerate(zip(order, right, strict=True)):
                if b.vec:
                    for p, inverse in self.declared():
                        values = (*plain[:j], moved(b, c, p), *plain[j + 1 :])
                        used = (*none[:j], (p, inverse), *none[j + 1 :])
                        yield Bijection(order, values, used, "sum-reindex-perm")

    def declared(self) -> Iterator[tuple[IndexMap, IndexMap]]:
        """The law's permutations with their inverses, both ways round."""
        for p, q in self.context.permutations:
            yield p, q
            yield q, p

    def same_domain(
        self,
        bijection: Bijection,
        right: Sequence[Binder],
        guards: tuple[Guards, Guards],
        hypotheses: Hypotheses,
    ) -> bool:
        """Does the bijection map the right domain (ranges and guards) onto the left?

        Ranges of index functions are compared one by one, then everything about
        integers together, then the `All` guards under all that.
        """
        mine: list[Any] = []
        theirs: list[Any] = []
        known: list[Any] = [c.domain() for c in right if c.vec]
        pairs = bijection.pairs
        for b, c, value, p in zip(
            bijection.left, right, bijection.values, bijection.permutations, strict=True
        ):
            b = b.substitute(pairs)
            if not b.vec:
                mine.append(b.domain(value))
                theirs.append(c.domain())
            elif not self.same_range(b, c, p, hypotheses):
                return False
        for side, conditions in zip(guards, (mine, theirs), strict=True):
            conditions += [guard_truth(g, v) for g, v in side if not isinstance(g, All)]
        if not self.proves((*hypotheses, *known), both(*mine) == both(*theirs)):
            return False
        inner = (*hypotheses, *known, *theirs)
        true, true_there = (everywhere(side, True) for side in guards)
        false, false_there = (everywhere(side, False) for side in guards)
        return (
            self.same_all(true, true_there, inner)
            and len(false) == len(false_there)
            and all(
                self.same_all([g], [h], inner)
                for g, h in zip(false, false_there, strict=True)
            )
        )

    def same_range(
        self,
        b: Binder,
        c: Binder,
        permutation: tuple[IndexMap, IndexMap] | None,
        hypotheses: Hypotheses,
    ) -> bool:
        """Do two binders of index functions run over the same functions (moved)?"""
        if not self.same_integer(b.rank, c.rank, hypotheses):
            return False

        def agree(k: Any) -> Any:
            at = permutation[0](k) if permutation else k
            back = permutation[1](at) if permutation else k
            return both(
                within(at, c.rank),
                same(back, k),
                both(b.sel(k)) == both(c.sel(at)),
                implies(b.sel(k), same(b.size(k), c.size(at))),
            )

        return self.at_each(hypotheses, b.rank, agree)


def everywhere(guards: Guards, value: bool) -> list[All]:
    """The `All` guards with that truth value."""
    return [g for g, v in guards if isinstance(g, All) and v == value]


def moved(b: Binder, c: Binder, p: IndexMap) -> IndexMap:
    """The index function c taken at p(k), and 0 where b is not defined."""

    def value(k: Any) -> Any:
        inside = both(within(k, b.rank), b.sel(k))
        return choose(inside, c.variable(p(k)), 0)

    return value


def elements(atoms: Sequence[Atom]) -> Iterator[tuple[str, list[Any]]]:
    """The integers inside atoms, with what they belong to."""
    for a in atoms:
        if isinstance(a, Element):
            yield a.tensor, [leaf for e in places(a) for leaf in leaves(e)]
        elif isinstance(a, FromInt):
            yield "", [term(a.value)]
        elif isinstance(a, Opaque):
            yield a.name, [
                leaf for k in positions(a.rank) for leaf in leaves(a.index(k))
            ]
        elif isinstance(a, Application):
            for p in a.args:
                yield from elements([x for t in p for x, _ in t.atoms])
        elif isinstance(a, Reduction):
            yield from elements([x for t in a.body for x, _ in t.atoms])


def places(element: Element) -> list[Any]:
    """The index expressions of an element, by axis; of an unknown rank also the
    last two.
    """
    out = [element.index(k) for k in positions(element.rank)]
    if not isinstance(element.rank, int):
        out += [element.index(element.rank - 1), element.index(element.rank - 2)]
    return out


def leaves(e: Any) -> list[Any]:
    """The branches of nested choices."""
    if not z3.is_expr(e):
        return []
    e = z3.simplify(e)
    if z3.is_app_of(e, z3.Z3_OP_ITE):
        return leaves(e.arg(1)) + leaves(e.arg(2))
    return [e]


def shift_candidates(
    left: Sequence[Binder],
    right: Sequence[Binder],
    atoms: tuple[Sequence[Atom], Sequence[Atom]],
) -> Iterator[tuple[Any, ...]]:
    """Values for the left binders that make some index of the left one of the right."""
    plain = tuple(c.variable for c in right)
    mine, theirs = list(elements(atoms[0])), list(elements(atoms[1]))
    bound = [x.variable for x in (*left, *right)]
    choices: list[list[Any]] = []
    for j, (b, c) in enumerate(zip(left, right, strict=True)):
        found: list[Any] = []
        if not b.vec:
            for value in solutions(b.variable, c.variable, mine, theirs):
                if len(found) < SHIFTS and not any(z3.eq(value, v) for v in found):
                    found.append(value)
        for value in found:
            yield (*plain[:j], value, *plain[j + 1 :])
        choices.append([v for v in found if free(v, c.variable, bound)])
    if sum(bool(c) for c in choices) > 1:
        options = [[v, *found] for v, found in zip(plain, choices, strict=True)]
        for values in itertools.islice(itertools.product(*options), 4 * SHIFTS):
            if sum(v is not w for v, w in zip(values, plain, strict=True)) > 1:
                yield values


def free(value: Any, own: Any, bound: Sequence[Any]) -> bool:
    """Whether a value mentions no bound variable but its own."""
    return not any(mentions(value, b) for b in bound if not same_symbol(b, own))


def same_symbol(a: Any, b: Any) -> bool:
    """Whether two z3 terms are one symbol."""
    return bool(a.eq(b))


def solutions(
    b: Any,
    c: Any,
    mine: Sequence[tuple[str, list[Any]]],
    theirs: Sequence[tuple[str, list[Any]]],
) -> Iterator[Any]:
    """The d + c and d - c that make an index of the left one of the right, as b."""
    for name, here in mine:
        for e in here:
            if not mentions(e, b):
                continue
            start = z3.substitute(e, (b, z3.IntVal(0)))
            sign = next((s for s in (1, -1) if is_zero(e - s * b - start)), None)
            if sign is None:
                continue
            for other, there in theirs:
                for f in there if other == name else []:
                    if mentions(f, c):
                        value = sign * (f - start)
                        for way in (1, -1):
                            d = expanded(value - way * c)
                            if mentions(d, c) or mentions(d, b):
                                continue
                            if way < 0 or not is_zero(d):
                                yield expanded(d + way * c)


def expanded(e: Any) -> Any:
    """A z3 integer as a sum of products."""
    return z3.simplify(e, som=True)


def is_zero(e: Any) -> bool:
    """Whether a z3 integer is 0 once it is multiplied out."""
    e = expanded(e)
    return bool(z3.is_int_value(e)) and e.as_long() == 0


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
        """Whether two factors are equal by their kind and what they are made of."""
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
        """Whether two applications of one function have equal arguments."""
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
        """Whether the difference of two polynomials vanishes."""
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
        """Is the sum of coefficient * factor / divisor 0?

        A divisor is a size: that it isn't 0 has to be shown, unless it is the same
        throughout.
        """
        if all(f is None and d is None for f, d, _ in group):
            return sum(t.coefficient for _, _, t in group) == 0
        scale = lcm(*(t.coefficient.denominator for _, _, t in group))
        total = z3.IntVal(0)
        divisors = [d for _, d, _ in group]
        alike = all(d is not None and z3.eq(d, divisors[0]) for d in divisors)
        sizes = [] if alike else [d for d in divisors if d is not None]
        if not all(self.proves(hypotheses, d != 0) for d in sizes):
            return False
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
                if not self.same_atom(a, b, inner):
                    continue
                # What doesn't vary with a sum is divided by outside of it too.
                varies = any(atom_depends(a, c.variable) for c in t.binders)
                if self.cancels(a, m, n, inner if varies else hypotheses):
                    merged[j] = (b, m + n)
                    break
            else:
                merged.append((a, n))
        t = replace(t, atoms=tuple((a, n) for a, n in merged if n != 0))
        expanded = self.expanded(t, inner) if self.level >= FIELD else None
        if expanded is not None:
            return self.tidied(expanded, hypotheses)
        return (self.without_idle_binders(t, hypotheses),)

    def cancels(self, a: Atom, m: int, n: int, hypotheses: Hypotheses) -> bool:
        """Is a^m a^n = a^(m + n)? A size that is divided by may be 0."""
        if m * n > 0 or not isinstance(a, FromInt):
            return True
        return self.proves(hypotheses, term(a.value) != 0)

    def is_infeasible(self, t: Term, hypotheses: Hypotheses) -> bool:
        """Whether the conditions of a term exclude each other."""
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
        """A term multiplied out, None if it is already: of the normal form below."""
        raise NotImplementedError

    def without_denominators(self, poly: Poly, hypotheses: Hypotheses) -> Poly:
        """A polynomial times its denominators: of the normal form below."""
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
