"""Casts that do nothing, and published ones that lose digits.

Casts in a row are judged by what their types hold: recognition/cast_chains.py.
"""

from __future__ import annotations

from ..language.operators.elementwise import Cast
from ..language.pattern import Term
from ..language.rule import Law, Rule, rule

_ONNX = {"float32": "FLOAT", "float64": "DOUBLE"}  # the others by their own names


def _cast(x: Term, source: str, target: str) -> Term:
    onnx = [_ONNX.get(name, name.upper()) for name in (source, target)]
    return Cast(x, source=onnx[0], to=onnx[1])


def _twice(x: Term, first: str, second: str, third: str) -> Term:
    return _cast(_cast(x, first, second), second, third)


def _sample(element_type: str) -> dict[str, object]:
    onnx = _ONNX.get(element_type, element_type.upper())
    return dict(r=2, x=[2, 3], types=dict(x=onnx))


@rule("casts", samples=[dict(r=2, x=[2, 3], t="FLOAT")])
def cast_to_own_type(law: Law) -> None:
    """Cast(x, type of x) = x"""
    x, t = law.tensor("x", law.rank()), law.word("t")
    y = law.tensor("y", law.rank("q")) if law.mutant("other_tensor") else x
    law.rewrite(Cast(x, source=t, to=t), y)


def _lossy(name: str, first: str, second: str, third: str) -> Rule:
    """A published rule that loses digits."""

    def build(law: Law) -> None:
        x = law.tensor("x", law.rank())
        once = x if first == third else _cast(x, first, third)
        law.rewrite(_twice(x, first, second, third), once)

    return rule(
        "casts",
        name=name,
        statement=f"{first} to {second} to {third} = {first} to {third}",
        samples=[_sample(first)],
        false=True,
    )(build)


FALSE_RULES: list[Rule] = [
    _lossy("cast_float32_float16_back", "float32", "float16", "float32"),
    _lossy("cast_float32_bfloat16_back", "float32", "bfloat16", "float32"),
    _lossy("cast_int32_float32_back", "int32", "float32", "int32"),
    _lossy("cast_int64_int32_back", "int64", "int32", "int64"),
    _lossy("cast_float64_float32_float16", "float64", "float32", "float16"),
    _lossy("cast_int64_int32_bool", "int64", "int32", "bool"),
]

RULES: list[Rule] = [cast_to_own_type]
