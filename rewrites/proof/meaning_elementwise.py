"""Meanings of elementwise operators with parameters."""

from __future__ import annotations

from typing import Any

from . import denote_elementwise as denote
from .meanings import means
from .scalars import Const, Op, Scalar
from .tensors import Context, Tensor


@means("Identity")
def _identity(context: Context, x: Tensor) -> Tensor:
    return x


@means("Gelu")
def _gelu(context: Context, x: Tensor, approximate: str) -> Tensor:
    return denote.gelu(context, x, approximate)


@means("LeakyRelu")
def _leaky_relu(context: Context, x: Tensor, alpha: Any) -> Tensor:
    return denote.leaky_relu(context, x, alpha)


@means("HardSigmoid")
def _hard_sigmoid(context: Context, x: Tensor, alpha: Any, beta: Any) -> Tensor:
    return denote.hard_sigmoid(context, x, alpha, beta)


@means("Elu")
def _elu(context: Context, x: Tensor, alpha: Any) -> Tensor:
    return denote.elu(context, x, alpha)


@means("Swish")
def _swish(context: Context, x: Tensor, alpha: Any) -> Tensor:
    return denote.swish(context, x, alpha)


@means("HardSwish")
def _hard_swish(context: Context, x: Tensor) -> Tensor:
    return denote.hard_swish(context, x)


@means("Mish")
def _mish(context: Context, x: Tensor) -> Tensor:
    return denote.mish(context, x)


@means("Softplus")
def _softplus(context: Context, x: Tensor) -> Tensor:
    return denote.softplus(context, x)


@means("Softsign")
def _softsign(context: Context, x: Tensor) -> Tensor:
    return denote.elementwise(context, lambda a: a / (1 + Op("abs", a)), x)


@means("PRelu")
def _prelu(context: Context, x: Tensor, slope: Tensor) -> Tensor:
    return denote.prelu(context, x, slope)


@means("Clip")
def _clip(
    context: Context, x: Tensor, low: Tensor | None, high: Tensor | None
) -> Tensor:
    return denote.clip(context, x, low, high)


@means("BitShift")
def _bit_shift(context: Context, x: Tensor, by: Tensor, direction: str) -> Tensor:
    """To the left by a known number is a multiplication, modulo 2^w."""

    def shifted(a: Scalar, count: Scalar) -> Scalar:
        if direction == "LEFT" and isinstance(count, Const):
            return a * Const(2**count.value)
        return Op({"LEFT": "shl", "RIGHT": "shr"}[direction], a, count)

    return denote.elementwise(context, shifted, x, by)
