"""Normalisations: differences from a mean over a root mean square, scaled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

from ..kernel.scalars import Const, FromInt, Op, Red, Scalar
from ..kernel.smt import IndexMap, Integer, Truth, both, choose, quotient, within
from ..kernel.tensors import Context, Tensor, shape
from .elementwise import Operand, add, div, elementwise, full, mul, require_into, sub
from .index_maps import Axes, is_one, numel, simple
from .reduction import reduce_mean, reduce_mean_set
from .reshape import reshape
from .table import means

Number: TypeAlias = "Scalar | int | float"


def per_channel(
    context: Context, f: Callable[..., Scalar], x: Tensor, *vectors: Tensor
) -> Tensor:
    """f of the elements of x [n, c, ...] and of vectors [c]."""
    context.require(x.rank >= 2, "images")
    for v in vectors:
        context.require(both(v.rank == 1, v.dim(0) == x.dim(1)), "one per channel")

    def at(i: IndexMap) -> Scalar:
        return f(x.at(i), *(v.at(lambda k: i(1)) for v in vectors))

    return Tensor(x.rank, x.dim, at)


@means("BatchNormalization")
def batch_normalization(
    context: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    epsilon: Number,
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, per channel."""

    def f(a: Scalar, s: Scalar, b: Scalar, m: Scalar, v: Scalar) -> Scalar:
        return (a - m) / Op("sqrt", v + epsilon) * s + b

    return per_channel(context, f, x, scale, bias, mean, variance)


def _mean(context: Context, x: Tensor, axis: Integer) -> Tensor:
    """Over the axes from `axis` on; over one where it is evident that it is one."""
    context.require(within(axis, x.rank), "the axis of a normalisation")
    count = simple(x.rank - axis)
    if is_one(count):
        return reduce_mean(context, x, axis)
    return reduce_mean_set(context, x, Axes(lambda k: k >= axis, count))


@means("LayerNormalization")
def layer_normalization(
    context: Context,
    x: Tensor,
    scale: Operand,
    bias: Operand | None,
    axis: Integer,
    epsilon: Number,
) -> Tensor:
    """Over the axes from `axis` on; scale and bias broadcast into x's shape."""
    difference = sub(context, x, _mean(context, x, axis))
    square = mul(context, difference, difference)
    variance = _mean(context, square, axis)
    deviation = elementwise(context, lambda v: Op("sqrt", v + epsilon), variance)
    for operand in (scale, bias):
        if operand is not None:
            require_into(context, operand, x, "scale and bias")
    scaled = mul(context, div(context, difference, deviation), scale)
    return scaled if bias is None else add(context, scaled, bias)


@means("RMSNormalization")
def rms_normalization(
    context: Context, x: Tensor, scale: Operand, axis: Integer, epsilon: Number
) -> Tensor:
    """x / sqrt(mean of x*x + epsilon) * scale, over the axes from `axis` on."""
    square = _mean(context, mul(context, x, x), axis)
    root = elementwise(context, lambda v: Op("sqrt", v + epsilon), square)
    require_into(context, scale, x, "the scale")
    return mul(context, div(context, x, root), scale)


def group_normalization(
    context: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    groups: Integer,
    epsilon: Number,
) -> Tensor:
    """Over the spatial axes and the channels of a group; scale and bias [c]."""
    context.require(both(x.rank >= 2, groups >= 1), "images and groups")
    each = quotient(x.dim(1), groups)
    context.require(x.dim(1) == groups * each, "channels that are groups")

    def first(channel: Integer) -> Integer:
        return quotient(channel, each) * each

    return _normalised(context, x, scale, bias, epsilon, each, first)


@means("InstanceNormalization")
def instance_normalization(
    context: Context, x: Tensor, scale: Tensor, bias: Tensor, epsilon: Number
) -> Tensor:
    """Over the spatial axes; scale and bias [c]."""
    context.require(x.rank >= 3, "images")
    return _normalised(context, x, scale, bias, epsilon, 1, lambda channel: channel)


def _normalised(
    context: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    epsilon: Number,
    channels: Integer,
    first: IndexMap,
) -> Tensor:
    """Over the spatial axes and `channels` channels, from first(channel) on."""

    def sizes(k: Integer) -> Integer:
        return choose(k == 1, channels, x.dim(k))

    alone = is_one(channels)
    low = 2 if alone else 1
    count = numel(context, x.rank, lambda k: choose(k >= low, sizes(k), 1))

    def f(i: IndexMap) -> Scalar:
        def mean(body: Callable[[Scalar], Scalar]) -> Scalar:
            def read(s: IndexMap) -> Scalar:
                def place(k: Integer) -> Integer:
                    channel = i(1) if alone else first(i(1)) + s(1)
                    return choose(k == 0, i(0), choose(k == 1, channel, s(k)))

                return body(x.at(place))

            total = Red("sum", sizes, read, vec=True, rank=x.rank, sel=selected)
            return total / FromInt(count)

        middle = mean(lambda a: a)
        variance = mean(lambda a: (a - middle) * (a - middle))
        return (x.at(i) - middle) / Op("sqrt", variance + epsilon)

    def selected(k: Integer) -> Truth:
        return k >= low

    core = Tensor(x.rank, x.dim, f)
    return per_channel(context, lambda a, s, b: a * s + b, core, scale, bias)


@means("GroupNormalization")
def _group(
    context: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    groups: Integer,
    epsilon: Any,
) -> Tensor:
    if isinstance(x.rank, int):
        return _group_by_reshape(context, x, scale, bias, groups, epsilon)
    return group_normalization(context, x, scale, bias, groups, epsilon)


def _group_by_reshape(
    context: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    groups: Integer,
    epsilon: Any,
) -> Tensor:
    """As ONNX defines it: groups become the channels of InstanceNormalization."""
    image = math.prod(x.dim(k) for k in range(1, x.rank))
    rows = reshape(context, x, 3, shape(x.dim(0), groups, quotient(image, groups)))
    ones, zeros = (full(1, shape(groups), Const(n)) for n in (1, 0))
    normal = instance_normalization(context, rows, ones, zeros, epsilon)
    back = reshape(context, normal, x.rank, x.dim)
    return per_channel(context, lambda a, s, b: a * s + b, back, scale, bias)
