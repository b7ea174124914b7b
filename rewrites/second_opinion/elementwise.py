"""Operators on single elements, as ONNX defines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .places import BOOL, Kind, Undefined, mp


def _divide(kind: Kind, a: Any, b: Any) -> Any:
    if b == 0:
        raise Undefined("a division by 0")
    if not kind.whole:
        return a / b
    quotient = abs(a) // abs(b)
    least = kind.name == "int" and a == -(1 << kind.bits - 1) and b == -1
    if least:
        raise Undefined("the least number by -1")
    return quotient if (a < 0) == (b < 0) else -quotient


def _power(kind: Kind, a: Any, b: Any) -> Any:
    if kind.whole:
        if b < 0 or b > 64 or abs(a) ** int(b) >= 1 << min(kind.bits - 1, 52):
            raise Undefined("a power that is no such number")
        return a ** int(b)
    if a == 0 and b < 0:
        raise Undefined("a division by 0")
    if a < 0 and b != int(b):
        raise Undefined("a power of a negative number")
    return mp.power(a, int(b) if b == int(b) else b)


def root(x: Any) -> Any:
    """The square root."""
    if x < 0:
        raise Undefined("the root of a negative number")
    return mp.sqrt(x)


def logarithm(x: Any) -> Any:
    """Of positive numbers."""
    if x <= 0:
        raise Undefined("the logarithm of no positive number")
    return mp.log(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x)."""
    return 1 / (1 + mp.exp(-x))


def rounded(x: Any) -> Any:
    """To the nearest whole number, halves to the even one."""
    below = mp.floor(x)
    rest = x - below
    if rest == mp.mpf(0.5):
        return below + below % 2
    return below + (rest > 0.5)


def _reciprocal(x: Any) -> Any:
    if x == 0:
        raise Undefined("a division by 0")
    return 1 / x


# Of one operand and the attributes.
UNARY: dict[str, Callable[..., Any]] = {
    "Identity": lambda x: x,
    "Neg": lambda x: -x,
    "Abs": abs,
    "Sign": lambda x: (x > 0) - (x < 0) + 0 * x,
    "Relu": lambda x: max(x, 0 * x),
    "Reciprocal": _reciprocal,
    "Sqrt": root,
    "Exp": mp.exp,
    "Log": logarithm,
    "Sigmoid": sigmoid,
    "Tanh": mp.tanh,
    "Erf": mp.erf,
    "Sin": mp.sin,
    "Cos": mp.cos,
    "Tan": mp.tan,
    "Floor": mp.floor,
    "Ceil": mp.ceil,
    "Round": rounded,
    "Not": lambda x: not x,
    "IsNaN": lambda x: False,
    "IsInf": mp.isinf,
}

BINARY: dict[str, Callable[[Kind, Any, Any], Any]] = {
    "Add": lambda kind, a, b: a + b,
    "Sum": lambda kind, a, b: a + b,
    "Sub": lambda kind, a, b: a - b,
    "Mul": lambda kind, a, b: a * b,
    "Div": _divide,
    "Pow": _power,
    "Max": lambda kind, a, b: max(a, b),
    "Min": lambda kind, a, b: min(a, b),
    "And": lambda kind, a, b: a and b,
    "Or": lambda kind, a, b: a or b,
    "Xor": lambda kind, a, b: a != b,
    "Equal": lambda kind, a, b: a == b,
    "Less": lambda kind, a, b: a < b,
    "LessOrEqual": lambda kind, a, b: a <= b,
    "Greater": lambda kind, a, b: a > b,
    "GreaterOrEqual": lambda kind, a, b: a >= b,
    "PRelu": lambda kind, a, b: a if a >= 0 else a * b,
    "BitwiseAnd": lambda kind, a, b: a & b,
    "BitwiseOr": lambda kind, a, b: a | b,
    "BitwiseXor": lambda kind, a, b: a ^ b,
}
TRUTHS = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "IsNaN"}


def result_kind(op: str, kind: Kind) -> Kind:
    """The kind of an operator's elements, given its first operand's."""
    return BOOL if op in TRUTHS or op == "IsInf" else kind


def shifted(kind: Kind, a: int, by: int, direction: str) -> int:
    """BitShift; by the width or more nothing is left."""
    if by < 0:
        raise Undefined("a shift by less than 0")
    if by >= kind.bits:
        return 0
    return a << by if direction == "LEFT" else a >> by


def converted(x: Any, source: Kind, target: Kind) -> Any:
    """Cast; floats are the reals that they stand for."""
    if target.name == "bool":
        return x != 0
    if target.name == "float" or source.name != "float":
        return x if source.name == "float" else int(x)
    if not mp.isfinite(x):
        raise Undefined("a float that is no number")
    number = int(x)  # towards 0
    if number != target.wrapped(number):
        raise Undefined("a float beyond the whole numbers")
    return number


def equal(a: Any, b: Any, tolerance: float) -> bool:
    """Equal numbers; floats within a relative tolerance."""
    if a == b or not (isinstance(a, mp.mpf) and isinstance(b, mp.mpf)):
        return bool(a == b)
    return bool(abs(a - b) <= tolerance * max(1, abs(a), abs(b)))
