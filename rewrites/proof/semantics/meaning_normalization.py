"""Meanings of normalisations."""

from __future__ import annotations

import math
from typing import Any

from ..kernel.scalars import Const
from ..kernel.smt import Integer, quotient
from ..kernel.tensors import Context, Tensor, shape
from . import normalization
from .elementwise import full
from .reshape import reshape
from .table import means


@means("LayerNormalization")
def _layer(
    context: Context,
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    axis: Integer,
    epsilon: Any,
) -> Tensor:
    return normalization.layer_normalization(context, x, scale, bias, axis, epsilon)


@means("RMSNormalization")
def _rms(
    context: Context, x: Tensor, scale: Tensor, axis: Integer, epsilon: Any
) -> Tensor:
    return normalization.rms_normalization(context, x, scale, axis, epsilon)


@means("InstanceNormalization")
def _instance(
    context: Context, x: Tensor, scale: Tensor, bias: Tensor, epsilon: Any
) -> Tensor:
    return normalization.instance_normalization(context, x, scale, bias, epsilon)


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
    return normalization.group_normalization(context, x, scale, bias, groups, epsilon)


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
    normal = normalization.instance_normalization(context, rows, ones, zeros, epsilon)
    back = reshape(context, normal, x.rank, x.dim)
    return normalization.per_channel(
        context, lambda a, s, b: a * s + b, back, scale, bias
    )
