"""Sums of products: what the prover turns scalar terms into at `ring` and `field`.

A polynomial is a list of terms to be added up. A term

    coefficient * sum over the binders, where the guards hold, of the product of atoms

has atoms that stand for finite real numbers, raised to integer powers. Binders are
nested from left to right: the size of one may mention those before it, and a guard or
an atom may mention all. A negative power means that the atom is not 0 (a domain
condition, which the prover records as a step).

Sound when every bound variable is a symbol of its own: a binder is made with a fresh
symbol, and a term is renamed before it is put next to a copy of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from .integer_terms import Substitution, mentions, substitute
from .scalars import Element, FromInt, Guard, Opaque, Red, Symbol, guard_formula
from .smt import (
    Integer,
    Truth,
    both,
    bound,
    bound_function,
    every,
    implies,
    negate,
    proves,
    within,
)
from .substitution import in_guard, in_map, in_scalar, parts, positions


@dataclass(frozen=True, eq=False)
class Binder:
    """A variable and what it runs over; fields as in `Red`."""

    variable: Any
    vec: bool
    size: Any
    rank: Integer
    sel: Callable[[Integer], Truth]

    @classmethod
    def of(cls, red: Red) -> Binder:
        """The variable of a reduction, a fresh one."""
        variable = bound_function("s") if red.vec else bound("s")
        return cls(variable, red.vec, red.size, red.rank, red.sel)

    def domain(self, value: Any = None) -> Any:
        """That the variable (or another value in its place) lies in its range."""
        b = self.variable if value is None else value
        if not self.vec:
            return within(b, self.size)
        if isinstance(self.rank, int):
            return both(
                *(
                    implies(self.sel(k), within(b(k), self.size(k)))
                    for k in range(self.rank)
                )
            )
        k = bound("kd")
        selected = both(within(k, self.rank), self.sel(k))
        pattern = b(k) if value is None else None
        return every(k, implies(selected, within(b(k), self.size(k))), pattern)

    def substitute(self, pairs: Substitution) -> Binder:
        """Symbols replaced in the range; the variable itself stays."""
        if not self.vec:
            return replace(self, size=substitute(self.size, pairs))
        rank = substitute(self.rank, pairs)
        size, sel = in_map(self.size, pairs), in_map(self.sel, pairs)
        return replace(self, size=size, rank=rank, sel=sel)

    def range_mentions(self, symbol: Any) -> bool:
        """Whether the range depends on a symbol."""
        if not self.vec:
            return mentions(self.size, symbol)
        return mentions(self.rank, symbol) or any(
            mentions(e, symbol)
            for k in positions(self.rank)
            for e in (self.size(k), self.sel(k))
        )


@dataclass(frozen=True, eq=False)
class Application:
    """A function nothing is known of here (or exp, sqrt, ...) of real arguments."""

    name: str
    args: tuple[Poly, ...]
    commutative: bool = False


@dataclass(frozen=True, eq=False)
class Reduction:
    """A product, maximum or minimum of a polynomial over the binders."""

    kind: str
    binders: tuple[Binder, ...]
    body: Poly


Atom: TypeAlias = "Element | Symbol | FromInt | Opaque | Application | Reduction"
Powers: TypeAlias = "tuple[tuple[Atom, int], ...]"


@dataclass(frozen=True, eq=False)
class Term:
    """A coefficient times the product of `atoms` to their powers, where all `guards`
    have their truth, summed over the binders.
    """

    coefficient: Fraction = Fraction(1)
    binders: tuple[Binder, ...] = ()
    guards: tuple[tuple[Guard, bool], ...] = ()
    atoms: Powers = ()

    def scaled(self, factor: Fraction | int) -> Term:
        """The term times a number."""
        return replace(self, coefficient=self.coefficient * factor)

    def guarded(self, guard: Guard, value: bool) -> Term:
        """The term where a guard has this truth, and 0 elsewhere."""
        return replace(self, guards=((guard, value), *self.guards))

    def summed(self, binder: Binder) -> Term:
        """The sum of the term over the binder."""
        return replace(self, binders=(binder, *self.binders))

    def domain(self) -> list[Any]:
        """Hypotheses that hold wherever the product of atoms is taken."""
        return [b.domain() for b in self.binders] + [
            guard_truth(g, value) for g, value in self.guards
        ]

    def renamed(self) -> Term:
        """The same term with fresh bound variables."""
        binders, pairs = renamed(self.binders)
        return replace(
            self,
            binders=binders,
            guards=tuple((in_guard(g, pairs), v) for g, v in self.guards),
            atoms=substitute_powers(self.atoms, pairs),
        )

    def substitute(self, pairs: Substitution) -> Term:
        """Free symbols replaced."""
        term = self.renamed() if self.binders else self
        return replace(
            term,
            binders=tuple(b.substitute(pairs) for b in term.binders),
            guards=tuple((in_guard(g, pairs), v) for g, v in term.guards),
            atoms=substitute_powers(term.atoms, pairs),
        )

    def depends(self, symbol: Any) -> bool:
        """Might the value of the term change with the symbol? No is certain."""
        return (
            any(b.range_mentions(symbol) for b in self.binders)
            or any(mentions(guard_formula(g), symbol) for g, _ in self.guards)
            or any(atom_depends(a, symbol) for a, _ in self.atoms)
        )


Poly: TypeAlias = "tuple[Term, ...]"


def negated(poly: Iterable[Term]) -> Poly:
    """The polynomial times -1."""
    return tuple(t.scaled(-1) for t in poly)


def guard_truth(guard: Guard, value: bool) -> Any:
    """The formula that says that a guard has this truth."""
    plain = guard_formula(guard)
    return plain if value else negate(plain)


def renamed(
    binders: Sequence[Binder], pairs: Sequence[tuple[Any, Any]] = ()
) -> tuple[tuple[Binder, ...], list[tuple[Any, Any]]]:
    """Fresh variables for the binders, and the substitution that goes with them."""
    out, done = [], list(pairs)
    for b in binders:
        variable = bound_function("s") if b.vec else bound("s")
        out.append(replace(b.substitute(done), variable=variable))
        done.append((b.variable, variable))
    return tuple(out), done


def substitute_powers(atoms: Powers, pairs: Substitution) -> Powers:
    """A product with symbols replaced."""
    return tuple((substitute_atom(a, pairs), n) for a, n in atoms)


def substitute_poly(poly: Poly, pairs: Substitution) -> Poly:
    """A polynomial with symbols replaced."""
    return tuple(t.substitute(pairs) for t in poly)


def substitute_atom(atom: Atom, pairs: Substitution) -> Atom:
    """Free symbols of the atom replaced; bound ones get new names on the way."""
    if isinstance(atom, Application):
        args = tuple(substitute_poly(p, pairs) for p in atom.args)
        return replace(atom, args=args)
    if isinstance(atom, Reduction):
        binders, new = renamed(atom.binders)
        body = substitute_poly(substitute_poly(atom.body, new), pairs)
        return replace(
            atom, binders=tuple(b.substitute(pairs) for b in binders), body=body
        )
    out = in_scalar(atom, pairs)
    assert isinstance(out, Element | Symbol | FromInt | Opaque)
    return out


def atom_depends(atom: Atom, symbol: Any) -> bool:
    """Might the value of the atom change with the symbol? No is certain.

    An index that mentions the symbol does not depend on it when z3 shows that another
    value in its place gives the same index, whatever the hypotheses.
    """
    if isinstance(atom, Application):
        return any(t.depends(symbol) for p in atom.args for t in p)
    if isinstance(atom, Reduction):
        return any(b.range_mentions(symbol) for b in atom.binders) or any(
            t.depends(symbol) for t in atom.body
        )
    mentioned = [e for e in parts(atom) if mentions(e, symbol)]
    if not mentioned or isinstance(atom, Opaque):
        return bool(mentioned)
    other = bound_function("s") if not hasattr(symbol, "sort") else bound("s")
    pairs = [(symbol, other)]
    return not all(proves([], e == substitute(e, pairs)) for e in mentioned)


def head(atom: Atom) -> tuple[str, str]:
    """Atoms with different heads are never taken for equal."""
    if isinstance(atom, Element):
        return "element", atom.tensor
    if isinstance(atom, Symbol):
        return "symbol", atom.name
    if isinstance(atom, FromInt):
        return "integer", ""
    if isinstance(atom, Opaque):
        return "opaque", atom.name
    if isinstance(atom, Application):
        return "function", atom.name
    return "reduction", atom.kind
