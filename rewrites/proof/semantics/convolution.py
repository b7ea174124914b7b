"""Convolutions and pooling over any number of spatial axes.

Images are [batch, channel, *spatial]. Kernel sizes, strides, dilations and pads are
functions of the axis position and are read at k >= 2 only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..kernel.scalars import All, Const, Ite, NegInf, Red, Scalar
from ..kernel.smt import (
    IndexMap,
    Integer,
    Truth,
    both,
    choose,
    either,
    implies,
    quotient,
    remainder,
    within,
)
from ..kernel.tensors import Context, Tensor
from .index_maps import is_one, require_each
from .reduction import reduce, reduce_mean
from .table import means


def _one(k: Integer) -> Integer:
    return 1


def _none(k: Integer) -> Integer:
    return 0


def _spatial(k: Integer) -> Truth:
    return k >= 2


@dataclass(frozen=True)
class Window:
    """How a kernel moves: per spatial axis, the stride, the dilation and both pads."""

    stride: IndexMap = _one
    dilation: IndexMap = _one
    low: IndexMap = _none
    high: IndexMap = _none

    def require(
        self, context: Context, rank: Integer, fits: Callable[[Integer], Truth]
    ) -> None:
        """Assume that windows go forward, pads aren't negative, and what else `fits`
        says of each spatial axis.
        """

        def legal(k: Integer) -> Truth:
            steps = both(self.stride(k) >= 1, self.dilation(k) >= 1)
            pads = both(self.low(k) >= 0, self.high(k) >= 0)
            return implies(_spatial(k), both(steps, pads, fits(k)))

        context.require(rank >= 3, "images")
        require_each(context, rank, self.stride, legal, "strides, dilations and pads")

    def free(self, size: Integer, kernel: Integer, k: Integer) -> Integer:
        """How far a kernel of this size can go along axis k."""
        padded = size + self.low(k) + self.high(k)
        return padded - self.dilation(k) * (kernel - 1) - 1

    def count(self, size: Integer, kernel: Integer, k: Integer) -> Integer:
        """How many places a kernel of this size has along axis k."""
        return quotient(self.free(size, kernel, k), self.stride(k)) + 1

    def place(self, i: IndexMap, s: IndexMap, k: Integer) -> Integer:
        """Where element s of the kernel at place i lies along axis k of the image."""
        return i(k) * self.stride(k) + s(k) * self.dilation(k) - self.low(k)


def _image(batch: Integer, channel: Integer, spatial: IndexMap) -> IndexMap:
    """An index, or the sizes, of an image."""
    return lambda k: choose(k == 0, batch, choose(k == 1, channel, spatial(k)))


def _inside(rank: Integer, place: IndexMap, dim: IndexMap) -> All:
    return All(rank, lambda k: implies(_spatial(k), within(place(k), dim(k))))


def _over(
    kind: str, rank: Integer, sizes: IndexMap, body: Callable[[IndexMap], Scalar]
) -> Scalar:
    """A reduction over the spatial axes."""
    return Red(kind, sizes, body, vec=True, rank=rank, sel=_spatial)


def conv(
    context: Context,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    window: Window = Window(),
    group: Integer = 1,
) -> Tensor:
    """x [n, c, *s], w [m, c/group, *kernel], bias [m]."""
    rank, depth = x.rank, w.dim(1)
    context.require(rank == w.rank, "the ranks of Conv")
    context.require(x.dim(1) == group * depth, "the channels of Conv")
    outputs = _per_group(context, w.dim(0), group, "the output channels of Conv")
    window.require(context, rank, lambda k: window.free(x.dim(k), w.dim(k), k) >= 0)
    _require_bias(context, bias, w.dim(0))

    def at(i: IndexMap) -> Scalar:
        first = 0 if is_one(group) else quotient(i(1), outputs) * depth

        def product(c: Integer, s: IndexMap) -> Scalar:
            def place(k: Integer) -> Integer:
                return window.place(i, s, k)

            read = x.at(_image(i(0), first + c, place))
            weighted = read * w.at(_image(i(1), c, s))
            return Ite(_inside(rank, place, x.dim), weighted, Const(0))

        total = Red(
            "sum", depth, lambda c: _over("sum", rank, w.dim, lambda s: product(c, s))
        )
        return _biased(total, bias, i)

    def size(k: Integer) -> Integer:
        return window.count(x.dim(k), w.dim(k), k)

    return Tensor(rank, _image(x.dim(0), w.dim(0), size), at)


def _per_group(
    context: Context, channels: Integer, group: Integer, what: str
) -> Integer:
    context.require(group >= 1, "groups")
    each = quotient(channels, group)
    context.require(channels == group * each, what)
    return each


def _require_bias(context: Context, bias: Tensor | None, channels: Integer) -> None:
    if bias is not None:
        context.require(both(bias.rank == 1, bias.dim(0) == channels), "the bias")


def _biased(total: Scalar, bias: Tensor | None, i: IndexMap) -> Scalar:
    return total if bias is None else total + bias.at(lambda k: i(1))


def conv_transpose(
    context: Context,
    x: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    window: Window = Window(),
    output_padding: IndexMap = _none,
    group: Integer = 1,
) -> Tensor:
    """x [n, c, *s], w [c, m/group, *kernel], bias [m]: Conv's gradient."""
    rank, outputs = x.rank, w.dim(1)
    channels = outputs * group
    context.require(both(rank == w.rank, x.dim(1) == w.dim(0)), "ConvTranspose")
    depth = _per_group(context, w.dim(0), group, "the channels of ConvTranspose")
    _require_bias(context, bias, channels)

    def at(i: IndexMap) -> Scalar:
        single = is_one(group)
        first = 0 if single else quotient(i(1), outputs) * depth
        output = i(1) if single else remainder(i(1), outputs)

        def product(c: Integer, s: IndexMap) -> Scalar:
            def spread(k: Integer) -> Integer:
                return i(k) + window.low(k) - s(k) * window.dilation(k)

            def place(k: Integer) -> Integer:
                return quotient(spread(k), window.stride(k))

            def met(k: Integer) -> Truth:
                whole = remainder(spread(k), window.stride(k)) == 0
                return implies(_spatial(k), both(whole, within(place(k), x.dim(k))))

            read = x.at(_image(i(0), first + c, place))
            weighted = read * w.at(_image(first + c, output, s))
            return Ite(All(rank, met), weighted, Const(0))

        total = Red(
            "sum", depth, lambda c: _over("sum", rank, w.dim, lambda s: product(c, s))
        )
        return _biased(total, bias, i)

    def size(k: Integer) -> Integer:
        spread = window.stride(k) * (x.dim(k) - 1) + output_padding(k)
        kernel = window.dilation(k) * (w.dim(k) - 1) + 1
        return spread + kernel - window.low(k) - window.high(k)

    def fits(k: Integer) -> Truth:
        extra = output_padding(k)
        less = either(extra < window.stride(k), extra < window.dilation(k))
        return both(size(k) >= 0, extra >= 0, less)

    window.require(context, rank, fits)
    return Tensor(rank, _image(x.dim(0), channels, size), at)


def _pool(
    context: Context,
    x: Tensor,
    kernel: IndexMap,
    window: Window,
    at: Callable[[IndexMap], Scalar],
) -> Tensor:

    def size(k: Integer) -> Integer:
        return window.count(x.dim(k), kernel(k), k)

    def fits(k: Integer) -> Truth:
        pads = both(window.low(k) < kernel(k), window.high(k) < kernel(k))
        return both(kernel(k) >= 1, pads, size(k) >= 0)

    window.require(context, x.rank, fits)
    return Tensor(x.rank, _image(x.dim(0), x.dim(1), size), at)


def _pooled(
    x: Tensor, window: Window, i: IndexMap, s: IndexMap, outside: Scalar
) -> Scalar:
    def place(k: Integer) -> Integer:
        return window.place(i, s, k)

    read = x.at(_image(i(0), i(1), place))
    return Ite(_inside(x.rank, place, x.dim), read, outside)


def max_pool(
    context: Context, x: Tensor, kernel: IndexMap, window: Window = Window()
) -> Tensor:
    """The largest element under the kernel; pads don't count."""

    def at(i: IndexMap) -> Scalar:
        return _over(
            "max", x.rank, kernel, lambda s: _pooled(x, window, i, s, NegInf())
        )

    return _pool(context, x, kernel, window, at)


def average_pool(
    context: Context,
    x: Tensor,
    kernel: IndexMap,
    window: Window = Window(),
    count_include_pad: bool = False,
) -> Tensor:
    """The mean under the kernel, of the elements inside or of all of the kernel."""

    def at(i: IndexMap) -> Scalar:
        def count(s: IndexMap) -> Scalar:
            place = _inside(x.rank, lambda k: window.place(i, s, k), x.dim)
            return Ite(place, Const(1), Const(0))

        total = _over(
            "sum", x.rank, kernel, lambda s: _pooled(x, window, i, s, Const(0))
        )
        if count_include_pad:
            return total / _over("sum", x.rank, kernel, lambda s: Const(1))
        return total / _over("sum", x.rank, kernel, count)

    return _pool(context, x, kernel, window, at)


def global_pool(context: Context, x: Tensor, kind: str) -> Tensor:
    """The mean or max over all spatial axes, which become 1."""
    context.require(x.rank >= 3, "images")

    def at(i: IndexMap) -> Scalar:
        def read(s: IndexMap) -> Scalar:
            return x.at(_image(i(0), i(1), s))

        if kind == "max":
            return _over("max", x.rank, x.dim, read)
        count = _over("sum", x.rank, x.dim, lambda s: Const(1))
        return _over("sum", x.rank, x.dim, read) / count

    return Tensor(x.rank, lambda k: choose(_spatial(k), 1, x.dim(k)), at)


def global_average_pool(context: Context, x: Tensor) -> Tensor:
    """The mean of each channel."""
    return global_pool(context, x, "mean")


def global_max_pool(context: Context, x: Tensor) -> Tensor:
    """The largest of each channel."""
    return global_pool(context, x, "max")


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
    return conv(context, x, w, bias, window, group)


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
    return conv_transpose(context, x, w, bias, window, extra, group)


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
    found = max_pool(context, x, kernel, window)
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
    found = average_pool(context, x, kernel, window, bool(pads_count))
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
    return global_average_pool(context, x)


@means("GlobalMaxPool")
def _global_max_pool(context: Context, x: Tensor) -> Tensor:
    if isinstance(x.rank, int) and x.rank == 3:
        return reduce(context, "max", x, 2)
    return global_max_pool(context, x)
