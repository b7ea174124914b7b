"""Activation functions, and the normalised exponentials along one axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import cuts, flop_counts, sizes_elementwise, tiles
from ..helpers import elementwise as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView
from ..operands import (
    SIGNED,
    converted,
    is_number,
    number,
    shown_axis,
    through_signed,
    whole,
)
from ..registry import MANY_TO_MANY, ONE_TO_ONE, operator

# ---- without parameters

# ONNX Runtime's is off by more than it is, far below 0.
operator("Sigmoid", since=6, mapping=ONE_TO_ONE, flops=1, fresh=True, coarse=(0,))(
    lambda t, n, x: t.sigmoid(x)
)
for _name, _since, _flops, _spelling in (
    ("Tanh", 6, 1, lambda t, n, x: t.tanh(x)),
    ("HardSwish", 14, 4, lambda t, n, x: t.F.hardswish(x)),
    ("Mish", 18, 3, lambda t, n, x: t.F.mish(x)),
    ("Softsign", 1, 1, lambda t, n, x: t.F.softsign(x)),
):
    operator(_name, since=_since, mapping=ONE_TO_ONE, flops=_flops, fresh=True)(
        _spelling
    )


@operator("Relu", since=6, mapping=ONE_TO_ONE, fresh=True)
def _relu(t: Any, n: NodeView, x: Any) -> Any:
    return t.F.relu(x)


@operator("Softplus", since=1, mapping=ONE_TO_ONE)
def _softplus(t: Any, n: NodeView, x: Any) -> Any:
    """From a threshold on PyTorch returns x; its default of 20 is not for float64."""
    if n.dtype(0) == ir.DataType.DOUBLE:
        return t.F.softplus(x, threshold=40)
    return t.F.softplus(x)


@operator("Gelu", since=20, mapping=ONE_TO_ONE)
def _gelu(t: Any, n: NodeView, x: Any) -> Any:
    approximate = n.attr("approximate", "none")
    return t.F.gelu(x) if approximate == "none" else t.F.gelu(x, approximate="tanh")


# ---- with parameters


def _elu(t: Any, n: NodeView, x: Any) -> Any:
    alpha = number(n, "alpha", 1.0)
    return t.F.elu(x) if alpha == 1 else t.F.elu(x, alpha=whole(alpha))


def _leaky_relu(t: Any, n: NodeView, x: Any) -> Any:
    alpha = number(n, "alpha", 0.01)
    return t.F.leaky_relu(x) if alpha == 0.01 else t.F.leaky_relu(x, whole(alpha))


def _selu(t: Any, n: NodeView, x: Any) -> Any:
    alpha = number(n, "alpha", 1.67326319217681884765625)
    gamma = number(n, "gamma", 1.05070102214813232421875)
    if (alpha, gamma) == (1.6732632, 1.050701):
        return t.F.selu(x)
    return whole(gamma) * t.F.elu(x, alpha=whole(alpha))


def _hard_sigmoid(t: Any, n: NodeView, x: Any) -> Any:
    alpha, beta = number(n, "alpha", 0.2), number(n, "beta", 0.5)
    if (alpha, beta) == (float(str(np.float32(1 / 6))), 0.5):
        return t.F.hardsigmoid(x)
    scaled = x if alpha == 1 else whole(alpha) * x
    return (scaled + whole(beta)).clamp(0, 1)


def _swish(t: Any, n: NodeView, x: Any) -> Any:
    alpha = number(n, "alpha", 1.0)
    return t.F.silu(x) if alpha == 1 else x * t.sigmoid(whole(alpha) * x)


def _thresholded_relu(t: Any, n: NodeView, x: Any) -> Any:
    return t.where(x > whole(number(n, "alpha", 1.0)), x, 0)


_FLOPS: dict[str, Any] = {"HardSigmoid": 3, "Swish": flop_counts.swish}
for _name, _since, _spelling in (
    ("Elu", 6, _elu),
    ("LeakyRelu", 6, _leaky_relu),
    ("Selu", 6, _selu),
    ("HardSigmoid", 6, _hard_sigmoid),
    ("Swish", 24, _swish),
    ("ThresholdedRelu", 10, _thresholded_relu),
):
    operator(_name, since=_since, mapping=ONE_TO_ONE, flops=_FLOPS.get(_name))(
        _spelling
    )


@operator("Celu", since=12, mapping=ONE_TO_ONE)
def _celu(t: Any, n: NodeView, x: Any) -> Any:
    alpha = number(n, "alpha", 1.0)
    return t.F.celu(x) if alpha == 1 else t.F.celu(x, alpha=whole(alpha))


@operator("Shrink", since=9, mapping=ONE_TO_ONE)
def _shrink(t: Any, n: NodeView, x: Any) -> Any:
    lambd, bias = number(n, "lambd", 0.5), number(n, "bias", 0.0)
    if not n.is_float(0):
        return converted(
            t, t.helper(helpers.shrink)(x.float(), lambd, bias), n.dtype(0)
        )
    if bias == 0 and lambd >= 0:
        return t.F.hardshrink(x) if lambd == 0.5 else t.F.hardshrink(x, whole(lambd))
    if bias == lambd and lambd >= 0:
        return t.F.softshrink(x) if lambd == 0.5 else t.F.softshrink(x, whole(lambd))
    return t.helper(helpers.shrink)(x, lambd, bias)


def _equals(bound: Any, value: int) -> bool:
    return isinstance(bound, (int, float, np.generic)) and bool(bound == value)


@through_signed(ordered=True)
def _clamp(t: Any, n: NodeView, x: Any, *bounds: Any) -> Any:
    """`bounds` are those that the node has, in their order."""
    has_low = n.has(1)
    if len(bounds) == 1:
        return x.clamp(**{"min" if has_low else "max": whole(bounds[0])})
    low, high = bounds
    if is_number(low) != is_number(high):  # clamp wants two numbers or two tensors
        return x.clamp(min=whole(low)).clamp(max=whole(high))
    return x.clamp(whole(low), whole(high))


@operator("Clip", since=11, mapping=ONE_TO_ONE, carries=(0,), scalars=(1, 2))
def _clip(t: Any, n: NodeView, x: Any, low: Any = None, high: Any = None) -> Any:
    if low is None and high is None:
        return x
    if n.is_float(0) and (_equals(low, 0), _equals(high, 6)) == (True, True):
        return t.F.relu6(x)
    return _clamp(t, n, x, *(b for b in (low, high) if b is not None))


operator("SwiGLU", since=28, mapping=ONE_TO_ONE, flops=flop_counts.swiglu)(
    lambda t, n, gate, x: _swish(t, n, gate) * x
)


def _prelu_module(n: NodeView) -> ModuleForm | None:
    """nn.PReLU has one slope for all, or one per channel: axis 1."""
    slope = n.const(1)
    if slope is None or not n.is_float(0):
        return None
    rank = n.rank(0)
    shape = (1,) * (rank - slope.ndim) + slope.shape
    if slope.ndim > rank or any(size != 1 for i, size in enumerate(shape) if i != 1):
        return None
    return ModuleForm(
        layer="nn.PReLU",
        positional=() if slope.size == 1 else (slope.size,),
        keywords={},
        weights={"weight": Weight(n.value(1), lambda array: array.reshape(-1), "flat")},
        inputs=(n.value(0),),
        outputs=(n.node.outputs[0],),
    )


@operator("PRelu", since=7, mapping=ONE_TO_ONE, module=_prelu_module)
def _prelu(t: Any, n: NodeView, x: Any, slope: Any) -> Any:
    if n.dtype(0) in SIGNED:
        return x  # nothing is below zero
    return t.where(x < 0, slope * x, x)


# ---- along one axis


def _axis(n: NodeView) -> int:
    return shown_axis(n, int(n.attr("axis", -1)))


def _hardmax(t: Any, n: NodeView, x: Any) -> Any:
    axis = _axis(n)
    return t.zeros_like(x).scatter(axis, x.argmax(dim=axis, keepdim=True), 1)


for _name, _flops, _spelling, _result in (
    ("Softmax", 5, lambda t, n, x: x.softmax(dim=_axis(n)), "probs"),
    ("LogSoftmax", 5, lambda t, n, x: x.log_softmax(dim=_axis(n)), ""),
    ("Hardmax", 1, _hardmax, ""),
):
    operator(
        _name,
        since=13,
        mapping=MANY_TO_MANY,
        shape=sizes_elementwise.like_input,
        flops=_flops,
        tile=tiles.normalise,
        cut=cuts.but_axis(-1),
        fresh=True,
        result=_result,
    )(_spelling)
