"""From scalar terms to polynomials, by the laws of rings (`ring`) and fields (`field`).

Each branch of `normal` and its helpers is an identity between finite real numbers;
`ring` uses only those that also hold for integers modulo 2^w. What may be infinite or
NaN raises `Failure`, and so do a division by 0 and a maximum over nothing. The steps
record what was used; those that begin with "domain" are conditions on the values.

  sum          linear: sum (p + q) = sum p + sum q; each term keeps its binder
  ite          c ? p : q = [c] p + [not c] q
  shl          x << s = x * 2^s modulo 2^w
  exp          prod exp(p) = exp(sum p); sqrt exp(2p) = exp p
  one          a reduction of one element is that element
  max          max (p + q) = p + max q for p that the binder doesn't occur in, over a
               range that is not empty; max max = max over both;
               min p = -max (-p)

Products and quotients of polynomials, and exponentials, over the reals.

Each method is an identity between finite real numbers where no divisor is 0 and no
argument of a root is negative; the steps record those conditions ("domain: ..").

  product      distributed, with the binders of one factor renamed
  inverse      1 / (c p q) = 1/c 1/p 1/q; what doesn't vary with a binder leaves the sum
               first; any other sum p becomes the atom p with power -1
  exp          exp(p) exp(q) = exp(p + q), sorted by the binders an exponent varies with
  log          log(exp(q) p) = q + log(p); log(1 / p) = -log(p); exp(log(p)) = p
  root         sqrt(p)^2 = p; sqrt(p^2) = |p|; |p|^2 = p^2
  parity       erf, sin and tan of -p are those of p, negated; cos of -p is that of p
  whole        floor, ceil and round leave what they gave; ceil(p) = -floor(-p)
  denominator  an equation may be multiplied by a polynomial that is not 0; dividing by
               one that vanishes identically is refused
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isqrt
from typing import TypeGuard

from .matching import Matching
from .monomials import (
    Application,
    Atom,
    Binder,
    Poly,
    Reduction,
    Term,
    atom_depends,
    negated,
)
from .questions import FIELD, Failure, Hypotheses
from .scalars import (
    Const,
    Element,
    FromInt,
    Ite,
    NegInf,
    NegZero,
    Op,
    Opaque,
    Red,
    Scalar,
    Symbol,
    guard_formula,
)
from .smt import HINT, bound_truth, implies, negate, same
from .substitution import may_be_infinite

COMMUTATIVE = {"max", "min"}
RING_RULES = {"add", "sub", "neg", "mul", "square", "shl", "pow"}
FIELD_RULES = {"div", "recip", "sqrt", "rsqrt", "exp", "log", "sigmoid", "tanh", "min"}
ROUNDINGS = {"floor", "ceil", "round"}
ODD, EVEN = {"erf", "sin", "tan"}, {"cos"}
POWERS = 8  # multiplied out at most


DENOMINATORS = 4  # cleared at most
SUM = "(sum)"  # a polynomial in place of an atom; no operator has that name


class Quotients(Matching):
    """The arithmetic of polynomials."""

    def multiplied(self, p: Poly, q: Poly) -> Poly:
        """The product of two polynomials."""
        return tuple(self.product(s, t) for s in p for t in q)

    def product(self, s: Term, t: Term) -> Term:
        """The product of two terms, binders kept apart."""
        t = t.renamed() if s.binders and t.binders else t
        binders, guards = (*s.binders, *t.binders), (*s.guards, *t.guards)
        atoms = (*s.atoms, *t.atoms)
        coefficient = s.coefficient * t.coefficient
        return self.with_exponentials(Term(coefficient, binders, guards, atoms))

    def inverse(self, p: Poly, hypotheses: Hypotheses) -> Poly:
        """1 / p, for p not 0."""
        p = self.merged(self.tidied(p, hypotheses), hypotheses)
        if self.vanishes(p, hypotheses):
            raise Failure("division by a polynomial that is 0")
        if len(p) == 1 and not (p[0].binders or p[0].atoms or p[0].guards):
            return (Term(1 / p[0].coefficient),)
        self.steps.add("domain: divisor is not 0")
        if len(p) > 1 or p[0].guards:
            return (Term(atoms=((self.divisor(p, hypotheses), -1),)),)
        t, bound = p[0], [b.variable for b in p[0].binders]
        varying, outside = [], []
        for a, n in t.atoms:
            if any(atom_depends(a, b) for b in bound):
                varying.append((a, n))
            else:
                outside.append((a, -n))
        if bound:
            inner = replace(t, coefficient=Fraction(1), atoms=tuple(varying))
            outside.append((self.divisor((inner,), hypotheses), -1))
        result = Term(1 / t.coefficient, atoms=tuple(outside))
        result = self.with_exponentials(result)
        return self.expanded(result, hypotheses) or (result,)

    def divisor(self, p: Poly, hypotheses: Hypotheses) -> Application:
        """The polynomial as an atom; a division by it was met under the hypotheses."""
        self.divisors.append((p, hypotheses))
        return Application(SUM, (p,))

    def exponential(self, p: Poly) -> Poly:
        """exp(p); exp(0) = 1, and exp(log(q)) = q where log(q) is defined."""
        p = self.merged(p, ())
        logs = [t for t in p if is_log(t)]
        rest = tuple(t for t in p if t not in logs)
        out = applied("exp", rest) if rest else (Term(),)
        for t in logs:
            self.steps.add("domain: log argument > 0")
            q = t.atoms[0][0].args[0]  # type: ignore[union-attr]
            if t.coefficient < 0:
                # The logarithm divides by nothing elsewhere, as a branch doesn't.
                q = self.inverse(q, (bound_truth("log"),))
            out = self.multiplied(out, self.power(q, abs(int(t.coefficient))))
        return out

    def logarithm(self, p: Poly) -> Poly:
        """log(p), with what is under an exp in front.

        exp(q) is positive, so log(exp(q) p) is defined where log(p) is; and log(1 / p)
        where log(p) is.
        """
        if len(p) != 1 or p[0].guards:
            return applied("log", p)
        t, bound = p[0], [b.variable for b in p[0].binders]
        exponent, rest = [], []
        for a, n in t.atoms:
            if is_exp(a) and not any(atom_depends(a, b) for b in bound):
                assert isinstance(a, Application)
                exponent += [u.renamed().scaled(n) for u in a.args[0]]
            else:
                rest.append((a, n))
        if exponent:
            self.steps.add("log-exp")
        t = replace(t, atoms=tuple(rest))
        if not (rest or bound) and t.coefficient == 1:
            return tuple(exponent)
        if not bound and t.coefficient == 1 and len(rest) == 1 and rest[0][1] == -1:
            inside: Poly = (Term(atoms=((rest[0][0], 1),)),)
            if is_sum(rest[0][0]):
                inside = tuple(u.renamed() for u in rest[0][0].args[0])
            return (*exponent, *negated(applied("log", inside)))
        return (*exponent, *applied("log", (t,)))

    def merged(self, p: Poly, hypotheses: Hypotheses) -> Poly:
        """Equal terms added up."""
        out: list[Term] = []
        for t in p:
            for j, u in enumerate(out):
                if self.same_term(t, u, hypotheses):
                    out[j] = replace(u, coefficient=u.coefficient + t.coefficient)
                    break
            else:
                out.append(t)
        return tuple(t for t in out if t.coefficient)

    def with_exponentials(self, t: Term) -> Term:
        """One exp for each set of binders that its argument varies with."""
        exponentials = [(a, n) for a, n in t.atoms if is_exp(a)]
        if self.level < FIELD or not exponentials:
            return t
        if len(exponentials) == 1 and not t.binders and exponentials[0][1] == 1:
            return t
        groups: dict[tuple[int, ...], Poly] = {}
        for a, n in exponentials:
            assert isinstance(a, Application)
            for u in a.args[0]:
                key = tuple(j for j, b in enumerate(t.binders) if u.depends(b.variable))
                groups[key] = (*groups.get(key, ()), u.scaled(n))
        self.steps.add("exp-hom")
        atoms = tuple((a, n) for a, n in t.atoms if not is_exp(a))
        for _, p in sorted(groups.items()):
            p = self.merged(p, ())
            if p:
                atoms = (*atoms, (Application("exp", (p,)), 1))
        return replace(t, atoms=atoms)

    def expanded(self, t: Term, hypotheses: Hypotheses) -> Poly | None:
        """Powers of sums, squares of roots and of abs multiplied out, if there are."""
        for j, (a, n) in enumerate(t.atoms):
            if isinstance(a, Application) and a.name == "abs" and n > 1:
                odd = ((a, 1),) if n % 2 else ()
                rest = replace(t, atoms=(*t.atoms[:j], *odd, *t.atoms[j + 1 :]))
                return self.multiplied((rest,), self.power(a.args[0], n - n % 2))
            if isinstance(a, Application) and a.name == "sqrt" and abs(n) > 1:
                self.steps.add("domain: sqrt argument >= 0")
                half = abs(n) // 2 * (1 if n > 0 else -1)
                odd = ((a, n - 2 * half),) if n % 2 else ()
                rest = replace(t, atoms=(*t.atoms[:j], *odd, *t.atoms[j + 1 :]))
                root = a.args[0] if n > 0 else self.inverse(a.args[0], hypotheses)
                return self.multiplied((rest,), self.power(root, abs(half)))
            if isinstance(a, Application) and a.name == SUM and n > 0:
                rest = replace(t, atoms=(*t.atoms[:j], *t.atoms[j + 1 :]))
                return self.multiplied((rest,), self.power(a.args[0], n))
        return None

    def power(self, p: Poly, n: int) -> Poly:
        """p to the n-th power, n >= 0."""
        out: Poly = (Term(),)
        for _ in range(n):
            out = self.multiplied(out, tuple(t.renamed() for t in p))
        return out

    def without_denominators(self, poly: Poly, hypotheses: Hypotheses) -> Poly:
        """The polynomial times its denominators: 0 only if the polynomial is."""
        for _ in range(DENOMINATORS):
            found = (a for t in poly for a, n in t.atoms if n < 0 and is_sum(a))
            usable = (
                a
                for a in found
                if self.is_free(a, poly) and self.is_nonzero(a, hypotheses)
            )
            a = next(usable, None)
            if a is None:
                break
            self.steps.add("clear-denominator")
            poly = self.cleared(a, poly, hypotheses)
        return poly

    def is_nonzero(self, a: Application, hypotheses: Hypotheses) -> bool:
        """Does something that is compared under the hypotheses divide by the atom?

        A division in one case, or over one range, says nothing about other cases: it
        must have been met under no more than the hypotheses. That there is something
        to count has to be shown, whoever divides by the count.
        """
        if counts(a.args[0]):
            return self.is_positive(a.args[0], hypotheses)
        met = (
            p
            for p, others in self.divisors
            if len(others) <= len(hypotheses)
            and all(h is g for h, g in zip(others, hypotheses, strict=False))
        )
        if a in self.compared:
            return False  # while it is looked for
        self.compared.append(a)
        found = any(self.same_poly(a.args[0], p, hypotheses) for p in met)
        self.compared.pop()
        return found

    def is_positive(self, p: Poly, hypotheses: Hypotheses) -> bool:
        """Is it one sum of ones over a range that isn't empty?"""
        if len(p) != 1 or p[0].atoms or p[0].guards:
            return False
        return all(self.is_inhabited(b, hypotheses) for b in p[0].binders)

    def cancels(self, a: Atom, m: int, n: int, hypotheses: Hypotheses) -> bool:
        """As of sizes, of the counts that are sums of ones."""
        if m * n < 0 and is_sum(a) and counts(a.args[0]):
            return self.is_positive(a.args[0], hypotheses)
        return super().cancels(a, m, n, hypotheses)

    def is_inhabited(self, b: Binder, hypotheses: Hypotheses) -> bool:
        """Is there anything to reduce over?"""
        raise NotImplementedError

    def is_free(self, a: Atom, poly: Poly) -> bool:
        """Does no binder of the terms occur in the atom?"""
        return not any(atom_depends(a, b.variable) for t in poly for b in t.binders)

    def cleared(self, a: Application, poly: Poly, hypotheses: Hypotheses) -> Poly:
        """The polynomial times the highest power of the atom that it divides by."""
        split = []
        for t in poly:
            rest, power = [], 0
            for b, n in t.atoms:
                if n < 0 and is_sum(b) and self.same_atom(a, b, hypotheses):
                    power -= n
                else:
                    rest.append((b, n))
            split.append((replace(t, atoms=tuple(rest)), power))
        top = max(power for _, power in split)
        out: list[Term] = []
        for t, power in split:
            factor = self.power(a.args[0], top - power) if top > power else (Term(),)
            out.extend(self.multiplied((t,), factor))
        return tuple(out)


def counts(p: Poly) -> bool:
    """Whether it is made of sizes alone."""
    return all(
        isinstance(a, FromInt) or (is_sum(a) and counts(a.args[0]))
        for t in p
        for a, _ in t.atoms
    )


def is_exp(a: Atom) -> bool:
    """Whether a factor is an exponential."""
    return isinstance(a, Application) and a.name == "exp"


def is_log(t: Term) -> bool:
    """Whether a term is a logarithm, times a whole number that is small."""
    if t.binders or t.guards or len(t.atoms) != 1 or t.atoms[0][1] != 1:
        return False
    a, times = t.atoms[0][0], t.coefficient
    known = isinstance(a, Application) and a.name == "log"
    return known and times.denominator == 1 and abs(times) <= POWERS


def is_whole(p: Poly) -> bool:
    """Whether it is a rounded number, or its negative."""
    a = only_atom(p) or only_atom(negated(p))
    return isinstance(a, Application) and a.name in ROUNDINGS


def is_sum(a: Atom) -> TypeGuard[Application]:
    """A denominator: 1 / sum."""
    return isinstance(a, Application) and a.name == SUM


def exponent_of(p: Poly) -> Poly | None:
    """q if p is spelled exp(q), to any power."""
    if len(p) != 1 or p[0].coefficient != 1 or p[0].binders or p[0].guards:
        return None
    if len(p[0].atoms) != 1:
        return None
    a, n = p[0].atoms[0]
    if not isinstance(a, Application) or a.name != "exp":
        return None
    return tuple(t.scaled(n) for t in a.args[0])


def root_of_square(p: Poly) -> Poly | None:
    """|c| |x| |y| .. of c**2 x**2 y**2 .., whose equal atoms are merged."""
    if len(p) != 1 or p[0].binders or p[0].guards or not p[0].atoms:
        return None
    t, ratio = p[0], p[0].coefficient.as_integer_ratio()
    root = Fraction(*map(isqrt, ratio)) if t.coefficient > 0 else Fraction()
    if root * root != t.coefficient or any(n % 2 for _, n in t.atoms):
        return None
    sizes = [applied("abs", (Term(atoms=((a, 1),)),)) for a, _ in t.atoms]
    powers = zip(sizes, t.atoms, strict=True)
    atoms = tuple((size[0].atoms[0][0], n // 2) for size, (_, n) in powers)
    return (Term(root, atoms=atoms),)


def applied(name: str, *args: Poly, commutative: bool = False) -> Poly:
    """A function of polynomials as a polynomial of one term."""
    return (Term(atoms=((Application(name, args, commutative), 1),)),)


class NormalForm(Quotients):
    """Scalars as sums of products."""

    def normal(self, e: Scalar, hypotheses: Hypotheses) -> Poly:
        """The term as a polynomial that is equal to it under the hypotheses."""
        if isinstance(e, Const):
            return (Term(e.value),) if e.value else ()
        if isinstance(e, NegZero):
            return ()
        if isinstance(e, NegInf) or (isinstance(e, Element) and e.extended):
            raise Failure(f"{e!r} may be infinite: algebra doesn't cover it")
        if isinstance(e, Opaque) and may_be_infinite(e):
            raise Failure(f"{e!r} depends on what may be infinite")
        if isinstance(e, Symbol | Element | FromInt | Opaque):
            return self.normal_leaf(e)
        if isinstance(e, Ite):
            return self.normal_ite(e, hypotheses)
        if isinstance(e, Red):
            return self.normal_reduction(e, hypotheses)
        if isinstance(e, Op):
            return self.normal_op(e, hypotheses)
        raise TypeError(f"not a scalar: {e!r}")

    def normal_leaf(self, e: Symbol | Element | FromInt | Opaque) -> Poly:
        """A symbol, an element or an integer as a polynomial of one term."""
        if isinstance(e, FromInt) and isinstance(e.value, int):
            return (Term(Fraction(e.value)),) if e.value else ()
        return (Term(atoms=((e, 1),)),)

    def normal_ite(self, e: Ite, hypotheses: Hypotheses) -> Poly:
        """A choice: both branches, each where it is taken."""
        holds = guard_formula(e.condition)
        if self.proves(hypotheses, holds):
            return self.normal(e.a, hypotheses)
        if self.proves(hypotheses, negate(holds)):
            return self.normal(e.b, hypotheses)
        a = self.normal(e.a, (*hypotheses, holds))
        b = self.normal(e.b, (*hypotheses, negate(holds)))
        return (
            *(t.guarded(e.condition, True) for t in a),
            *(t.guarded(e.condition, False) for t in b),
        )

    def normal_op(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """An operation by the rule of its name, else as an unknown function."""
        if e.name in RING_RULES or (self.level >= FIELD and e.name in FIELD_RULES):
            poly: Poly = getattr(self, f"normal_{e.name}")(e, hypotheses)
            return poly
        if e.name == "where":
            # A branch may divide by 0 where it isn't taken: divisions met in it say
            # nothing outside, which another hypothesis tells apart.
            hypotheses = (*hypotheses, bound_truth("branch"))
        args = tuple(self.normal(a, hypotheses) for a in e.args)
        if e.name in ROUNDINGS and is_whole(args[0]):
            return args[0]
        if e.name == "ceil":
            return negated(applied("floor", negated(args[0])))
        negative = e.name in ODD | EVEN and sum(t.coefficient for t in args[0]) < 0
        if self.level >= FIELD and negative:
            mirrored = applied(e.name, negated(args[0]))
            return negated(mirrored) if e.name in ODD else mirrored
        return applied(e.name, *args, commutative=e.name in COMMUTATIVE)

    # ----------------------------------------------------------------- ring
    def normal_add(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """a + b"""
        self.steps.add("add-assoc")
        return (
            *self.normal(e.args[0], hypotheses),
            *self.normal(e.args[1], hypotheses),
        )

    def normal_sub(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """a - b"""
        self.steps.add("add-assoc")
        a, b = (self.normal(x, hypotheses) for x in e.args)
        return (*a, *negated(b))

    def normal_neg(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """-a"""
        return negated(self.normal(e.args[0], hypotheses))

    def normal_mul(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """a * b, distributed"""
        self.steps.add("distribute")
        a, b = (self.normal(x, hypotheses) for x in e.args)
        return self.multiplied(a, b)

    def normal_square(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """a * a"""
        return self.normal(e.args[0] * e.args[0], hypotheses)

    def normal_shl(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """a * 2 ** b"""
        self.steps.add("lemma:shl")
        return self.normal(e.args[0] * Op("pow2", e.args[1]), hypotheses)

    # ----------------------------------------------------------- reductions
    def normal_reduction(self, e: Red, hypotheses: Hypotheses) -> Poly:
        """A sum term by term; any other reduction as a factor."""
        b = Binder.of(e)
        if self.is_singleton(b, hypotheses):
            return self.normal(e.body((lambda k: 0) if e.vec else 0), hypotheses)
        inner = (*hypotheses, b.domain())
        before = len(self.divisors)
        body = self.normal(e.body(b.variable), inner)
        self.keep_divisors(before, b, inner, hypotheses)
        if e.kind == "sum":
            self.steps.add("sum-linearity")
            out = tuple(t.summed(b) for t in body)
            return tuple(self.with_exponentials(t) for t in out)
        if e.kind in ("max", "min"):
            if not self.is_inhabited(b, hypotheses):
                raise Failure(f"a {e.kind} over a range that may be empty is infinite")
            if self.level >= FIELD:
                return self.extremum(e.kind, b, body)
        if self.level >= FIELD and e.kind == "prod":
            exponent = exponent_of(body)
            if exponent is not None:
                self.steps.add("exp-hom")
                return self.exponential(tuple(t.summed(b) for t in exponent))
        return reduced(e.kind, b, body)

    def keep_divisors(
        self, before: int, b: Binder, inner: Hypotheses, hypotheses: Hypotheses
    ) -> None:
        """What every element is divided by was divided by, if there is an element."""
        new = [p for p, found in self.divisors[before:] if found is inner]
        new = [p for p in new if not any(t.depends(b.variable) for t in p)]
        if new and self.is_inhabited(b, hypotheses):
            self.divisors.extend((p, hypotheses) for p in new)

    def is_singleton(self, b: Binder, hypotheses: Hypotheses) -> bool:
        """Does it run over 0 alone?"""
        if not b.vec:
            return self.proves(hypotheses, same(b.size, 1), HINT)
        return self.at_each(
            hypotheses, b.rank, lambda k: implies(b.sel(k), same(b.size(k), 1)), HINT
        )

    def is_inhabited(self, b: Binder, hypotheses: Hypotheses) -> bool:
        """Is there anything to reduce over?"""
        if not b.vec:
            return self.proves(hypotheses, b.size > 0)
        return self.at_each(
            hypotheses, b.rank, lambda k: implies(b.sel(k), b.size(k) > 0)
        )

    def extremum(self, kind: str, b: Binder, body: Poly) -> Poly:
        """The maximum or minimum over a range that is not empty."""
        if kind == "min":
            return negated(self.extremum("max", b, negated(body)))
        outside = tuple(t for t in body if not t.depends(b.variable))
        inside = tuple(t for t in body if t not in outside)
        if outside:
            self.steps.add("max-translation")
        return (*outside, *reduced("max", b, inside)) if inside else outside

    # ---------------------------------------------------------------- field
    def normal_div(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """a times the inverse of b"""
        a, b = (self.normal(x, hypotheses) for x in e.args)
        return self.multiplied(a, self.inverse(b, hypotheses))

    def normal_recip(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """The inverse of a"""
        return self.inverse(self.normal(e.args[0], hypotheses), hypotheses)

    def normal_sqrt(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """The root of a"""
        p = self.normal(e.args[0], hypotheses)
        exponent = exponent_of(p)
        if exponent is not None:
            return self.exponential(tuple(t.scaled(Fraction(1, 2)) for t in exponent))
        tidy = self.merged(self.tidied(p, hypotheses), hypotheses)
        return root_of_square(tidy) or applied("sqrt", p)

    def normal_rsqrt(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """The inverse of the root of a"""
        return self.inverse(self.normal_sqrt(e, hypotheses), hypotheses)

    def normal_exp(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """e ** a"""
        return self.exponential(self.normal(e.args[0], hypotheses))

    def normal_log(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """The logarithm of a"""
        return self.logarithm(self.normal(e.args[0], hypotheses))

    def normal_sigmoid(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """1 / (1 + e ** -a)"""
        return self.normal(1 / (1 + Op("exp", -e.args[0])), hypotheses)

    def normal_tanh(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """tanh by exponentials"""
        z = Op("exp", -2 * e.args[0])
        return self.normal((1 - z) / (1 + z), hypotheses)

    def normal_min(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """The minimum by the maximum of the negated"""
        return self.normal(-Op("max", *(-a for a in e.args)), hypotheses)

    def normal_pow(self, e: Op, hypotheses: Hypotheses) -> Poly:
        """a ** b"""
        base, power = e.args
        p = self.normal(base, hypotheses)
        value = power.value if isinstance(power, Const) else None
        if value == Fraction(1, 2) and self.level >= FIELD:
            return self.normal_sqrt(Op("sqrt", base), hypotheses)
        if value is not None and value.denominator == 1 and 1 <= value <= POWERS:
            out = p
            for _ in range(int(value) - 1):
                out = self.multiplied(out, p)
            return out
        if value == -1 and self.level >= FIELD:
            return self.inverse(p, hypotheses)
        return applied("pow", p, self.normal(power, hypotheses))


def reduced(kind: str, b: Binder, body: Poly) -> Poly:
    """The reduction as an atom; one of another of its kind runs over both."""
    binders: tuple[Binder, ...] = (b,)
    inner = only_atom(body)
    if isinstance(inner, Reduction) and inner.kind == kind:
        binders, body = (b, *inner.binders), inner.body
    return (Term(atoms=((Reduction(kind, binders, body), 1),)),)


def only_atom(p: Poly) -> Atom | None:
    """The atom that the polynomial is, if it is one."""
    if len(p) != 1 or len(p[0].atoms) != 1 or p[0].atoms[0][1] != 1:
        return None
    plain = p[0].coefficient == 1 and not p[0].binders and not p[0].guards
    return p[0].atoms[0][0] if plain else None
