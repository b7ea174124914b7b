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
whatever cancels in what it is made of: 1 + exp(x), a softmax, a sum of squares.

In structurally equal sides the same goes for what the runtime leaves open: the order of
a sum, the last place of an elementary function.

No law is lost by that: what both sides round alike can be an operand of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .element_kinds import ORDERED, parts
from .kernel.definedness import NEVER_NEGATIVE
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
        name = term.name.removeprefix("kernel:").partition(":")[0]
        raise Outright(
            f"true of real numbers alone: {name} of rounded ones may differ outright"
        )
    for operand in operands:
        refuse_jumps(operand, settled)


def refuse_edges(left: Scalar, right: Scalar) -> None:
    """Raises Outright if a function is taken near where it ends, by one side alone."""
    ours, theirs = dict(_edges(left)), dict(_edges(right))
    for text in ours.keys() ^ theirs.keys():
        name, operand = (ours | theirs)[text]
        if not (_accurate(operand) or (name == "sqrt" and _not_negative(operand))):
            raise Outright(
                f"true of real numbers alone: {name} of rounded ones may be anything "
                "near 0"
            )


# The operand near whose zero a function has a pole, or ends.
_ENDS = {"div": 1, "recip": 0, "log": 0, "sqrt": 0, "pow": 0, "tan": 0}


def _edges(term: Scalar) -> Iterator[tuple[str, tuple[str, Scalar]]]:
    """The functions that end somewhere, and of what they are taken, by their text."""
    match term:
        case Op(name="pow", args=(_, Const(value=power))) if power in range(1, 64):
            pass
        case Op(name=name, args=args) if name in _ENDS:
            operand = args[_ENDS[name]]
            yield f"{name} {operand!r}", (name, operand)
    for part in parts(term):
        yield from _edges(part)


def _accurate(term: Scalar) -> bool:
    """Whether a runtime has a number to some last places, however small it is."""
    if _exact(term):
        return True
    if isinstance(term, Red):
        one = all(map(_accurate, parts(term)))
        return one and (term.kind != "sum" or _not_negative(term))
    match term:
        case Op(name=name) if name in _POSITIVE:
            return True
        case Op(name="add" | "sub", args=args) if all(map(_exact, args)):
            return True  # one rounding
        case Op(name="add", args=args):
            return all(map(_accurate, args)) and all(map(_not_negative, args))
        case Op(name="where", args=(_, *args)):
            return all(map(_accurate, args))
        case Op(name=name, args=args) if name in _KEEPS:
            return all(map(_accurate, args))
    return isinstance(term, Ite) and all(map(_accurate, parts(term)))


def _exact(term: Scalar) -> bool:
    return unrounded(term) or isinstance(term, Const | FromInt | Symbol)


_POSITIVE = {"exp", "sigmoid", "softplus", "kernel:Softmax"}
_KEEPS = ORDERED | {"mul", "div", "recip", "sqrt", "neg", "abs", "square"}


def _not_negative(term: Scalar) -> bool:
    """Whether no rounding makes a number negative."""
    match term:
        case Const(value=value):
            return value >= 0
        case Op(name=name) if name in _POSITIVE | NEVER_NEGATIVE:
            return True
        case Op(name="mul", args=(a, b)) if repr(a) == repr(b):
            return True
        case Op(name="add" | "mul" | "div", args=args):
            return all(map(_not_negative, args))
        case Red(kind="sum" | "prod" | "max" | "min"):
            return all(map(_not_negative, parts(term)))
    return False


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
