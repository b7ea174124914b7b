"""Casts in a row: none, or one, where the first loses nothing.

Each rule is one combination of element types, and z3 decides it bit by bit.
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


def _there_and_back(first: str, second: str, *, false: bool = False) -> Rule:
    def build(law: Law) -> None:
        x = law.tensor("x", law.rank())
        twice = _twice(x, first, second, first)
        if not false and law.mutant("one_way"):
            twice = _cast(x, first, second)
        if not false and first != "bool" and law.mutant("through_bool"):
            twice = _twice(x, first, "bool", first)
        law.rewrite(twice, x)

    return rule(
        "casts",
        name=f"cast_{first}_{second}_back",
        statement=f"{first} to {second} and back = x, which is {first}",
        samples=[_sample(first)],
        false=false,
    )(build)


def _chain(first: str, second: str, third: str, *, false: bool = False) -> Rule:
    def build(law: Law) -> None:
        x = law.tensor("x", law.rank())
        once = _cast(x, first, third)
        if not false and law.mutant("middle_type"):
            once = _cast(x, first, second)
        law.rewrite(_twice(x, first, second, third), once)

    return rule(
        "casts",
        name=f"cast_{first}_{second}_{third}",
        statement=f"{first} to {second} to {third} = {first} to {third}",
        samples=[_sample(first)],
        false=false,
    )(build)


# Types of operands, and those that hold all their numbers.
_HELD = """
bool: uint8 int32 int64 float16 float32 float64
uint8: int32 int64 float16 float32 float64
int8: int32 int64 float16 float32 float64
int32: int64 float64
float16: float32 float64
bfloat16: float32 float64
float32: float64
"""
# First and second type, and those it makes no difference to go on to. A float that
# fits no integer is left out: each runtime may take it for any.
_CHAINS = """
bool int32: int64 float16 float32 float64
bool int64: int32 float16 float32 float64
bool float16: float32
bool float32: int32 int64 float16 float64
bool float64: float32
uint8 int32: int64 float16 float32
uint8 int64: int32 float32
uint8 float16: float32
uint8 float32: int32 int64 float16 float64
int8 int32: int64 float16 float32
int8 float32: int32 float16
int32 int64: bool float32 float64
int32 float64: float32
float16 float32: bool bfloat16 float64
float16 float64: float32
bfloat16 float32: bool float16 float64
bfloat16 float64: float32
float32 float64: bool float16 bfloat16
"""


def _rows(table: str) -> list[list[str]]:
    """The types of each rule."""
    rows = (row.split(":") for row in table.strip().splitlines())
    return [[*first.split(), last] for first, ends in rows for last in ends.split()]


# Published rules that lose digits.
FALSE_RULES: list[Rule] = [
    _there_and_back("float32", "float16", false=True),
    _there_and_back("float32", "bfloat16", false=True),
    _there_and_back("int32", "float32", false=True),
    _there_and_back("int64", "int32", false=True),
    _chain("float64", "float32", "float16", false=True),
    _chain("int64", "int32", "bool", false=True),
]

RULES: list[Rule] = [
    cast_to_own_type,
    *(_there_and_back(*types) for types in _rows(_HELD)),
    *(_chain(*types) for types in _rows(_CHAINS)),
]
