"""Quantisation."""

from __future__ import annotations

from fractions import Fraction

from ..language.operators.quantization import DequantizeLinear, QuantizeLinear
from ..language.rule import Law, Rule, rule

# Scales with which no product of a number of 8 bits overflows or loses digits.
_SCALES = {
    "FLOAT": (Fraction(1, 2**126), Fraction(2**119)),
    "FLOAT16": (Fraction(1, 2**14), Fraction(2**7)),
}


def _quantize_dequantized(name: str, small: str, real: str) -> Rule:
    def build(law: Law) -> None:
        r = law.rank()
        q = law.tensor("q", r, kinds="int")
        s = law.scalar("s", r, kinds="float")
        z = law.scalar("z", r, kinds="int")
        low, high = _SCALES[real]
        if not law.mutant("tiny_scale"):
            law.require(s.value >= low, "the scale is so small that digits are lost")
        if not law.mutant("huge_scale"):
            law.require(s.value <= high, "the scale is so large that it overflows")
        zero = z
        if law.mutant("other_zero_point"):
            zero = law.scalar("y", r, kinds="int")
        types = dict(small=small, real=real)
        law.rewrite(
            QuantizeLinear(DequantizeLinear(q, s, z, **types), s, zero, **types), q
        )

    return rule(
        "quant",
        name=name,
        statement=f"Quantize(Dequantize(q, s, z), s, z) = q, of {small} by {real}",
        samples=[
            dict(r=2, q=[2, 3], s=0.05, z=3, types=dict(q=small, z=small, s=real))
        ],
    )(build)


RULES: list[Rule] = [
    _quantize_dequantized("quantize_dequantized_int8_float", "INT8", "FLOAT"),
    _quantize_dequantized("quantize_dequantized_uint8_float", "UINT8", "FLOAT"),
]
