"""Meanings of matrix products, convolutions and batch normalisation."""

from __future__ import annotations

from typing import Any

from ..kernel.scalars import Const, Scalar
from ..kernel.smt import IndexMap, choose
from ..kernel.tensors import Context, Tensor
from . import contraction, convolution, normalization
from .convolution import Window
from .elementwise import scalar
from .movement import expand
from .table import means


@means("MatMul")
def _matmul(context: Context, a: Tensor, b: Tensor) -> Tensor:
    return contraction.matmul(context, a, b)


@means("Gemm")
def _gemm(
    context: Context,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: Any,
    beta: Any,
    transA: Any,
    transB: Any,
) -> Tensor:
    a, b = _flipped(a, transA), _flipped(b, transB)
    product = contraction.gemm(context, a, b, alpha=_plain(alpha))
    if c is None:
        return product
    # It is broadcast into the product, never the other way round.
    spread, factor = expand(context, c, product.rank, product.dim), _plain(beta)

    def at(i: IndexMap) -> Scalar:
        added = spread.at(i)
        return product.at(i) + (added if factor == 1 else added * factor)

    return Tensor(product.rank, product.dim, at)


def _plain(factor: Any) -> Any:
    """1 as a Python number, by which nothing is multiplied."""
    return 1 if isinstance(factor, Const) and factor.value == 1 else factor


def _flipped(t: Tensor, flag: Any) -> Tensor:
    """The matrix, transposed if the flag (0 or 1, perhaps a symbol) says so."""
    if isinstance(flag, int):
        return contraction.swap_last(t) if flag else t
    swapped = contraction.swap_last(t)
    return Tensor(
        t.rank,
        lambda k: choose(flag == 0, t.dim(k), swapped.dim(k)),
        lambda i: t.at(lambda k: choose(flag == 0, i(k), i(1 - k))),
    )


@means("Einsum")
def _einsum(context: Context, *tensors: Tensor, equation: str) -> Tensor:
    """Of one operand, or two; the equation as the vocabulary spells it."""
    inputs, _, output = equation.partition("->")
    if len(tensors) == 1:
        return contraction.einsum(context, tensors[0], scalar(1), inputs, "", output)
    a, b = tensors
    first, second = inputs.split(",")
    return contraction.einsum(context, a, b, first, second, output)


@means("Conv")
def _conv(
    context: Context,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: Any,
    dilation: Any,
    low: Any,
    high: Any,
    group: Any,
) -> Tensor:
    window = Window(stride, dilation, low, high)
    return convolution.conv(context, x, w, bias, window, group)


@means("ConvTranspose")
def _conv_transpose(
    context: Context,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None,
    stride: Any,
    dilation: Any,
    low: Any,
    high: Any,
    group: Any,
    extra: Any,
) -> Tensor:
    window = Window(stride, dilation, low, high)
    return convolution.conv_transpose(context, x, w, bias, window, extra, group)


@means("BatchNormalization")
def _batch_normalization(
    context: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: Any,
) -> Tensor:
    return normalization.batch_normalization(
        context, x, scale, bias, mean, variance, epsilon
    )
