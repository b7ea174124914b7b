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
"""

from __future__ import annotations

from fractions import Fraction

from .monomials import Atom, Binder, Poly, Reduction, Term, negated
from .questions import FIELD, Failure, Hypotheses
from .quotients import Quotients, applied, exponent_of
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
POWERS = 8  # multiplied out at most


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
        if isinstance(e, FromInt) and isinstance(e.value, int):
            return (Term(Fraction(e.value)),) if e.value else ()
        return (Term(atoms=((e, 1),)),)

    def normal_ite(self, e: Ite, hypotheses: Hypotheses) -> Poly:
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
        if e.name in RING_RULES or (self.level >= FIELD and e.name in FIELD_RULES):
            poly: Poly = getattr(self, f"normal_{e.name}")(e, hypotheses)
            return poly
        if e.name == "where":
            # A branch may divide by 0 where it isn't taken: divisions met in it say
            # nothing outside, which another hypothesis tells apart.
            hypotheses = (*hypotheses, bound_truth("branch"))
        args = tuple(self.normal(a, hypotheses) for a in e.args)
        return applied(e.name, *args, commutative=e.name in COMMUTATIVE)

    # ----------------------------------------------------------------- ring
    def normal_add(self, e: Op, hypotheses: Hypotheses) -> Poly:
        self.steps.add("add-assoc")
        return (
            *self.normal(e.args[0], hypotheses),
            *self.normal(e.args[1], hypotheses),
        )

    def normal_sub(self, e: Op, hypotheses: Hypotheses) -> Poly:
        self.steps.add("add-assoc")
        a, b = (self.normal(x, hypotheses) for x in e.args)
        return (*a, *negated(b))

    def normal_neg(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return negated(self.normal(e.args[0], hypotheses))

    def normal_mul(self, e: Op, hypotheses: Hypotheses) -> Poly:
        self.steps.add("distribute")
        a, b = (self.normal(x, hypotheses) for x in e.args)
        return self.multiplied(a, b)

    def normal_square(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return self.normal(e.args[0] * e.args[0], hypotheses)

    def normal_shl(self, e: Op, hypotheses: Hypotheses) -> Poly:
        self.steps.add("lemma:shl")
        return self.normal(e.args[0] * Op("pow2", e.args[1]), hypotheses)

    # ----------------------------------------------------------- reductions
    def normal_reduction(self, e: Red, hypotheses: Hypotheses) -> Poly:
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
        a, b = (self.normal(x, hypotheses) for x in e.args)
        return self.multiplied(a, self.inverse(b, hypotheses))

    def normal_recip(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return self.inverse(self.normal(e.args[0], hypotheses), hypotheses)

    def normal_sqrt(self, e: Op, hypotheses: Hypotheses) -> Poly:
        p = self.normal(e.args[0], hypotheses)
        exponent = exponent_of(p)
        if exponent is not None:
            return self.exponential(tuple(t.scaled(Fraction(1, 2)) for t in exponent))
        return applied("sqrt", p)

    def normal_rsqrt(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return self.inverse(self.normal_sqrt(e, hypotheses), hypotheses)

    def normal_exp(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return self.exponential(self.normal(e.args[0], hypotheses))

    def normal_log(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return self.logarithm(self.normal(e.args[0], hypotheses))

    def normal_sigmoid(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return self.normal(1 / (1 + Op("exp", -e.args[0])), hypotheses)

    def normal_tanh(self, e: Op, hypotheses: Hypotheses) -> Poly:
        z = Op("exp", -2 * e.args[0])
        return self.normal((1 - z) / (1 + z), hypotheses)

    def normal_min(self, e: Op, hypotheses: Hypotheses) -> Poly:
        return self.normal(-Op("max", *(-a for a in e.args)), hypotheses)

    def normal_pow(self, e: Op, hypotheses: Hypotheses) -> Poly:
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
