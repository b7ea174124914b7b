"""Normalisations: over channels, groups, trailing axes, norms, windows of channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from ...graph.dims import same
from ...graph.parameters import is_derived, is_filler
from ..facts import cuts, fitting_sizes, sizes_elementwise, tiles
from ..helpers import norms as helpers
from ..module_form import ModuleForm, Weight
from ..node_view import NodeView, constant
from ..operands import number, wanted
from ..registry import MANY_TO_MANY, ONE_TO_ONE, operator

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _constants(n: NodeView, *positions: int) -> bool:
    return all(n.value(i).const_value is not None for i in positions)


def _eps(n: NodeView) -> dict[str, Any]:
    """The keyword eps, unless it is the 1e-5 of both ONNX and PyTorch."""
    eps = number(n, "epsilon", 1e-5)
    return {} if eps == 1e-5 else {"eps": eps}


def _layer(
    n: NodeView,
    layer: str,
    positional: tuple[Any, ...],
    weights: dict[str, Weight],
    **keywords: tuple[Any, Any],
) -> ModuleForm:
    return ModuleForm(
        layer=layer,
        positional=positional,
        keywords={"eps": (number(n, "epsilon", 1e-5), 1e-5), **keywords},
        weights=weights,
        inputs=(n.value(0),),
        outputs=(n.node.outputs[0],),
    )


def _affine(n: NodeView, *names: str) -> dict[str, Weight]:
    """The inputs from the second on, under the names of a layer's parameters."""
    return {name: Weight(n.value(i)) for i, name in enumerate(names, 1)}


# ---- BatchNormalization


def _of_the_batch(n: NodeView) -> bool:
    """Whether mean and variance are those of the input itself.

    PyTorch takes no derivative by statistics that it is given.
    """
    mean, var = (_mean_of(n, n.value(i), keepdims=0) for i in (3, 4))
    square = var.producer() if var is not None else None
    if mean is not n.value(0) or square is None or len(square.inputs) != 2:
        return False
    centred, by = square.inputs
    twice = centred is by if square.op_type == "Mul" else _is_two(n, square, by)
    difference = centred.producer() if centred is not None and twice else None
    if difference is None or difference.op_type != "Sub":
        return False
    x, middle = difference.inputs
    return x is mean and middle is not None and _mean_of(n, middle, keepdims=1) is x


def _is_two(n: NodeView, node: ir.Node, exponent: ir.Value | None) -> bool:
    found = constant(exponent, n.shapes) if exponent is not None else None
    return node.op_type == "Pow" and found is not None and bool(np.all(found == 2))


def _mean_of(n: NodeView, value: ir.Value, keepdims: int) -> ir.Value | None:
    """What a value is the mean of, over all axes but the channels'."""
    node, rank = value.producer(), n.rank(0)
    if node is None or node.op_type != "ReduceMean" or node.inputs[0] is None:
        return None
    mean = NodeView(node, n.shapes)
    axes = mean.ints(1) if mean.has(1) else None
    over = sorted(int(axis) % rank for axis in axes or () if isinstance(axis, int))
    kept = mean.attr("keepdims", 1)
    rows = over == [axis for axis in range(rank) if axis != 1] and kept == keepdims
    return node.inputs[0] if rows else None


def _same_types(n: NodeView, *positions: int) -> None:
    """PyTorch takes parameters of the input's type, or float32 for half precision."""
    types = {n.dtype(i) for i in positions}
    wide = n.dtype(0) in _HALF and types == {ir.DataType.FLOAT}
    if types != {n.dtype(0)} and not wide:
        n.refuse(f"{n.node.op_type} on mixed types is not supported")


def _batch_norm_module(n: NodeView) -> ModuleForm | None:
    dims = n.shapes.dims(n.value(0))
    if n.attr("training_mode", 0) or not _constants(n, 1, 2, 3, 4) or dims is None:
        return None
    if not 2 <= len(dims) <= 5 or dims[1] == 0:
        return None
    _same_types(n, 1, 2, 3, 4)
    layer = f"nn.BatchNorm{max(len(dims) - 2, 1)}d"
    # num_batches_tracked counts training steps: PyTorch starts it at 0 if it is absent.
    weights = _affine(n, "weight", "bias", "running_mean", "running_var")
    bare = is_filler(n.value(1), 1) and is_filler(n.value(2), 0)
    if bare:
        del weights["weight"], weights["bias"]
    return _layer(n, layer, (n.size(1, 0),), weights, affine=(not bare, True))


@operator(
    "BatchNormalization",
    since=15,
    cut=cuts.along(0),
    fits=fitting_sizes.channelwise,
    mapping=ONE_TO_ONE,
    shape=sizes_elementwise.like_input,
    module=_batch_norm_module,
)
def _batch_norm(
    t: Any, n: NodeView, x: Any, weight: Any, bias: Any, mean: Any, var: Any
) -> Any:
    dims = n.shapes.dims(n.value(0))
    if dims is not None and (len(dims) < 2 or dims[1] == 0):
        n.refuse("BatchNormalization without channels is not supported")
    if n.attr("training_mode", 0):
        momentum = number(n, "momentum", 0.9)
        helper = t.helper(helpers.batch_norm_in_training)
        made = helper(x, weight, bias, mean, var, momentum, **_eps(n))
        return wanted(n, made, 3)
    _same_types(n, 1, 2, 3, 4)
    if _of_the_batch(n):
        affine = (weight,) if is_filler(n.value(2), 0) else (weight, bias)
        return t.F.batch_norm(x, None, None, *affine, training=True, **_eps(n))
    return t.F.batch_norm(x, mean, var, weight, bias, **_eps(n))


# ---- LayerNormalization and RMSNormalization, over the axes from `axis` on


def _trailing(n: NodeView) -> int:
    """The first normalised axis, counted from the end: -1 is the last axis."""
    axis = int(n.attr("axis", -1))
    return axis if axis < 0 else axis - n.rank(0)


def _normalised_shape(n: NodeView, x: Any, axis: int) -> Any:
    """The sizes from `axis` on: numbers where known, else read off the operand."""
    dims = n.shapes.dims(n.value(0))
    sizes = [] if dims is None else dims[axis:]
    if sizes and all(isinstance(size, int) for size in sizes):
        return tuple(sizes)
    return x.shape[axis:]


def _fits(n: NodeView, i: int, axis: int) -> bool:
    """Whether input i has exactly the normalised sizes, so that nothing broadcasts."""
    dims, own = n.shapes.dims(n.value(0)), n.shapes.dims(n.value(i))
    if own is None or len(own) != -axis or n.dtype(i) != n.dtype(0):
        return False
    if dims is None:  # a size above 1 can only be that of the input
        return all(isinstance(size, int) and size > 1 for size in own)
    pairs = zip(own, dims[axis:], strict=True)
    return all(same(a, b) or (isinstance(a, int) and a > 1) for a, b in pairs)


def _check_stash(n: NodeView) -> None:
    if n.attr("stash_type", 1) not in (1, int(n.dtype(0))):
        n.refuse(f"{n.node.op_type} with stash_type {n.attr('stash_type')}")


def _layer_norm_module(n: NodeView) -> ModuleForm | None:
    axis, affine = _trailing(n), (1, 2) if n.has(2) else (1,)
    if n.used(1) or n.used(2) or not _constants(n, *affine):
        return None
    if not all(_fits(n, i, axis) for i in affine):
        return None
    if is_filler(n.value(1), 1) or is_derived(n.value(1)):
        return None
    _check_stash(n)
    has_bias = n.has(2) and not is_filler(n.value(2), 0)
    weights = _affine(n, "weight", "bias") if has_bias else _affine(n, "weight")
    shape = _parameter_shape(n)
    return _layer(n, "nn.LayerNorm", (shape,), weights, bias=(has_bias, True))


def _parameter_shape(n: NodeView) -> Any:
    shape = tuple(n.size(1, i) for i in range(n.rank(1)))
    return shape[0] if len(shape) == 1 else shape


@operator(
    "LayerNormalization",
    since=17,
    cut=cuts.before_axis,
    fits=fitting_sizes.last_axes,
    mapping=MANY_TO_MANY,
    tile=tiles.normalise,
    fresh=True,
    module=_layer_norm_module,
)
def _layer_norm(t: Any, n: NodeView, x: Any, weight: Any, bias: Any = None) -> Any:
    _check_stash(n)
    axis = _trailing(n)
    if n.used(1) or n.used(2):
        helper = t.helper(helpers.layer_norm_with_statistics)
        affine = (weight,) if bias is None else (weight, bias)
        return wanted(n, helper(x, axis, *affine, **_eps(n)), 3)
    shape = _normalised_shape(n, x, axis)
    if bias is not None and _fits(n, 2, axis) and is_filler(n.value(2), 0):
        bias = None
    if _fits(n, 1, axis) and is_filler(n.value(1), 1):
        y = t.F.layer_norm(x, shape, **_eps(n))
    elif not _fits(n, 1, axis):
        y = t.F.layer_norm(x, shape, **_eps(n)) * weight
    elif bias is not None and _fits(n, 2, axis):
        return t.F.layer_norm(x, shape, weight, bias, **_eps(n))
    else:
        y = t.F.layer_norm(x, shape, weight, **_eps(n))
    return y if bias is None else y + bias


def _rms_norm_module(n: NodeView) -> ModuleForm | None:
    axis = _trailing(n)
    if not _constants(n, 1) or not _fits(n, 1, axis):
        return None
    if is_filler(n.value(1), 1) or is_derived(n.value(1)):
        return None
    _check_stash(n)
    eps = (number(n, "epsilon", 1e-5), None)
    return _layer(
        n, "nn.RMSNorm", (_parameter_shape(n),), _affine(n, "weight"), eps=eps
    )


@operator(
    "RMSNormalization",
    since=23,
    cut=cuts.before_axis,
    fits=fitting_sizes.last_axes,
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
    flops=4,
    tile=tiles.normalise,
    module=_rms_norm_module,
)
def _rms_norm(t: Any, n: NodeView, x: Any, weight: Any) -> Any:
    _check_stash(n)
    axis, eps = _trailing(n), number(n, "epsilon", 1e-5)
    shape = _normalised_shape(n, x, axis)
    if _fits(n, 1, axis) and is_filler(n.value(1), 1):
        return t.F.rms_norm(x, shape, eps=eps)
    if _fits(n, 1, axis):
        return t.F.rms_norm(x, shape, weight, eps=eps)
    y = t.F.rms_norm(x, shape, eps=eps)
    return (y if n.dtype(1) == n.dtype(0) else y.to(t.dtype(n.dtype(1)))) * weight


# ---- GroupNormalization and InstanceNormalization


def _is_single(n: NodeView, groups: int = 0) -> bool:
    """Whether each mean is over one element, where PyTorch raises."""
    dims = n.dims(0)
    rest = dims[2:] if groups == 0 else (*dims[:1], dims[1] // groups, *dims[2:])
    return all(isinstance(d, int) for d in rest) and math.prod(rest) == 1


def _single(n: NodeView, x: Any, weight: Any, bias: Any) -> Any:
    """What the mean of one element leaves of it: 0, or NaN."""
    places = (-1, *[1] * (n.rank(0) - 2))
    return (x - x) * weight.reshape(*places) + bias.reshape(*places)


def _check_groups(n: NodeView) -> int:
    groups, channels, scales = n.attr("num_groups"), n.dims(0)[1], n.dims(1)[0]
    if isinstance(channels, int) and isinstance(scales, int) and channels != scales:
        n.refuse(f"GroupNormalization of {channels} channels by {scales} scales")
    _check_stash(n)
    if n.dtype(0) == ir.DataType.DOUBLE and n.attr("stash_type", 1) == 1:
        n.refuse("GroupNormalization of float64 by way of float32 is not supported")
    return int(groups)


def _is_plain(n: NodeView) -> bool:
    """Whether the scale is 1 and the bias 0."""
    return is_filler(n.value(1), 1) and is_filler(n.value(2), 0)


def _group_norm_module(n: NodeView) -> ModuleForm | None:
    sizes = (_check_groups(n), n.size(1, 0))
    if not _constants(n, 1, 2) or _is_plain(n) or _is_single(n, sizes[0]):
        return None
    return _layer(n, "nn.GroupNorm", sizes, _affine(n, "weight", "bias"))


def _instance_norm_module(n: NodeView) -> ModuleForm | None:
    has_layer = _constants(n, 1, 2) and 3 <= n.rank(0) <= 5 and not _is_plain(n)
    if not has_layer or _is_single(n):
        return None
    layer, weights = f"nn.InstanceNorm{n.rank(0) - 2}d", _affine(n, "weight", "bias")
    return _layer(n, layer, (n.size(1, 0),), weights, affine=(True, False))


_BY_CHANNEL: dict[str, Any] = dict(
    cut=cuts.along(0),
    fits=fitting_sizes.channelwise,
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
    flops=7,
)


@operator("GroupNormalization", since=21, module=_group_norm_module, **_BY_CHANNEL)
def _group_norm(t: Any, n: NodeView, x: Any, weight: Any, bias: Any) -> Any:
    groups = _check_groups(n)
    if _is_single(n, groups):
        return _single(n, x, weight, bias)
    if _is_plain(n):
        return t.F.group_norm(x, groups, **_eps(n))
    return t.F.group_norm(x, groups, weight, bias, **_eps(n))


@operator("InstanceNormalization", since=6, module=_instance_norm_module, **_BY_CHANNEL)
def _instance_norm(t: Any, n: NodeView, x: Any, weight: Any, bias: Any) -> Any:
    if n.rank(0) < 3:
        n.refuse("InstanceNormalization without spatial axes is not supported")
    if _is_single(n):
        return _single(n, x, weight, bias)
    if _is_plain(n):
        return t.F.instance_norm(x, **_eps(n))
    return t.F.instance_norm(x, weight=weight, bias=bias, **_eps(n))


# ---- LpNormalization


@operator(
    "LpNormalization",
    since=1,
    cut=cuts.but_axis(-1),
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
    flops=3,
    tile=tiles.normalise,
)
def _lp_normalization(t: Any, n: NodeView, x: Any) -> Any:
    # F.normalize bounds the norm from below, here only a norm of 0 is special.
    p = n.attr("p", 2)
    options = {"dim": n.attr("axis", -1)} | ({} if p == 2 else {"p": p})
    return t.helper(helpers.lp_normalize)(x, **options)


# ---- LRN


@operator(
    "LRN",
    since=1,
    mapping=MANY_TO_MANY,
    cut=cuts.along(0),
    shape=sizes_elementwise.like_input,
)
def _lrn(t: Any, n: NodeView, x: Any) -> Any:
    size = n.attr("size")
    if size < 1:
        n.refuse(f"LRN over {size} channels is impossible")
    if n.rank(0) < 3:
        n.refuse("LRN without spatial axes is not supported")
    options = {
        "alpha": (number(n, "alpha", 1e-4), 1e-4),
        "beta": (number(n, "beta", 0.75), 0.75),
        "k": (number(n, "bias", 1.0), 1.0),
    }
    given = {name: v for name, (v, default) in options.items() if v != default}
    if size % 2:
        function = t.F.local_response_norm
    else:  # of an even number of channels, PyTorch takes one more before than behind
        function = t.helper(helpers.local_response_norm)
    if n.dtype(0) in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        return function(x.float(), size, **given).to(t.dtype(n.dtype(0)))
    return function(x, size, **given)


# ---- MeanVarianceNormalization


@operator(
    "MeanVarianceNormalization",
    since=9,
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
    flops=5,
)
def _mean_variance(t: Any, n: NodeView, x: Any) -> Any:
    """Axes that x lacks are left out, and nothing is added to the deviation, as in ONNX
    Runtime."""
    rank, given = n.rank(0), n.attr("axes") or [0, 2, 3]
    axes = [*{axis % rank: axis for axis in given if axis < rank}.values()]
    over = {"dim": axes[0] if len(axes) == 1 else tuple(axes), "keepdim": True}
    return (x - x.mean(**over)) / x.std(**over, correction=0)
