"""Meanings of pooling."""

from __future__ import annotations

from typing import Any

from ..kernel.smt import IndexMap, Integer, choose, quotient
from ..kernel.tensors import Context, Tensor
from . import convolution
from .convolution import Window
from .reduction import reduce, reduce_mean
from .table import means


@means("MaxPool")
def _max_pool(
    context: Context,
    x: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    low: Any,
    high: Any,
    ceil: Any,
) -> Tensor:
    window = Window(stride, dilation, low, high)
    found = convolution.max_pool(context, x, kernel, window)
    return _rounded_up(found, x, kernel, window, ceil)


@means("AveragePool")
def _average_pool(
    context: Context,
    x: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    low: Any,
    high: Any,
    ceil: Any,
    pads_count: int,
) -> Tensor:
    """`pads_count` is literally 0 or 1: the two are different functions."""
    window = Window(stride, dilation, low, high)
    if pads_count and not (isinstance(ceil, int) and ceil == 0):
        raise ValueError("what counts as padding past the end is not specified")
    found = convolution.average_pool(context, x, kernel, window, bool(pads_count))
    return _rounded_up(found, x, kernel, window, ceil)


def _rounded_up(
    pooled: Tensor, x: Tensor, kernel: IndexMap, window: Window, ceil: Any
) -> Tensor:
    """With ceil 1 a last place may stand out past the padding, if it starts before."""
    if isinstance(ceil, int) and ceil == 0:
        return pooled

    def size(k: Integer) -> Integer:
        start = x.dim(k) + window.low(k)
        reach = window.dilation(k) * (kernel(k) - 1) + 1
        stride = window.stride(k)
        count = quotient(start + window.high(k) - reach + stride - 1, stride) + 1
        late = (count - 1) * stride >= start
        up = choose(late, count - 1, count)
        return choose(k < 2, x.dim(k), choose(ceil == 0, pooled.dim(k), up))

    return Tensor(pooled.rank, size, pooled.at)


@means("GlobalAveragePool")
def _global_average_pool(context: Context, x: Tensor) -> Tensor:
    if isinstance(x.rank, int) and x.rank == 3:
        return reduce_mean(context, x, 2)  # the form that ReduceMean has for one axis
    return convolution.global_average_pool(context, x)


@means("GlobalMaxPool")
def _global_max_pool(context: Context, x: Tensor) -> Tensor:
    if isinstance(x.rank, int) and x.rank == 3:
        return reduce(context, "max", x, 2)
    return convolution.global_max_pool(context, x)
