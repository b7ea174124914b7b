"""Quantisation."""

from __future__ import annotations

from fractions import Fraction

from ..language.operators.quantization import DequantizeLinear, QuantizeLinear
from ..language.rule import Law, Rule, rule

# Scales with which no product of a number of 8 bits overflows or loses digits.
_LEAST, _MOST = Fraction(1, 2**126), Fraction(2**119)


def _quantize_dequantized(small: str) -> Rule:
    def build(law: Law) -> None:
        r = law.rank()
        q = law.tensor("q", r, kinds="int")
        s = law.scalar("s", r, kinds="float")
        z = law.scalar("z", r, kinds="int")
        if not law.mutant("tiny_scale"):
            law.require(s.value >= _LEAST, "the scale is so small that digits are lost")
        if not law.mutant("huge_scale"):
            law.require(s.value <= _MOST, "the scale is so large that it overflows")
        zero = z
        if law.mutant("other_zero_point"):
            zero = law.scalar("y", r, kinds="int")
        types = dict(small=small, real="FLOAT")
        law.rewrite(
            QuantizeLinear(DequantizeLinear(q, s, z, **types), s, zero, **types), q
        )

    return rule(
        "quant",
        name=f"quantize_dequantized_{small.lower()}_float",
        statement=f"Quantize(Dequantize(q, s, z), s, z) = q, of {small} by FLOAT",
        samples=[
            dict(r=2, q=[2, 3], s=0.05, z=3, types=dict(q=small, z=small, s="FLOAT"))
        ],
    )(build)


RULES: list[Rule] = [*map(_quantize_dequantized, ("INT8", "UINT8"))]
