"""What elementwise operators mean, once, for whatever they are computed on.

`Numbers` computes on arrays of points; `Cases` on normal forms of one operand x, on an
interval in which every condition is true throughout, or false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from .algebra import ONE, Algebra, Beyond, Operators, Polynomial, Quotient

Parameters: TypeAlias = "Mapping[str, Any]"
Meaning: TypeAlias = Callable[..., Any]  # (domain, parameters, *operands) -> value
# An earlier step of a term by its place (0 is the operand), a number, a constant of
# several elements, or nothing.
Reference: TypeAlias = "int | float | ir.Value | None"


@dataclass(frozen=True)
class Step:
    """One operator applied to earlier steps; numbers are Python floats."""

    operator: str
    parameters: Parameters
    operands: tuple[Reference, ...]


@dataclass(frozen=True, eq=False)
class Term:
    """A function of one operand: steps in the order in which they can be computed."""

    steps: tuple[Step, ...]

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return tuple(
            (
                step.operator,
                tuple((k, _told_apart(v)) for k, v in sorted(step.parameters.items())),
                tuple(map(_told_apart, step.operands)),
            )
            for step in self.steps
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Term) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def over(self, constant: Callable[[ir.Value], Any]) -> Term:
        """The term with other things in the place of its constants."""
        if not any(isinstance(x, ir.Value) for s in self.steps for x in s.operands):
            return self
        steps = (
            replace(
                step,
                operands=tuple(
                    constant(x) if isinstance(x, ir.Value) else x for x in step.operands
                ),
            )
            for step in self.steps
        )
        return Term(tuple(steps))

    @property
    def operators(self) -> set[str]:
        """The operators of its steps."""
        return {step.operator for step in self.steps}


def _told_apart(x: object) -> object:
    """Python holds the number 1.0 and the place 1 for equal, and 0.0 and -0.0."""
    return ("number", x.hex()) if isinstance(x, float) else x


def value_of(term: Term, domain: Any) -> Any:
    """The value of the last step; a branch that isn't chosen isn't computed."""
    known: dict[int, Any] = {0: domain.operand}

    def at(reference: Reference) -> Any:
        if reference is None:
            return None
        if isinstance(reference, float):
            return domain.number(reference)
        if not isinstance(reference, int):
            return domain.constant(reference)
        if reference not in known:
            step = term.steps[reference - 1]
            if step.operator == "Where":
                asked, then, other = step.operands
                known[reference] = domain.choose(
                    at(asked), lambda: at(then), lambda: at(other)
                )
            else:
                operands = map(at, step.operands)
                meaning = MEANINGS[step.operator]
                known[reference] = meaning(domain, step.parameters, *operands)
        return known[reference]

    return at(len(term.steps))


# ---- the operators


def _choice(d: Any, asked: Any, then: Any, other: Any) -> Any:
    return d.choose(asked, lambda: then, lambda: other)


def _max(d: Any, a: Any, b: Any) -> Any:
    return _choice(d, d.less(a, b), b, a)


def _min(d: Any, a: Any, b: Any) -> Any:
    return _choice(d, d.less(b, a), b, a)


def _clip(d: Any, p: Parameters, x: Any, low: Any = None, high: Any = None) -> Any:
    found = x if low is None else _max(d, x, low)
    return found if high is None else _min(d, found, high)


def _sigmoid(d: Any, x: Any) -> Any:
    one = d.number(1.0)
    return d.div(one, d.add(one, d.exp(d.mul(d.number(-1.0), x))))


def _tanh(d: Any, x: Any) -> Any:
    one, twice = d.number(1.0), d.exp(d.mul(d.number(2.0), x))
    return d.div(d.sub(twice, one), d.add(twice, one))


def _softplus(d: Any, x: Any) -> Any:
    return d.log(d.add(d.number(1.0), d.exp(x)))


def _gelu(d: Any, p: Parameters, x: Any) -> Any:
    if p.get("approximate", "none") == "tanh":
        cubic = d.mul(d.number(0.044715), d.power(x, 3.0))
        slope = d.number(math.sqrt(2 / math.pi))
        gate = _tanh(d, d.mul(slope, d.add(x, cubic)))
    else:
        gate = d.erf(d.mul(x, d.number(math.sqrt(0.5))))
    return d.mul(d.mul(d.number(0.5), x), d.add(d.number(1.0), gate))


def _below_zero(d: Any, x: Any, below: Any) -> Any:
    """x, but for what it is below zero."""
    return _choice(d, d.less(x, d.number(0.0)), below, x)


def _leaky(d: Any, slope: Any, x: Any) -> Any:
    return _below_zero(d, x, d.mul(slope, x))


def _elu(d: Any, alpha: float, x: Any, scale: float = 1.0) -> Any:
    below = d.sub(d.exp(d.mul(d.number(scale), x)), d.number(1.0))
    return _below_zero(d, x, d.mul(d.number(alpha), below))


def _hard_sigmoid(d: Any, alpha: float, beta: float, x: Any) -> Any:
    line = d.add(d.mul(d.number(alpha), x), d.number(beta))
    return _clip(d, {}, line, d.number(0.0), d.number(1.0))


def _thresholded(d: Any, alpha: float, x: Any) -> Any:
    return _choice(d, d.less(d.number(alpha), x), x, d.number(0.0))


def _sign(d: Any, x: Any) -> Any:
    zero = d.number(0.0)
    below = _choice(d, d.less(x, zero), d.number(-1.0), zero)
    return _choice(d, d.less(zero, x), d.number(1.0), below)


def _many(combine: Callable[[Any, Any, Any], Any]) -> Meaning:
    def meaning(d: Any, p: Parameters, first: Any, *others: Any) -> Any:
        for other in others:  # a Max may have one operand alone
            first = first if other is None else combine(d, first, other)
        return first

    return meaning


def _plain(function: Callable[..., Any]) -> Meaning:
    return lambda d, p, *operands: function(d, *operands)


MEANINGS: dict[str, Meaning] = {
    "Add": _many(lambda d, a, b: d.add(a, b)),
    "Mul": _many(lambda d, a, b: d.mul(a, b)),
    "Max": _many(_max),
    "Min": _many(_min),
    "Sub": _plain(lambda d, a, b: d.sub(a, b)),
    "Div": _plain(lambda d, a, b: d.div(a, b)),
    "Neg": _plain(lambda d, x: d.mul(d.number(-1.0), x)),
    "Reciprocal": _plain(lambda d, x: d.div(d.number(1.0), x)),
    "Abs": _plain(
        lambda d, x: _choice(d, d.less(x, d.number(0.0)), d.sub(d.number(0.0), x), x)
    ),
    "Sign": _plain(_sign),
    "Exp": _plain(lambda d, x: d.exp(x)),
    "Log": _plain(lambda d, x: d.log(x)),
    "Erf": _plain(lambda d, x: d.erf(x)),
    "Sqrt": _plain(lambda d, x: d.sqrt(x)),
    "Pow": _plain(lambda d, x, n: d.power_of(x, n)),
    "Sigmoid": _plain(_sigmoid),
    "Tanh": _plain(_tanh),
    "Softplus": _plain(_softplus),
    "Softsign": _plain(
        lambda d, x: d.div(
            x,
            _choice(
                d,
                d.less(x, d.number(0.0)),
                d.sub(d.number(1.0), x),
                d.add(d.number(1.0), x),
            ),
        )
    ),
    "Mish": _plain(lambda d, x: d.mul(x, _tanh(d, _softplus(d, x)))),
    "HardSwish": _plain(lambda d, x: d.mul(x, _hard_sigmoid(d, 1 / 6, 0.5, x))),
    "Identity": _plain(lambda d, x: x),
    "Relu": _plain(lambda d, x: _below_zero(d, x, d.number(0.0))),
    "PRelu": _plain(lambda d, x, slope: _leaky(d, slope, x)),
    "Clip": _clip,
    "Gelu": _gelu,
    "Swish": lambda d, p, x: d.mul(x, _sigmoid(d, d.mul(d.number(p["alpha"]), x))),
    "LeakyRelu": lambda d, p, x: _leaky(d, d.number(p["alpha"]), x),
    "Elu": lambda d, p, x: _elu(d, p["alpha"], x),
    "Celu": lambda d, p, x: _elu(d, p["alpha"], x, 1 / p["alpha"]),
    "Selu": lambda d, p, x: d.mul(d.number(p["gamma"]), _elu(d, p["alpha"], x)),
    "ThresholdedRelu": lambda d, p, x: _thresholded(d, p["alpha"], x),
    "HardSigmoid": lambda d, p, x: _hard_sigmoid(d, p["alpha"], p["beta"], x),
    "Less": _plain(lambda d, a, b: d.less(a, b)),
    "Greater": _plain(lambda d, a, b: d.less(b, a)),
    "LessOrEqual": _plain(lambda d, a, b: d.negated(d.less(b, a))),
    "GreaterOrEqual": _plain(lambda d, a, b: d.negated(d.less(a, b))),
    "Not": _plain(lambda d, c: d.negated(c)),
    "And": _plain(lambda d, a, b: d.both(a, b)),
    "Or": _plain(lambda d, a, b: d.negated(d.both(d.negated(a), d.negated(b)))),
    "Where": _plain(_choice),
    # Of a truth value: 1 or 0. Other casts aren't read.
    "Cast": _plain(lambda d, c: _choice(d, c, d.number(1.0), d.number(0.0))),
}


def _softmax(d: Any, p: Parameters, x: Any) -> Any:
    power = d.exp(x)
    return d.div(power, d.total(power))


def _total_of_product(d: Any, p: Parameters, first: Any, *others: Any) -> Any:
    """Of one operand, a multiple and as much of itself beside: I a + J b times it."""
    itself = p.get("itself", 0.0)
    own = d.mul(d.number(itself), first) if itself else None
    for other in others:
        first = d.mul(first, other)
    total = d.mul(d.number(p.get("each", 1.0)), d.total(first))
    return total if own is None else d.add(own, total)


def _normal(d: Any, p: Parameters, x: Any, scale: Any = None, bias: Any = None) -> Any:
    square = d.add(d.mean(d.mul(x, x)), d.number(p["epsilon"]))
    found = d.div(x, d.sqrt(square))
    found = found if scale is None else d.mul(found, scale)
    return found if bias is None else d.add(found, bias)


# Along rows; all but the two of Softmax leave a size of 1 of each. Only `Rows`
# (normalised_sums.py) has them.
REDUCTIONS: dict[str, Meaning] = {
    **dict.fromkeys(
        ("ReduceMean", "GlobalAveragePool", "AveragePool"),
        _plain(lambda d, x: d.mean(x)),
    ),
    "ReduceSum": lambda d, p, x: d.total(x),
    "ReduceMax": lambda d, p, x: d.largest(x),
    "ReduceSumSquare": lambda d, p, x: d.total(d.mul(x, x)),
    "ReduceL1": lambda d, p, x: d.total(d.positive(x)),
    "ReduceL2": lambda d, p, x: d.sqrt(d.total(d.mul(x, x))),
    "ReduceLogSumExp": lambda d, p, x: d.log(d.total(d.exp(x))),
    "MatMul": _total_of_product,  # where it is a sum
    "Softmax": _softmax,
    "RMSNormalization": _normal,
    **dict.fromkeys(
        ("LayerNormalization", "InstanceNormalization"),
        lambda d, p, x, *given: _normal(d, p, d.sub(x, d.mean(x)), *given),
    ),
    "LogSoftmax": lambda d, p, x: d.sub(x, d.log(d.total(d.exp(x)))),
}
# Views in the same order: of numbers of rows, which get axes of size 1 or lose them.
RESTORING = dict.fromkeys(
    ("Reshape", "Unsqueeze", "Squeeze", "Transpose"), _plain(lambda d, x: x)
)
MEANINGS |= REDUCTIONS | RESTORING


class Numbers:
    """Operators on arrays of points, in double precision."""

    def __init__(self, points: np.ndarray) -> None:
        self.operand = points

    @staticmethod
    def number(x: float) -> Any:
        """x, at every point."""
        return np.float64(x)

    add = staticmethod(np.add)
    sub = staticmethod(np.subtract)
    mul = staticmethod(np.multiply)
    div = staticmethod(np.divide)
    exp = staticmethod(np.exp)
    log = staticmethod(np.log)
    sqrt = staticmethod(np.sqrt)
    power = power_of = staticmethod(np.power)
    less = staticmethod(np.less)
    negated = staticmethod(np.logical_not)
    both = staticmethod(np.logical_and)

    @staticmethod
    def erf(x: np.ndarray) -> np.ndarray:
        """The error function."""
        return np.array([math.erf(v) for v in np.ravel(x)])

    @staticmethod
    def choose(
        asked: np.ndarray, then: Callable[[], Any], other: Callable[[], Any]
    ) -> Any:
        """`then` where it is true, and the other elsewhere."""
        return np.where(asked, then(), other())


def computed(term: Term, points: Sequence[float] | np.ndarray) -> np.ndarray | None:
    """The values at some points; None if one isn't finite."""
    operand = np.asarray(points, np.float64)
    with np.errstate(all="ignore"):
        found = np.broadcast_to(value_of(term, Numbers(operand)), operand.shape)
    return found if np.isfinite(found).all() else None


class Split(Exception):
    """A condition changes inside of the interval, at `point`."""

    def __init__(self, point: float) -> None:
        super().__init__(point)
        self.point = point


class Cases(Operators):
    """Operators on normal forms of x, for low < x < high."""

    def __init__(self, algebra: Algebra, low: float, high: float) -> None:
        super().__init__(algebra)
        self.low, self.high = low, high
        self._exp = algebra.atom("exp", ((self._x, 1.0),))
        self.log = self._log

    def _log(self, a: Quotient) -> Quotient:
        """The logarithm; of 1 + exp(x) it is x to the last place where x is large."""
        for monomial in a.above:
            slope = dict(monomial).get(self._exp, 0.0)
            if len(a.above) == 2 and len(monomial) == 1 and slope * self.low > 0:
                rest = a.above.get(ONE, math.inf) / a.above[monomial]
                far = slope * self.low
                if 0 < rest * math.exp(-far) < self.algebra.tolerance * far / 8:
                    a = Quotient({monomial: a.above[monomial]}, a.below)
        return self.algebra.log(a)

    def power(self, a: Quotient, n: float) -> Quotient:
        """a^n"""
        if n != int(n):
            whole = self.algebra.raised(a, math.floor(n))
            if n - math.floor(n) != 0.5:
                raise Beyond("an odd power")
            return self.mul(whole, self.sqrt(a))
        return self.algebra.raised(a, n)

    def sqrt(self, a: Quotient) -> Quotient:
        """The root; that of a square is the absolute value."""
        if a.below == {ONE: 1.0} and len(a.above) == 1:
            ((monomial, number),) = a.above.items()
            if len(monomial) == 1 and monomial[0][0] == self._x and number > 0:
                half = monomial[0][1] / 2
                if half == int(half):
                    bare = self.algebra.single(self._x, half)
                    sign = self.sign(bare) or 1
                    return self.mul(bare, self.number(sign * math.sqrt(number)))
        return self.algebra.sqrt(a)

    def less(self, a: Quotient, b: Quotient) -> bool:
        """a < b; raises Split where the interval has both."""
        return self.sign(self.sub(a, b)) < 0

    @staticmethod
    def negated(asked: bool) -> bool:
        """not c"""
        return not asked

    @staticmethod
    def both(a: bool, b: bool) -> bool:
        """a and b"""
        return a and b

    @staticmethod
    def choose(
        asked: bool, then: Callable[[], Quotient], other: Callable[[], Quotient]
    ) -> Quotient:
        """The branch that is taken in the whole interval."""
        return then() if asked else other()

    def sign(self, a: Quotient) -> int:
        """-1, 0 or 1 throughout the interval; raises Split or Beyond."""
        return self._sign(a.above) * self._sign(a.below)

    def _sign(self, p: Polynomial) -> int:
        if not p:
            return 0
        atoms = {atom for monomial in p for atom, _ in monomial}
        if not atoms:
            return 1 if p[ONE] > 0 else -1
        if atoms == {self._x}:
            roots = self._roots(p)
        elif atoms <= {self._x, self._exp} and len(p) <= 2:
            roots = self._crossing(p)
        else:
            raise Beyond("a condition that isn't decided")
        for root in roots:
            root = self.algebra.number(root)
            if self.low < root < self.high:
                raise Split(root)
        return 1 if self._at(p, self._middle()) > 0 else -1

    def _roots(self, p: Polynomial) -> list[float]:
        powers = {m[0][1] if m else 0.0: n for m, n in p.items()}
        least = min(0.0, *powers)
        degree = max(powers) - least
        if degree > 4 or any(n != int(n) for n in powers):
            raise Beyond("a condition of a high degree")
        coefficients = [
            powers.get(degree - k + least, 0.0) for k in range(int(degree) + 1)
        ]
        found = np.roots(coefficients)
        real = [float(r.real) for r in found if abs(r.imag) < 1e-9 * (1 + abs(r))]
        return [*real, 0.0] if least < 0 else real

    def _crossing(self, p: Polynomial) -> list[float]:
        """Where two terms in exp(x), or one of them and a power of x, cancel."""
        if len(p) == 1:
            return [0.0]
        (a, x), (b, y) = p.items()
        powers = [dict(m) for m in (a, b)]
        if any(self._x in d for d in powers):
            raise Beyond("a condition in x and exp(x)")
        if x * y > 0:
            return []
        slope = powers[0].get(self._exp, 0.0) - powers[1].get(self._exp, 0.0)
        return [math.log(-y / x) / slope]

    def _middle(self) -> float:
        if math.isinf(self.low):
            return -1.0 if math.isinf(self.high) else self.high - 1
        return self.low + 1 if math.isinf(self.high) else (self.low + self.high) / 2

    def _at(self, p: Polynomial, x: float) -> float:
        values = {self._x: x, self._exp: math.exp(min(max(x, -300), 300))}
        total = 0.0
        for monomial, number in p.items():
            total += number * math.prod(values[atom] ** n for atom, n in monomial)
        return total


INTERVALS = 12  # of one proof at most


def same_function(a: Term, b: Term, algebra: Algebra) -> bool:
    """Whether two terms are equal for all real numbers; raises Beyond where unclear.

    Between the places where a condition changes their normal forms are, and at those
    places their values.
    """
    edges = [-math.inf, math.inf]
    k = 0
    while k < len(edges) - 1:
        cases = Cases(algebra, edges[k], edges[k + 1])
        try:
            if not algebra.same(value_of(a, cases), value_of(b, cases)):
                return False
            k += 1
        except Split as split:
            edges.insert(k + 1, split.point)
            if len(edges) > INTERVALS:
                raise Beyond("too many cases") from None
    inner = edges[1:-1]
    if not inner:
        return True
    left, right = computed(a, inner), computed(b, inner)
    if left is None or right is None:
        return False
    scale = 1 + np.abs(np.array(inner))
    return bool((np.abs(left - right) <= 4 * algebra.tolerance * scale).all())
