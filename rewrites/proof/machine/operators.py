"""Operators of floats and of whole numbers as terms of z3, what runtimes leave open
left open.

Sound as long as every result that ONNX Runtime or PyTorch can give for the arguments is
a value of the term here, for some value of the unknowns that it introduces: see
bitwise_decision.py for the list, and the tests, which run both.

Whole numbers are bit vectors: two's complement, wrapping around. Division by zero or of
the least number by -1 is an arbitrary number. Measured rather than specified, and
asserted by the tests: negation and absolute value of the least number wrap, a shift by
the width or more gives 0. A shift to the right fills with zeros, as BitShift does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import z3

from .element_types import NEAREST_EVEN, Format, Refused

Unknown = Callable[[Format], z3.ExprRef]


def compare(name: str, a: z3.FPRef, b: z3.FPRef) -> z3.BoolRef:
    """less and the like: false where a side is NaN, and the two zeros are equal."""
    return _COMPARISONS[name](a, b)


def select(
    condition: z3.BoolRef, a: z3.FPRef, b: z3.FPRef, choice: Callable[[], z3.BoolRef]
) -> z3.FPRef:
    """where; a -0 may turn into 0."""
    chosen = z3.If(condition, a, b)
    loses_sign = z3.And(chosen == z3.fpMinusZero(a.sort()), choice())
    return z3.If(loses_sign, z3.fpPlusZero(a.sort()), chosen)


def of_floats(
    name: str,
    args: Sequence[z3.FPRef],
    element: Format,
    choice: Callable[[], z3.BoolRef],
    arbitrary: Unknown,
) -> z3.FPRef:
    """The result of an operator; refused if unknown.

    `choice` and `arbitrary` make a new unknown boolean, and number of an element type.
    """
    if name in ("max", "min") and len(args) == 2:
        return _extremum(name, args[0], args[1], choice)
    if name == "relu" and len(args) == 1:
        return _extremum("max", args[0], z3.fpPlusZero(element.sort), choice)
    if name == "clip" and len(args) == 3:
        x, low, high = args
        raised = _extremum("max", x, low, choice)
        clipped = _extremum("min", raised, high, choice)
        lost = z3.Or(z3.fpIsNaN(low), z3.fpIsNaN(high))
        return z3.If(lost, arbitrary(element), clipped)
    if name == "saturated" and len(args) == 1:
        return _saturated(args[0], choice)
    if name == "sign" and len(args) == 1:
        return _sign(args[0], element, choice)
    try:
        return _ROUNDED[name, len(args)](*args)
    except KeyError:
        raise Refused(f"{name} of {len(args)} floats") from None


def _extremum(
    name: str, a: z3.FPRef, b: z3.FPRef, choice: Callable[[], z3.BoolRef]
) -> z3.FPRef:
    """max or min; of equal arguments (zeros may differ in sign), either."""
    first, second = (z3.fpGT, z3.fpLT) if name == "max" else (z3.fpLT, z3.fpGT)
    ordered = z3.If(first(a, b), a, z3.If(second(a, b), b, z3.If(choice(), a, b)))
    return z3.If(z3.fpIsNaN(a), a, z3.If(z3.fpIsNaN(b), b, ordered))


def _saturated(x: z3.FPRef, choice: Callable[[], z3.BoolRef]) -> z3.FPRef:
    """x; an infinity may become the largest number of its sign."""
    sort = x.sort()
    bits, stored = sort.ebits() + sort.sbits(), sort.sbits() - 1
    largest = z3.BitVecVal((((1 << sort.ebits()) - 1) << stored) - 1, bits)
    positive = z3.fpBVToFP(largest, sort)
    signed = z3.If(z3.fpIsNegative(x), z3.fpNeg(positive), positive)
    return z3.If(z3.And(z3.fpIsInf(x), choice()), signed, x)


def _sign(x: z3.FPRef, element: Format, choice: Callable[[], z3.BoolRef]) -> z3.FPRef:
    zero, one = z3.fpPlusZero(element.sort), z3.FPVal(1.0, element.sort)
    sign = z3.If(z3.fpGT(x, zero), one, z3.If(z3.fpLT(x, zero), z3.fpNeg(one), zero))
    return z3.If(z3.fpIsNaN(x), z3.If(choice(), x, zero), sign)


_COMPARISONS = {
    "less": z3.fpLT,
    "less_equal": z3.fpLEQ,
    "greater": z3.fpGT,
    "greater_equal": z3.fpGEQ,
    "equal": z3.fpEQ,
}

_ROUNDED: dict[tuple[str, int], Callable[..., z3.FPRef]] = {
    ("add", 2): lambda a, b: z3.fpAdd(NEAREST_EVEN, a, b),
    ("sub", 2): lambda a, b: z3.fpSub(NEAREST_EVEN, a, b),
    ("mul", 2): lambda a, b: z3.fpMul(NEAREST_EVEN, a, b),
    ("div", 2): lambda a, b: z3.fpDiv(NEAREST_EVEN, a, b),
    ("recip", 1): lambda a: z3.fpDiv(NEAREST_EVEN, z3.FPVal(1.0, a.sort()), a),
    ("square", 1): lambda a: z3.fpMul(NEAREST_EVEN, a, a),
    ("neg", 1): z3.fpNeg,
    ("abs", 1): z3.fpAbs,
    ("floor", 1): lambda a: z3.fpRoundToIntegral(z3.RTN(), a),
    ("ceil", 1): lambda a: z3.fpRoundToIntegral(z3.RTP(), a),
    ("round", 1): lambda a: z3.fpRoundToIntegral(NEAREST_EVEN, a),
}


COMPARISONS = frozenset("less less_equal greater greater_equal equal".split())


def of_integers(
    name: str,
    args: Sequence[z3.ExprRef],
    element: Format,
    arbitrary: Callable[[Format], z3.ExprRef],
) -> z3.ExprRef:
    """The result of an operator on whole numbers of one type; refused if unknown."""
    table = _ORDERS if name in COMPARISONS else _OPERATORS
    if name == "div" and len(args) == 2:
        return _divide(args[0], args[1], element, arbitrary)
    try:
        return table[name, len(args)](element.kind == "int", *args)
    except KeyError:
        raise Refused(f"{name} of {len(args)} whole numbers") from None


def _divide(
    a: z3.ExprRef,
    b: z3.ExprRef,
    element: Format,
    arbitrary: Callable[[Format], z3.ExprRef],
) -> z3.ExprRef:
    """Towards zero, as ONNX has it."""
    if element.kind == "uint":
        return z3.If(b == 0, arbitrary(element), z3.UDiv(a, b))
    overflows = z3.And(a == element.least, b == -1)
    return z3.If(z3.Or(b == 0, overflows), arbitrary(element), a / b)


def _less(signed: bool, a: z3.ExprRef, b: z3.ExprRef) -> z3.BoolRef:
    return a < b if signed else z3.ULT(a, b)


_ORDERS: dict[tuple[str, int], Callable[..., z3.ExprRef]] = {
    ("less", 2): _less,
    ("less_equal", 2): lambda signed, a, b: z3.Not(_less(signed, b, a)),
    ("greater", 2): lambda signed, a, b: _less(signed, b, a),
    ("greater_equal", 2): lambda signed, a, b: z3.Not(_less(signed, a, b)),
    ("equal", 2): lambda signed, a, b: a == b,
}

_OPERATORS: dict[tuple[str, int], Callable[..., z3.ExprRef]] = {
    ("add", 2): lambda signed, a, b: a + b,
    ("sub", 2): lambda signed, a, b: a - b,
    ("mul", 2): lambda signed, a, b: a * b,
    ("neg", 1): lambda signed, a: -a,
    ("square", 1): lambda signed, a: a * a,
    ("shl", 2): lambda signed, a, b: a << b,
    ("shr", 2): lambda signed, a, b: z3.LShR(a, b),
    ("and", 2): lambda signed, a, b: a & b,
    ("or", 2): lambda signed, a, b: a | b,
    ("xor", 2): lambda signed, a, b: a ^ b,
    ("not", 1): lambda signed, a: ~a,
    ("max", 2): lambda signed, a, b: z3.If(_less(signed, a, b), b, a),
    ("min", 2): lambda signed, a, b: z3.If(_less(signed, a, b), a, b),
    ("abs", 1): lambda signed, a: z3.If(_less(signed, a, 0), -a, a),
    ("relu", 1): lambda signed, a: z3.If(_less(signed, a, 0), a - a, a),
    ("saturated", 1): lambda signed, a: a,
    ("clip", 3): lambda signed, a, low, high: _clip(signed, a, low, high),
}


def _clip(signed: bool, a: z3.ExprRef, low: z3.ExprRef, high: z3.ExprRef) -> z3.ExprRef:
    """min(max(a, low), high): the upper bound wins where they cross."""
    raised = z3.If(_less(signed, a, low), low, a)
    return z3.If(_less(signed, high, raised), high, raised)
