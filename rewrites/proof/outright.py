"""Where a rounding shows outright: what jumps, of numbers that were rounded.

Equal over the reals means equal up to rounding where a result depends continuously on
what is rounded. A comparison, Floor, a cast to whole numbers, the place of a maximum
don't: of x + z < y + z and x < y one can be true and the other false, since z swallows
what tells x from y. A law that is shown over the reals alone may give such functions
nothing but numbers that no operation has rounded: then they take the value that they
have over the reals, and what is left is continuous wherever it is defined. Elements,
and what is chosen among them, are such numbers.

Near a pole, and at the edge of what a function is defined on, the least rounding is as
much: |u| / u, 1 / u, log(u) and sqrt(u) of a u near 0 that both sides round otherwise.
There both sides must take the very same term, or one that is right to some last places
whatever cancels in what it is made of: 1 + exp(x), a softmax, a sum of squares. So too
the power of what may be negative or 0, near a whole number.

In structurally equal sides the same goes for what the runtime leaves open: the order of
a sum, the last place of an elementary function.

No law is lost by that: what both sides round alike can be an operand of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from .element_kinds import ORDERED, parts
from .kernel.definedness import NEVER_NEGATIVE
from .kernel.equality import Equality
from .kernel.scalars import (
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
)
from .kernel.smt import fresh, fresh_function
from .machine.operators import COMPARISONS


class Outright(Exception):
    """A rounding may change the result outright; the text says by what."""


_JUMPS = COMPARISONS | {"floor", "ceil", "round", "sign", "isnan"}
# What gives one of its operands, but for the sign, or a number of every format.
_CHOOSES = _JUMPS | ORDERED | {"neg", "abs", "saturated"}
_BITS = 8  # that are significant in every format


def refuse_jumps(term: Scalar, settled: Callable[[Scalar], bool]) -> None:
    """Raises Outright if what jumps is given an operand that isn't `settled`."""
    operands = _without_kinks(term)
    if _jumps(term) and not all(map(settled, operands)):
        assert isinstance(term, Op | Opaque)
        raise Outright(
            f"true of real numbers alone: {_plain(term.name)} of rounded ones may "
            "differ outright"
        )
    for operand in operands:
        refuse_jumps(operand, settled)


# The operand near whose zero a function has a pole, or ends.
_ENDS = {"div": 1} | dict.fromkeys(
    ("recip", "log", "sqrt", "pow", "tan", "kernel:ReduceLogSum"), 0
)
_POLES = {"recip": "div"}
# A negative number has whole powers alone, 0 has another one at 0.
_EXPONENT = "the power"
# These divide by what is left of a row without its mean, or add epsilon to a variance.
_OF_EXACT = {
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "BatchNormalization",
    _EXPONENT,
}
_POSITIVE = {"exp", "sigmoid", "softplus", "kernel:Softmax"}
_LENGTHS = {"kernel:ReduceL1", "kernel:ReduceL2"}
_KEEPS = ORDERED | {"mul", "div", "recip", "sqrt", "neg", "abs", "square"}
_EPSILON = Fraction(1, 10**13)  # from which on a number keeps a divisor from 0


class Edges:
    """Where functions end; `equality` shows that two terms are the very same.

    What is inside of reductions is looked at in one place, the same on both sides.
    """

    def __init__(self, equality: Equality) -> None:
        self.equality = equality
        self.known = tuple(equality.context.hypotheses)
        self.places: dict[tuple[int, bool], Any] = {}

    def same(self, a: Scalar, b: Scalar) -> bool:
        """Whether two terms are the same operations on the same elements."""
        return bool(self.equality.equal(a, b, self.known))

    def refuse(self, left: Scalar, right: Scalar) -> None:
        """Raises Outright if one is met by one side alone, near a rounded number."""
        ours, theirs = (
            {f"{name} {x!r}": (name, x) for name, x in self._of(term, 0)}
            for term in (left, right)
        )
        for own, others in ((ours, theirs), (theirs, ours)):
            for text in own.keys() - others.keys():
                self._check(*own[text], others.values())

    def _check(
        self, name: str, operand: Scalar, others: Iterable[tuple[str, Scalar]]
    ) -> None:
        near = _exact if name in _OF_EXACT else self.accurate
        if near(operand) or (name == "sqrt" and self.not_negative(operand)):
            return
        if not any(name == other and self.same(operand, x) for other, x in others):
            near_what = "a whole number" if name == _EXPONENT else "0"
            raise Outright(
                f"true of real numbers alone: {name} of rounded ones may be anything "
                f"near {near_what}"
            )

    def _of(self, term: Scalar, depth: int) -> Iterator[tuple[str, Scalar]]:
        """The functions that end somewhere, and of what they are taken."""
        match term:
            case Op(name="pow", args=(_, Const(value=power))) if power in range(1, 64):
                pass
            case Op(name=name, args=args) if name in _ENDS:
                yield _POLES.get(name, _plain(name)), args[_ENDS[name]]
                base = args[0]
                above = isinstance(base, Op) and base.name in _POSITIVE
                if name == "pow" and not (above or self.positive(base)):
                    yield _EXPONENT, args[1]
            case Opaque(name=name) if "Normalization" in name:
                # A batch has a variance of its own, which may be below 0.
                own = "Batch" in name
                spread = term.tensors[4 if own else 0].at(term.index)
                epsilon = self.positive(term.tensors[-1].at(term.index))
                if not epsilon or (own and not self.not_negative(spread)):
                    yield _plain(name), spread
        for part in self._parts(term, depth):
            yield from self._of(part, depth + 1)

    def _parts(self, term: Scalar, depth: int) -> tuple[Scalar, ...]:
        if isinstance(term, Red):
            return (term.body(self._place(depth, term.vec)),)
        if isinstance(term, Opaque):
            return tuple(t.at(self._place(depth, True)) for t in term.tensors)
        return parts(term)

    def _place(self, depth: int, vec: bool) -> Any:
        make = fresh_function if vec else fresh
        return self.places.setdefault((depth, vec), make("inside"))

    def accurate(self, term: Scalar) -> bool:
        """Whether a runtime has a number to some last places, however small it is."""
        if _exact(term):
            return True
        if isinstance(term, Red):
            one = all(map(self.accurate, parts(term)))
            return one and (term.kind != "sum" or self.not_negative(term))
        match term:
            case Op(name=name) if name in _POSITIVE:
                return True
            case Op(name=name, args=(Red() as total,)) if name in _LENGTHS:
                return all(map(self.accurate, parts(total)))
            case Op(name="add" | "sub" | "pow", args=args) if all(map(_exact, args)):
                return True  # one rounding
            case Op(name="add", args=args) if all(map(self.not_negative, args)):
                return any(map(self.positive, args)) or all(map(self.accurate, args))
            case Op(name="where", args=(_, *args)):
                return all(map(self.accurate, args))
            case Op(name=name, args=args) if name in _KEEPS:
                return all(map(self.accurate, args))
        return isinstance(term, Ite) and all(map(self.accurate, parts(term)))

    def positive(self, term: Scalar) -> bool:
        """Whether it is an epsilon: a number that isn't 0 up to rounding."""
        if isinstance(term, Symbol):
            return any(
                map(partial(_says_positive, term), self.equality.context.scalar_facts)
            )
        return isinstance(term, Const) and term.value >= _EPSILON

    def not_negative(self, term: Scalar) -> bool:
        """Whether no rounding makes a number negative."""
        if self.positive(term):
            return True
        match term:
            case Const(value=value):
                return value >= 0
            case FromInt(value=value):
                return self.equality.proves(self.known, value >= 0)
            case Op(name=name) if name in _POSITIVE | NEVER_NEGATIVE:
                return True
            case Op(name="mul", args=(a, b)) if self.same(a, b):
                return True
            case Op(name="pow", args=(_, Const(value=power))) if power % 2 == 0:
                return True
            case Op(name="add" | "mul" | "div", args=args):
                return all(map(self.not_negative, args))
            case Red(kind="sum" | "prod" | "max" | "min"):
                return all(map(self.not_negative, parts(term)))
        return False


def _says_positive(symbol: Symbol, fact: Scalar) -> bool:
    match fact:
        case Op(name="less", args=(Const(value=low), Symbol(name=name))):
            return low >= 0 and name == symbol.name
        case Op(name="greater", args=(Symbol(name=name), Const(value=low))):
            return low >= 0 and name == symbol.name
    return False


def _plain(name: str) -> str:
    return name.removeprefix("kernel:").partition(":")[0]


def _exact(term: Scalar) -> bool:
    return unrounded(term) or isinstance(term, Const | FromInt | Symbol)


def _without_kinks(term: Scalar) -> tuple[Scalar, ...]:
    """A term's parts; those of the comparison too, if its sides meet where it flips.

    `where(t < 0, slope * t, t)`, and whatever else has t, or nothing, on either side.
    """
    match term:
        case Op(
            name="where",
            args=(Op(name="less" | "greater", args=(t, Const(value=0))), *sides),
        ) if all(_vanishes_with(side, t) for side in sides):
            return (t, *sides)
    return parts(term)


def _vanishes_with(term: Scalar, other: Scalar) -> bool:
    if isinstance(term, Op) and term.name == "mul":
        return any(_vanishes_with(x, other) for x in term.args)
    return term is other or (isinstance(term, Const) and term.value == 0)


def unrounded(term: Scalar) -> bool:
    """Whether a runtime has the very number that the term is over the reals."""
    if isinstance(term, Const):
        n, d = abs(term.value.numerator), term.value.denominator
        return n < 1 << _BITS and d & (d - 1) == 0
    if isinstance(term, Op):
        *_, source, target = f"::{term.name}".split(":")
        whole = term.name.startswith("cast:") and "float" not in target
        chooses = term.name in _CHOOSES or whole or source == "bool"
    else:
        chooses = isinstance(term, Ite) or (
            isinstance(term, Red) and term.kind in ("max", "min")
        )
    if chooses:
        return all(map(unrounded, parts(term)))
    return isinstance(term, Element | NegInf | NegZero)


def _jumps(term: Scalar) -> bool:
    """Whether a term is a function that may not be continuous."""
    if isinstance(term, Opaque):
        return not term.name.startswith("kernel:") and term.name != "scatter_nd"
    if not isinstance(term, Op):
        return False
    head, *types = term.name.split(":")
    if head == "cast":
        return "float" in types[0] and "float" not in types[1]
    return head in (*_JUMPS, "quantize", "sigma") or types == ["IsNaN"]
