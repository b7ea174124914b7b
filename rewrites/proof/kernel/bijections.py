"""Bijections between what two lists of binders run over.

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
from dataclasses import dataclass
from typing import Any

import z3

from .integer_terms import mentions
from .monomials import Application, Atom, Binder, Reduction, guard_truth
from .questions import Hypotheses, Questions
from .scalars import All, Element, FromInt, Guard, Opaque
from .smt import IndexMap, both, choose, implies, same, term, within
from .substitution import positions

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
    return not any(mentions(value, b) for b in bound if not same_symbol(b, own))


def same_symbol(a: Any, b: Any) -> bool:
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
    return z3.simplify(e, som=True)


def is_zero(e: Any) -> bool:
    e = expanded(e)
    return bool(z3.is_int_value(e)) and e.as_long() == 0
