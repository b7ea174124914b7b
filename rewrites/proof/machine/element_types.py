"""Element types as z3 sorts, exact constants, and Cast between them.

Sound as long as a conversion here never promises more than ONNX Runtime and PyTorch
keep. Both round floats to nearest even with overflow to infinity, keep an integer's low
bits, and take every number but zero, NaN too, for true. Two results are left open:

- A float that doesn't fit an integer type becomes an arbitrary integer: ONNX leaves it
  undefined.
- A number of more digits than float32 has may become a float16 or bfloat16 by way of
  float32, rounded twice. Both runtimes do that with float64, against the standard.

There is one NaN: its sign and payload are out of scope.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import z3

NEAREST_EVEN = z3.RNE()
TOWARDS_ZERO = z3.RTZ()


class Refused(Exception):
    """A term outside what is decided bit by bit; the message says which and why."""


@dataclass(frozen=True)
class Format:
    """An element type: `bits` wide; for floats, `precision` counts the hidden bit."""

    name: str
    kind: str  # float, int, uint, bool
    bits: int
    precision: int = 0

    @property
    def bias(self) -> int:
        """What is added to the exponent of a float before it is stored."""
        return (1 << self.exponent_bits - 1) - 1

    @property
    def is_integer(self) -> bool:
        """Whether its numbers are integers."""
        return self.kind in ("int", "uint")

    @property
    def digits(self) -> int:
        """The binary digits of its longest numbers."""
        return self.precision or self.bits

    @property
    def exponent_bits(self) -> int:
        """The bits of a float's exponent."""
        return self.bits - self.precision

    @property
    def sort(self) -> z3.SortRef:
        """The sort of z3 that has its numbers."""
        if self.kind == "float":
            return z3.FPSort(self.exponent_bits, self.precision)
        return z3.BoolSort() if self.kind == "bool" else z3.BitVecSort(self.bits)

    @property
    def least(self) -> int:
        """The smallest number of an integer type."""
        return -(1 << self.bits - 1) if self.kind == "int" else 0

    @property
    def greatest(self) -> int:
        """The largest number of an integer type."""
        return self.least + (1 << self.bits) - 1

    def holds(self, number: int) -> bool:
        """Whether an integer type has this number."""
        return self.least <= number <= self.greatest


BOOLEAN = Format("bool", "bool", 1)
FLOATS = {
    "float16": Format("float16", "float", 16, 11),
    "bfloat16": Format("bfloat16", "float", 16, 8),
    "float32": Format("float32", "float", 32, 24),
    "float64": Format("float64", "float", 64, 53),
}


def format_named(name: str) -> Format:
    """The element type of this name: a float above, bool, or (u)int of any width."""
    if name == "bool":
        return BOOLEAN
    if name in FLOATS:
        return FLOATS[name]
    if found := re.fullmatch(r"(u?int)([1-9]\d*)", name):
        return Format(name, found[1], int(found[2]))
    raise Refused(f"no element type {name}")


def constant(value: Fraction, element: Format) -> z3.ExprRef:
    """The number in that element type, refused unless it is there exactly."""
    if element.kind == "bool" and value in (0, 1):
        return z3.BoolVal(value == 1)
    if element.is_integer and value.denominator == 1 and element.holds(int(value)):
        return z3.BitVecVal(int(value), element.bits)
    if element.kind == "float":
        return z3.fpBVToFP(
            z3.BitVecVal(_pattern(value, element), element.bits), element.sort
        )
    raise Refused(f"{value} is no {element.name}")


def _pattern(value: Fraction, element: Format) -> int:
    """The bits of a float; a zero is positive."""
    if value == 0:
        return 0
    stored = element.precision - 1
    bias = element.bias
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, 1 - bias)  # below this the numbers are subnormal
    mantissa = magnitude / Fraction(2) ** (exponent - stored)
    if mantissa.denominator != 1 or exponent > bias:
        raise Refused(f"{value} is no {element.name}")
    # The hidden bit adds one to the exponent field, which starts at 0 for subnormals.
    pattern = int(mantissa) + ((exponent + bias - 1) << stored)
    return pattern + (1 << element.bits - 1 if value < 0 else 0)


def float_of(pattern: int, element: Format) -> float:
    """The float with these bits, for messages; every format here fits a double."""
    stored = element.precision - 1
    field = (pattern >> stored) % 2**element.exponent_bits
    fraction = pattern % 2**stored
    sign = -1.0 if pattern >> (element.bits - 1) else 1.0
    if field == 2**element.exponent_bits - 1:
        return float("nan") if fraction else sign * float("inf")
    bias = element.bias
    mantissa = fraction + (2**stored if field else 0)
    return sign * float(mantissa * Fraction(2) ** (max(field, 1) - bias - stored))


def convert(
    x: z3.ExprRef,
    source: Format,
    target: Format,
    arbitrary: Callable[[Format], z3.ExprRef],
) -> z3.ExprRef:
    """Cast; `arbitrary` makes a new unknown for a result nothing is promised of."""
    if source == target:
        return x
    if source.kind == "bool":
        one, zero = (constant(Fraction(n), target) for n in (1, 0))
        return z3.If(x, one, zero)
    if target.kind == "bool":
        return z3.Not(z3.fpIsZero(x)) if source.kind == "float" else x != 0
    if target.kind == "float":
        once, through = _rounded(x, source, target), FLOATS["float32"]
        if source.digits <= through.precision or target.digits >= through.precision:
            return once
        twice = _rounded(_rounded(x, source, through), through, target)
        return z3.If(arbitrary(BOOLEAN), once, twice)
    if source.is_integer:
        return _resize(x, source, target)
    to_integer = z3.fpToSBV if target.kind == "int" else z3.fpToUBV
    fits = _fits(x, source, target)
    return z3.If(fits, to_integer(TOWARDS_ZERO, x, target.sort), arbitrary(target))


def _rounded(x: z3.ExprRef, source: Format, target: Format) -> z3.FPRef:
    """A number as a float, to nearest even."""
    if source.kind == "float":
        return z3.fpToFP(NEAREST_EVEN, x, target.sort)
    from_integer = z3.fpSignedToFP if source.kind == "int" else z3.fpUnsignedToFP
    return from_integer(NEAREST_EVEN, x, target.sort)


def _resize(x: z3.ExprRef, source: Format, target: Format) -> z3.ExprRef:
    more = target.bits - source.bits
    if more <= 0:
        return z3.Extract(target.bits - 1, 0, x)
    return z3.SignExt(more, x) if source.kind == "int" else z3.ZeroExt(more, x)


def _fits(x: z3.ExprRef, source: Format, target: Format) -> z3.BoolRef:
    """Whether the integer part of a float is a number of the target; NaN isn't."""
    whole = z3.fpRoundToIntegral(TOWARDS_ZERO, x)
    inside = [z3.Not(z3.fpIsNaN(x)), z3.Not(z3.fpIsInf(x))]
    # The bounds are powers of two, hence exact; one past the largest float, there is
    # nothing to compare with, and every finite float is inside.
    for bound, compare in (
        (Fraction(target.least), z3.fpGEQ),
        (Fraction(target.greatest + 1), z3.fpLT),
    ):
        try:
            inside.append(compare(whole, constant(bound, source)))
        except Refused:
            continue
    return z3.And(*inside)
