"""The meaning of casts: which in a row are one cast, or undo each other.

A cast is a function of its operand of which nothing is known but what z3 shows bit by
bit, for the element types at hand: that two casts in a row give what one gives, or what
none gives. That holds for every value, infinities and NaN included, so it is used
wherever such a chain stands.

Quantising takes back what dequantising did, by a lemma on rounding, where numbers of 8
bits have a scale for which no product overflows or loses digits.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

from ..kernel.scalars import Const, Element, Op, Scalar, Symbol
from ..kernel.tensors import Context, Tensor
from ..machine.arithmetic import same_leaf
from ..machine.bitwise_decision import classify
from .elementwise import elementwise
from .table import means

_NAMES = {"float": "float32", "double": "float64"}  # ONNX names them otherwise


def element_type(name: str) -> str:
    """The kernel's name of an ONNX element type."""
    return _NAMES.get(name.lower(), name.lower())


def cast_scalar(x: Scalar, source: str, target: str) -> Scalar:
    """x, of one element type, as one of another."""
    return x if source == target else Op(f"cast:{source}:{target}", x)


@cache
def is_one_cast(first: str, second: str, third: str) -> bool:
    """Whether first -> second -> third is first -> third, for each value of `first`."""
    x = Symbol("x")
    chain = cast_scalar(cast_scalar(x, first, second), second, third)
    return classify(chain, cast_scalar(x, first, third)).name == "bitwise"


_CHOOSES = frozenset({"max", "min", "relu", "clip"})


def keeps(source: str, target: str) -> bool:
    """Whether a cast leaves each number what it is, and so their order."""
    return "float" in target and is_one_cast(source, target, source)


@means("Cast")
def _cast(context: Context, x: Tensor, source: Any, to: Any) -> Tensor:
    """A type that the law leaves open is a symbol: then the two have to be the same."""
    if not (isinstance(source, str) and isinstance(to, str)):
        if source is to or (not isinstance(to, str) and source.eq(to)):
            return x
        raise ValueError("a cast between two types that the law leaves open")
    second, third = element_type(source), element_type(to)

    def converted(value: Scalar) -> Scalar:
        if isinstance(value, Op) and value.name.startswith("cast:"):
            first, middle = value.name.split(":")[1:]
            if middle == second and is_one_cast(first, second, third):
                return cast_scalar(value.args[0], first, third)
        if isinstance(value, Op) and value.name in _CHOOSES and keeps(second, third):
            return Op(value.name, *map(converted, value.args))
        return cast_scalar(value, second, third)

    return elementwise(context, converted, x)


# By the type of the scale: between which scales the lemma holds, for |d| <= 255.
SCALES = {
    "FLOAT": (Fraction(1, 2**126), Fraction(2**119)),
    "FLOAT16": (Fraction(1, 2**14), Fraction(2**7)),
}
SMALL = ("INT8", "UINT8")


@means("DequantizeLinear")
def _dequantize(
    context: Context, x: Tensor, scale: Tensor, zero: Tensor, small: str, real: str
) -> Tensor:
    head = f"dequantize:{small}:{real}"
    return elementwise(context, lambda *a: Op(head, *a), x, scale, zero)


@means("QuantizeLinear")
def _quantize(
    context: Context, x: Tensor, scale: Tensor, zero: Tensor, small: str, real: str
) -> Tensor:
    undone = f"dequantize:{small}:{real}"
    known = small in SMALL and real in SCALES

    def quantized(a: Scalar, s: Scalar, z: Scalar) -> Scalar:
        if known and isinstance(a, Op) and a.name == undone:
            q, other_s, other_z = a.args
            alike = same_leaf(s, other_s) and same_leaf(z, other_z)
            if alike and _between(context, s, *SCALES[real]):
                return q
        return Op(f"quantize:{small}:{real}", a, s, z)

    return elementwise(context, quantized, x, scale, zero)


def _between(context: Context, s: Scalar, low: Fraction, high: Fraction) -> bool:
    """Whether the law requires that low <= s <= high."""
    above = below = False
    for fact in context.scalar_facts:
        if not (isinstance(fact, Op) and fact.name == "less_equal"):
            continue
        a, b = fact.args
        if isinstance(a, Const) and isinstance(b, Element) and same_leaf(b, s):
            above = above or a.value >= low
        if isinstance(b, Const) and isinstance(a, Element) and same_leaf(a, s):
            below = below or b.value <= high
    return above and below
