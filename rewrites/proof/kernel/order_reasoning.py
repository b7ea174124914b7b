"""The level `order`: comparisons and choices between real numbers.

Both scalars become real or truth-valued expressions of z3, which is asked whether they
are equal. Sound because every head below has its meaning over the reals, everything
else is a function of which only that and its `PROPERTIES` are used (the same symbol for
the same name) or an unknown number (the same for terms the prover shows equal), and
what may be infinite or NaN is refused. Truth values are the numbers 0 and 1.

Products of two unknowns are functions nothing is known of in the first question, and
products in the second; a quotient is known where the divisor is a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from .integer_terms import subterms
from .monomials import Binder
from .polynomials import NormalForm
from .questions import Failure, Hypotheses
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
    guard_formula,
)
from .smt import RLIMIT, bound_real, negate, proves, term
from .substitution import may_be_infinite

REAL = z3.RealSort()
HALF = z3.Q(1, 2)


def clipped(x: Any, low: Any, high: Any) -> Any:
    """min(max(x, low), high) for z3."""
    raised = z3.If(x >= low, x, low)
    return z3.If(raised <= high, raised, high)


NUMBERS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "neg": lambda a: -a,
    "max": lambda a, b: z3.If(a >= b, a, b),
    "min": lambda a, b: z3.If(a <= b, a, b),
    "abs": lambda a: z3.If(a >= 0, a, -a),
    "relu": lambda a: z3.If(a >= 0, a, z3.RealVal(0)),
    "clip": clipped,
    "sign": lambda a: z3.If(a > 0, z3.RealVal(1), z3.If(a < 0, z3.RealVal(-1), 0)),
}
COMPARISONS: dict[str, Callable[..., Any]] = {
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
}
# What holds of x and x unless x is NaN, which is what such a comparison asks.
REFLEXIVE = {"equal", "less_equal", "greater_equal"}
TRUTHS: dict[str, Callable[..., Any]] = {
    "not": z3.Not,
    "and": z3.And,
    "or": z3.Or,
    "xor": z3.Xor,
}
PROPERTIES: dict[str, Callable[[Any, Any], list[Any]]] = {
    "exp": lambda x, y: [y > 0, (x > 0) == (y > 1), (x == 0) == (y == 1)],
    "sqrt": lambda x, y: [z3.Implies(x >= 0, y >= 0), z3.Implies(x > 0, y > 0)],
    "sigmoid": lambda x, y: [
        y > 0,
        y < 1,
        (x > 0) == (y > HALF),
        (x == 0) == (y == HALF),
    ],
    "tanh": lambda x, y: [y > -1, y < 1, (x > 0) == (y > 0), (x == 0) == (y == 0)],
    "erf": lambda x, y: [y > -1, y < 1, (x > 0) == (y > 0), (x == 0) == (y == 0)],
    "softplus": lambda x, y: [y > 0, y > x],
}

# Arithmetic without one of these is left to `ring`, which says more.
HEADS = {"max", "min", "abs", "relu", "clip", "sign", "where", *COMPARISONS, *TRUTHS}


def has_order(e: Scalar) -> bool:
    """Does anything but algebra occur outside reductions?"""
    return isinstance(e, Op) and (e.name in HEADS or any(map(has_order, e.args)))


class Order(NormalForm):
    """Scalars as z3 expressions; see the head of this file."""

    def same_by_order(self, a: Scalar, b: Scalar, hypotheses: Hypotheses) -> bool:
        """Whether the solver finds two scalars equal by order and linear arithmetic."""
        unknowns: list[tuple[Scalar, Any]] = []

        def number(e: Scalar) -> Any:
            return self.number(e, unknowns, hypotheses)

        given, self.context.scalar_facts = self.context.scalar_facts, []
        try:  # a fact isn't read by means of itself
            for e in (a, b, *given):
                self.require_finite(e, hypotheses)
            facts = [truth(number(f)) for f in given]
            left, right = number(a), number(b)
        finally:
            self.context.scalar_facts = given
        if z3.is_bool(left) or z3.is_bool(right):
            left, right = truth(left), truth(right)
        self.steps.add("real arithmetic")
        goal = left == right
        facts += properties([*facts, goal])
        if proves((*hypotheses, *facts), goal):
            return True
        *known, multiplied = (products(f) for f in (*facts, goal))
        if z3.eq(goal, multiplied):
            return False
        return proves((*hypotheses, *known), multiplied, RLIMIT // 4)

    def number(
        self, e: Scalar, unknowns: list[tuple[Scalar, Any]], hypotheses: Hypotheses
    ) -> Any:
        """The scalar as a z3 real, or a z3 truth value if its head makes one."""
        if isinstance(e, Const):
            return z3.RealVal(e.value)
        if isinstance(e, NegZero):
            return z3.RealVal(0)
        if isinstance(e, FromInt):
            return z3.ToReal(term(e.value))
        if isinstance(e, Ite):
            a, b = (self.number(x, unknowns, hypotheses) for x in (e.a, e.b))
            return z3.If(guard_formula(e.condition), real(a), real(b))
        if isinstance(e, Op):
            args = [self.number(x, unknowns, hypotheses) for x in e.args]
            if e.name in REFLEXIVE:
                a, b = e.args
                if self.congruent(a, b, hypotheses):
                    return z3.Not(truth(applied("isnan", args[:1])))
            return applied(e.name, args)
        for other, symbol in unknowns:
            if self.congruent(e, other, hypotheses):
                return symbol
        unknowns.append((e, bound_real("x")))
        return unknowns[-1][1]

    def require_finite(self, e: Scalar, hypotheses: Hypotheses) -> None:
        """Raise Failure unless the term stands for a finite number."""
        if isinstance(e, NegInf):
            raise Failure(f"{e!r} is infinite: order doesn't cover it")
        if isinstance(e, Element | Opaque) and may_be_infinite(e):
            raise Failure(f"{e!r} may be infinite: order doesn't cover it")
        if isinstance(e, Op):
            for a in e.args:
                self.require_finite(a, hypotheses)
        if isinstance(e, Ite):
            holds = guard_formula(e.condition)
            self.require_finite(e.a, (*hypotheses, holds))
            self.require_finite(e.b, (*hypotheses, negate(holds)))
        if isinstance(e, Red):
            b = Binder.of(e)
            if e.kind in ("max", "min") and not self.is_inhabited(b, hypotheses):
                raise Failure(f"a {e.kind} over a range that may be empty is infinite")
            self.require_finite(e.body(b.variable), (*hypotheses, b.domain()))

    def congruent(self, a: Scalar, b: Scalar, hypotheses: Hypotheses) -> bool:
        """Whether two scalars are equal argument by argument: of the classes below."""
        raise NotImplementedError


def applied(name: str, args: list[Any]) -> Any:
    """The function applied; an unknown one is a z3 function of that name."""
    if name in TRUTHS:
        return TRUTHS[name](*(truth(a) for a in args))
    if name in COMPARISONS:
        return COMPARISONS[name](*(real(a) for a in args))
    if name in NUMBERS:
        return NUMBERS[name](*(real(a) for a in args))
    if name == "where":
        return z3.If(truth(args[0]), real(args[1]), real(args[2]))
    numbers = [z3.simplify(real(a)) for a in args]
    if name == "mul" and any(map(z3.is_rational_value, numbers)):
        return numbers[0] * numbers[1]
    if name == "div" and z3.is_rational_value(numbers[1]) and not is_zero(numbers[1]):
        return numbers[0] / numbers[1]
    if name == "square":
        name, numbers = "mul", numbers * 2
    return function_named(name, len(args))(*numbers)


def function_named(name: str, arity: int) -> Any:
    """The uninterpreted function that stands for an operation of so many reals."""
    return z3.Function(f"op:{name}:{arity}", *[REAL] * arity, REAL)


def is_zero(x: Any) -> bool:
    """Whether a z3 real is the number 0."""
    return bool(z3.eq(x, z3.RealVal(0)))


def properties(expressions: list[Any]) -> list[Any]:
    """What is known of the functions that occur, where they are applied."""
    found = []
    for name, facts in PROPERTIES.items():
        function = function_named(name, 1)
        uses = [e for e in subterms(expressions) if e.decl().eq(function)]
        found += [z3.And(*facts(e.arg(0), e)) for e in uses]
    return found


def products(e: Any) -> Any:
    """Applications of `mul` as products."""
    x, y = z3.Var(0, REAL), z3.Var(1, REAL)
    return z3.substitute_funs(e, (function_named("mul", 2), x * y))


def real(x: Any) -> Any:
    """A z3 truth as 1 or 0; a real as it is."""
    return z3.If(x, z3.RealVal(1), z3.RealVal(0)) if z3.is_bool(x) else x


def truth(x: Any) -> Any:
    """A z3 real as whether it differs from 0; a truth as it is."""
    return x if z3.is_bool(x) else x != 0
