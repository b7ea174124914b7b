"""Operators on single elements, with NumPy broadcasting."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..facts import Facts
from ..pattern import Operator
from .read_write import (
    CannotWrite,
    Draft,
    Input,
    NewConstant,
    NoReading,
    Output,
    Reading,
    attribute,
    define,
    given,
    plain,
    trimmed,
)

Add = plain("Add", 2, commutative=True)
Mul = plain("Mul", 2, commutative=True)
Sub = plain("Sub", 2)
Div = plain("Div", 2)
Pow = plain("Pow", 2)
Max = plain("Max", 2, commutative=True)
Min = plain("Min", 2, commutative=True)
And = plain("And", 2, commutative=True)
Or = plain("Or", 2, commutative=True)
Xor = plain("Xor", 2, commutative=True)
Equal = plain("Equal", 2, commutative=True)
Less = plain("Less", 2)
LessOrEqual = plain("LessOrEqual", 2)
Greater = plain("Greater", 2)
GreaterOrEqual = plain("GreaterOrEqual", 2)
PRelu = plain("PRelu", 2)
Where = plain("Where", 3)

Not = plain("Not", 1)
Neg = plain("Neg", 1)
Abs = plain("Abs", 1)
Sign = plain("Sign", 1)
Exp = plain("Exp", 1)
Log = plain("Log", 1)
Sqrt = plain("Sqrt", 1)
Reciprocal = plain("Reciprocal", 1)
Relu = plain("Relu", 1)
Sigmoid = plain("Sigmoid", 1)
Tanh = plain("Tanh", 1)
Erf = plain("Erf", 1)
Sin = plain("Sin", 1)
Cos = plain("Cos", 1)
Floor = plain("Floor", 1)
Ceil = plain("Ceil", 1)
Round = plain("Round", 1)
Softplus = plain("Softplus", 1)
Softsign = plain("Softsign", 1)
Mish = plain("Mish", 1)
HardSwish = plain("HardSwish", 1)
Gelu = plain("Gelu", 1, approximate="none")
LeakyRelu = plain("LeakyRelu", 1, alpha=0.01)
HardSigmoid = plain("HardSigmoid", 1, alpha=0.2, beta=0.5)
Elu = plain("Elu", 1, alpha=1.0)
Swish = plain("Swish", 1, alpha=1.0)
Identity = plain("Identity", 1)
BitShift = plain("BitShift", 2, direction="")


def _read_clip(node: ir.Node, facts: Facts) -> Reading:
    """Either bound may be left out."""
    inputs = trimmed(node.inputs)
    return Reading((*inputs, *[None] * (3 - len(inputs))), {})


def _write_clip(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    return Draft("Clip", [inputs[0], *(_without_axes(x) for x in inputs[1:])])


def _without_axes(bound: Input) -> Input:
    """The same number with no axes, as Clip wants its bounds."""
    if bound is None or _has_no_axes(bound):
        return bound
    if isinstance(bound, ir.Value) and bound.const_value is not None:
        array = bound.const_value.numpy()
        if array.size == 1:
            return NewConstant(array.reshape(()))
    raise CannotWrite("a bound of Clip that may have axes")


def _has_no_axes(bound: Input) -> bool:
    if isinstance(bound, Output):
        return all(_has_no_axes(x) for x in bound.draft.inputs)
    if isinstance(bound, NewConstant):
        return bound.array.ndim == 0
    return bound is None or (bound.shape is not None and len(bound.shape) == 0)


Clip = define(Operator("Clip"), _read_clip, _write_clip)


def _read_cast(node: ir.Node, facts: Facts) -> Reading:
    source = given(node, 0)
    if source.dtype is None:
        raise NoReading("the element type of the operand is unknown")
    if not attribute(node, "saturate", 1) or "round_mode" in node.attributes:
        raise NoReading("a Cast that rounds in a way of its own")
    to = ir.DataType(node.attributes["to"].as_int())
    return Reading((source,), {"source": source.dtype.name, "to": to.name})


def _write_cast(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    return Draft("Cast", inputs, {"to": ir.DataType[parameters["to"]].value})


# Element types by their ONNX names; `source` is read, never written.
Cast = define(Operator("Cast", ("source", "to")), _read_cast, _write_cast)


# Families that a Pointwise symbol may stand for. A node qualifies when its operands
# after the first are constants with one element.
UNARY = frozenset(
    "Neg Abs Sign Exp Log Sqrt Reciprocal Relu Sigmoid Tanh Erf Sin Cos Tan Floor Ceil "
    "Round Softplus Softsign Mish HardSwish Gelu LeakyRelu HardSigmoid Elu Selu Celu "
    "ThresholdedRelu Swish Clip Not IsNaN IsInf Cast Acos Acosh Asin Asinh Atan Atanh "
    "Cosh Sinh BitwiseNot Add Sub Mul Div Pow Max Min".split()
)
# f(a) <= f(b) for a <= b, also after rounding; ties stay ties or appear.
MONOTONE = frozenset("Relu Clip Floor Ceil Round".split())
# f(0) = 0, whatever the attributes.
ZERO = frozenset(
    "Neg Abs Sign Sqrt Relu Tanh Erf Sin Tan Floor Ceil Round Softsign Mish HardSwish "
    "Gelu LeakyRelu Elu Selu Celu Swish Asin Asinh Atan Atanh Sinh".split()
)
BINARY = frozenset(
    "Add Sub Mul Div Pow Max Min And Or Xor Equal Less LessOrEqual Greater "
    "GreaterOrEqual Mod BitShift BitwiseAnd BitwiseOr BitwiseXor".split()
)
FAMILIES = {"unary": UNARY, "monotone": MONOTONE, "zero": ZERO, "binary": BINARY}


def pointwise_operands(
    node: ir.Node, arity: int, family: str, facts: Facts
) -> tuple[ir.Value, ...] | None:
    """The operands of a node that belongs to a family; None if it doesn't."""
    if node.domain or node.op_type not in FAMILIES[family] or len(node.outputs) != 1:
        return None
    inputs = trimmed(node.inputs)
    operands = inputs[:arity]
    if len(operands) != arity or any(x is None for x in operands):
        return None
    ranks = [len(facts.dims(x) or ()) for x in operands if x is not None]
    for other in inputs[arity:]:
        if other is None:
            continue
        # One of an axis would add it to operands without any.
        one = ((), (1,)) if max(ranks, default=0) > 0 else ((),)
        if not facts.is_constant(other) or facts.dims(other) not in one:
            return None
    return tuple(x for x in operands if x is not None)
