"""Meanings of elementwise operators with parameters."""

from __future__ import annotations

from typing import Any

from ..kernel.scalars import Const, Op, Scalar
from ..kernel.tensors import Context, Tensor
from . import elementwise
from .table import means


@means("Identity")
def _identity(context: Context, x: Tensor) -> Tensor:
    return x


@means("Gelu")
def _gelu(context: Context, x: Tensor, approximate: str) -> Tensor:
    return elementwise.gelu(context, x, approximate)


@means("LeakyRelu")
def _leaky_relu(context: Context, x: Tensor, alpha: Any) -> Tensor:
    return elementwise.leaky_relu(context, x, alpha)


@means("HardSigmoid")
def _hard_sigmoid(context: Context, x: Tensor, alpha: Any, beta: Any) -> Tensor:
    return elementwise.hard_sigmoid(context, x, alpha, beta)


@means("Elu")
def _elu(context: Context, x: Tensor, alpha: Any) -> Tensor:
    return elementwise.elu(context, x, alpha)


@means("Swish")
def _swish(context: Context, x: Tensor, alpha: Any) -> Tensor:
    return elementwise.swish(context, x, alpha)


@means("HardSwish")
def _hard_swish(context: Context, x: Tensor) -> Tensor:
    return elementwise.hard_swish(context, x)


@means("Mish")
def _mish(context: Context, x: Tensor) -> Tensor:
    return elementwise.mish(context, x)


@means("Softplus")
def _softplus(context: Context, x: Tensor) -> Tensor:
    return elementwise.softplus(context, x)


@means("Softsign")
def _softsign(context: Context, x: Tensor) -> Tensor:
    return elementwise.elementwise(context, lambda a: a / (1 + Op("abs", a)), x)


@means("PRelu")
def _prelu(context: Context, x: Tensor, slope: Tensor) -> Tensor:
    return elementwise.prelu(context, x, slope)


@means("Clip")
def _clip(
    context: Context, x: Tensor, low: Tensor | None, high: Tensor | None
) -> Tensor:
    return elementwise.clip(context, x, low, high)


@means("BitShift")
def _bit_shift(context: Context, x: Tensor, by: Tensor, direction: str) -> Tensor:
    """To the left by a known number is a multiplication, modulo 2^w."""

    def shifted(a: Scalar, count: Scalar) -> Scalar:
        if direction == "LEFT" and isinstance(count, Const):
            return a * Const(2**count.value)
        return Op({"LEFT": "shl", "RIGHT": "shr"}[direction], a, count)

    return elementwise.elementwise(context, shifted, x, by)
