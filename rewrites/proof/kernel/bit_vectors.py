"""Whole-number operators on bit vectors: two's complement, wrapping around.

Sound as long as each operator here is what ONNX Runtime and PyTorch compute. Where they
leave the result open (division by zero or of the least number by -1), or differ, the
result is an arbitrary number. Measured rather than specified, and asserted by the
tests: negation and absolute value of the least number wrap, a shift by the width or
more gives 0. A shift to the right fills with zeros, as BitShift does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import z3

from .element_types import Format, Refused

COMPARISONS = frozenset("less less_equal greater greater_equal equal".split())


def operate(
    name: str,
    args: Sequence[z3.ExprRef],
    element: Format,
    arbitrary: Callable[[Format], z3.ExprRef],
) -> z3.ExprRef:
    """The result of an operator on whole numbers of one type; refused if unknown."""
    table = _COMPARISONS if name in COMPARISONS else _OPERATORS
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


_COMPARISONS: dict[tuple[str, int], Callable[..., z3.ExprRef]] = {
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
