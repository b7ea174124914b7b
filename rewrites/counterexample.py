"""Numbers for which the two sides of a law differ: what a refusal is shown by.

Only where single elements are computed of single elements; for any other law nothing is
known but that it wasn't shown. The numbers are those that tell spellings apart, in the
arithmetic of the second opinion.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

import onnx_ir as ir

from ..analysis.ops import OPS
from ..analysis.ops.registry import ONE_TO_ONE
from .language.pattern import Apply, Chain, Leaf, Term, Var, leaves
from .language.rule import Law
from .language.terms import Expr
from .proof.element_kinds import kinds_of
from .second_opinion import definitions  # noqa: F401  it enters operators
from .second_opinion.elementwise import equal
from .second_opinion.operators import apply
from .second_opinion.places import Kind, Tensor, Undefined, Unknown, mp, objects

_DRAWS = 400
_TOLERANCE = 1e-20  # of numbers of 60 digits
_RANK = 2  # of sizes 1 throughout
_NUMBERS: dict[str, list[Any]] = {
    "float": [0, 1, -1, 2, -2, 3, 0.5, -0.5, 1.5, 2.5, -2.5, 0.75, -7, 100, 1e-6],
    "int": [0, 1, -1, 2, -2, 3, 7, -7, 100, 1 << 30, (1 << 31) - 1, -1 << 31],
    "bool": [False, True],
}
_KINDS = {"float": Kind("float"), "int": Kind("int", 32), "bool": Kind("bool")}
_Values: TypeAlias = Mapping[str, Tensor]


def counterexample(law: Law) -> str:
    """Elements, and what both sides make of them; empty if none was found."""
    kinds = kinds_of(law, "float")
    drawn = random.Random(0)
    for _ in range(_DRAWS):
        numbers = {name: drawn.choice(_NUMBERS[kind]) for name, kind in kinds.items()}
        try:
            found = _difference(law, kinds, numbers)
        except Undefined:
            continue
        except Unknown:
            return ""
        if found:
            return found
    return ""


def _difference(law: Law, kinds: Mapping[str, str], numbers: dict[str, Any]) -> str:
    for leaf in leaves([*law.left, *law.right]):
        if leaf.kind is Leaf.ABOUT:
            raise Unknown("a constant that is near a number")
        if leaf.number is not None and leaf.kind is not Leaf.NUMBER:
            numbers[leaf.name] = _value(leaf.number, numbers)
    if not all(_value(condition, numbers) for condition in law.requires):
        return ""
    values = {x: _constant(n, _KINDS[kinds[x]]) for x, n in numbers.items()}
    for left, right in zip(law.left, law.right, strict=True):
        first = _element(left, values, numbers)
        try:
            second = _element(right, values, numbers)
        except Undefined:
            second = None
        if second is None or not equal(first, second, _TOLERANCE):
            given = ", ".join(f"{x} = {_text(n)}" for x, n in numbers.items())
            of = " (int32)" * ("int" in kinds.values())
            return f"{given}{of}: left {_text(first)}, right {_text(second)}"
    return ""


def _constant(number: Any, kind: Kind) -> Tensor:
    if isinstance(number, Fraction):
        if kind.whole and number.denominator != 1:
            raise Unknown("a fraction of whole numbers")
        number = mp.mpf(number.numerator) / number.denominator
    value = kind.wrapped(number)
    return Tensor(kind, (), lambda at: objects([value] * len(at or [0])))


def _element(term: Term, values: _Values, numbers: Mapping[str, Any]) -> Any:
    return _tensor(term, values, numbers).at([], (1,))[0]


def _tensor(term: Term, values: _Values, numbers: Mapping[str, Any]) -> Tensor:
    if isinstance(term, Var) and term.kind is Leaf.NUMBER and term.shape is None:
        return _constant(_value(term.number, numbers), _KINDS[term.kinds or "float"])
    if isinstance(term, Var) and term.name in values:
        return values[term.name]
    if isinstance(term, Chain):
        parts = [_tensor(x, values, numbers) for x in term.parts]
        return apply(term.head.name, parts, {}, 1)[0]
    if not isinstance(term, Apply):
        raise Unknown(f"{term!r}")
    node = term.node
    if OPS["", node.operator.name].mapping is not ONE_TO_ONE:
        raise Unknown("more than single elements")
    inputs = [None if x is None else _tensor(x, values, numbers) for x in node.inputs]
    attributes = {k: _value(v, numbers) for k, v in node.parameters.items()}
    if node.operator.name == "Cast":
        attributes = {"to": ir.DataType[attributes["to"]].value}
    found = apply(node.operator.name, inputs, attributes, node.count)
    if any(t.rank for t in found):
        raise Unknown("more than one element")
    return found[term.output]


def _value(x: Any, numbers: Mapping[str, Any]) -> Any:
    """A number or condition of the law, all of whose sizes are 1."""
    if not isinstance(x, Expr):
        return x
    if x.head == "number":
        return x.args[0]
    if x.head == "symbol" and x.args[0] == "r":
        return _RANK
    if x.head in ("symbol", "value") and str(x.args[0]) in numbers:
        return numbers[str(x.args[0])]
    if x.head == "dim":
        return 1
    if x.head == "forall":
        return _value(x.args[2], numbers)  # no axis differs from another
    if x.head == "bound":
        return 0
    if x.head in _ARITHMETIC:
        return _ARITHMETIC[x.head](*(_value(a, numbers) for a in x.args))
    raise Unknown(f"the condition {x}")


_ARITHMETIC: dict[str, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "from_int": lambda a: a,
    "literal": lambda a: a,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: not a,
    "equal": lambda a, b: a == b,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "real_equal": lambda a, b: a == b,
    "real_less": lambda a, b: a < b,
    "real_less_equal": lambda a, b: a <= b,
}


def _text(x: Any) -> str:
    if x is None:
        return "undefined"
    return mp.nstr(x, 8) if isinstance(x, mp.mpf) else str(x)
