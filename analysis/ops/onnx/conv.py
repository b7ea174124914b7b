"""Convolutions: Conv, ConvTranspose, DeformConv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from ...graph.dims import Dim
from ..facts import cuts, fitting_sizes, sizes_windows
from ..helpers import conv as helpers
from ..helpers import quant as quant_helpers
from ..module_form import ModuleForm, Weight, unusual
from ..node_view import NodeView
from ..operands import present
from ..quant_layers import bias, integers
from ..registry import MANY_TO_MANY, operator
from .windows import Windows, padded, short, windows


def kernel_sizes(n: NodeView, weight: int = 1) -> list[int]:
    """The window sizes, from the attribute or the shape of input `weight`.

    Refuses a node whose weight doesn't fit its attributes, or its input.
    """
    sizes = n.attr("kernel_shape") or [
        n.size(weight, axis, "kernel size") for axis in range(2, n.rank(weight))
    ]
    _check_weight(n, sizes, n.dims(weight))
    if not 1 <= len(sizes) <= 3:
        n.refuse(f"{n.node.op_type} over {len(sizes)} spatial axes is not supported")
    return list(sizes)


def _check_weight(n: NodeView, sizes: Sequence[int], dims: Sequence[Dim]) -> None:
    kind, groups = n.node.op_type, n.attr("group", 1)
    pairs = zip(dims[2:], sizes, strict=False)
    if any(isinstance(dim, int) and dim != size for dim, size in pairs):
        n.refuse(f"{kind} with kernel_shape {list(sizes)}, but another weight")
    transposed = kind.endswith("Transpose")
    if groups < 1 or (isinstance(dims[0], int) and dims[0] % groups):
        n.refuse(f"{kind} of {dims[0]} channels in {groups} groups is impossible")
    channels = n.dims(0)[1]
    wanted = dims[0] if transposed else dims[1] * groups
    if 0 in (channels, wanted, *dims[:2]):  # ONNX Runtime may not even end
        n.refuse(f"{kind} of no channels is not supported")
    if isinstance(wanted, int) and isinstance(channels, int) and channels != wanted:
        n.refuse(f"{kind} of {channels} channels, with a weight for {wanted}")


def _is_layer(n: NodeView) -> bool:
    """Whether weight and bias are constants, so that a layer can own them."""
    if n.value(1).const_value is None:
        return False
    return not n.has(2) or n.value(2).const_value is not None


def _weights(n: NodeView) -> dict[str, Weight]:
    weights = {"weight": Weight(n.value(1))}
    return weights | {"bias": Weight(n.value(2))} if n.has(2) else weights


def _weight_shape(n: NodeView) -> tuple[int, ...]:
    tensor = n.value(1).const_value
    assert tensor is not None
    return tuple(int(size) for size in tensor.shape.numpy())


# ---- Conv


def _options(n: NodeView, w: Windows) -> dict[str, tuple[Any, Any]]:
    """The keywords of a convolution, each with its default."""
    return {
        "stride": (short(w.stride), 1),
        "padding": (short(w.begin) if w.symmetric else 0, 0),
        "dilation": (short(w.dilation), 1),
        "groups": (n.attr("group", 1), 1),
    }


def _conv_module(n: NodeView) -> ModuleForm | None:
    if not _is_layer(n):
        return _quantized_conv(n)
    return layer_form(n, f"nn.Conv{n.rank(1) - 2}d", _weight_shape(n), _weights(n))


def _quantized_conv(n: NodeView) -> ModuleForm | None:
    """nn.Conv2d of a weight in 8 bits."""
    stored = integers(n, 1, axis=0)
    added = bias(n, 2) if n.has(2) else None
    if stored is None or n.rank(1) != 4 or (n.has(2) and added is None):
        return None
    plain = layer_form(n, "", stored.shape, {"weight": Weight(stored.weight)})
    return stored.form(plain, added, quant_helpers.QuantizedConv2d)


def layer_form(
    n: NodeView,
    layer: str,
    shape: tuple[int, ...],
    weights: dict[str, Weight],
    fill: int = 0,
) -> ModuleForm:
    """A convolution as a layer of its weight's `shape`; `fill` is what x has for 0."""
    w = windows(n, kernel_sizes(n, 3 if n.node.op_type == "QLinearConv" else 1))
    channels = shape[1] * n.attr("group", 1)
    return ModuleForm(
        layer=layer,
        positional=(channels, shape[0], short(w.kernel)),
        keywords={**_options(n, w), "bias": ("bias" in weights, True)},
        weights=weights,
        inputs=(n.value(0),),
        outputs=(n.node.outputs[0],),
        call=None if w.symmetric else lambda t, layer, x: layer(padded(t, w, x, fill)),
    )


@operator(
    "Conv",
    since=11,
    cut=cuts.along(0),
    fits=fitting_sizes.window(1),
    mapping=MANY_TO_MANY,
    fresh=True,
    module=_conv_module,
)
def _conv(t: Any, n: NodeView, x: Any, weight: Any, bias: Any = None) -> Any:
    return convolved(t, n, x, weight, bias)


def convolved(
    t: Any, n: NodeView, x: Any, weight: Any, bias: Any = None, at: int = 1
) -> Any:
    """The convolution of operands; input `at` is the weight."""
    w = windows(n, kernel_sizes(n, at))
    given = unusual(_options(n, w))
    operands = [x if w.symmetric else padded(t, w, x), weight]
    operands += [] if bias is None else [bias]
    return getattr(t.F, f"conv{w.axes}d")(*operands, **given)


# ---- ConvTranspose


def _transposed(n: NodeView) -> tuple[Windows, list[int], list[slice]]:
    """Windows, output padding, and what to keep of each axis of the layer's output.

    The layer takes one padding for both ends. An end that wants less gets output
    padding; an end that wants more is cut off.
    """
    kernel = kernel_sizes(n)
    axes = len(kernel)
    auto = n.attr("auto_pad", "NOTSET")
    strides = n.attr("strides") or [1] * axes
    dilations = n.attr("dilations") or [1] * axes
    extra = n.attr("output_padding") or [0] * axes
    pads = _transposed_pads(n, auto, strides, dilations, kernel, extra)
    begin, output, keep = [], [], []
    for i in range(axes):
        before, behind = pads[i], pads[axes + i] - extra[i]
        room = max(strides[i], dilations[i]) - 1  # the most that PyTorch adds
        padding = min(before, behind + room)
        if padding < 0:
            n.refuse("ConvTranspose with such output_padding or pads is not supported")
        begin.append(padding)
        output.append(max(padding - behind, 0))
        keep.append(slice(before - padding or None, min(padding - behind, 0) or None))
    w = Windows(
        tuple(kernel), tuple(strides), tuple(dilations), tuple(begin), tuple(begin)
    )
    return w, output, keep


def _transposed_pads(
    n: NodeView,
    auto: str,
    strides: Sequence[int],
    dilations: Sequence[int],
    kernel: Sequence[int],
    extra: Sequence[int],
) -> list[int]:
    axes = len(kernel)
    shape = n.attr("output_shape")
    if not shape and auto in ("NOTSET", "VALID"):
        return list(n.attr("pads") or [0] * 2 * axes)
    begin, end = [], []
    for i in range(axes):
        total = (kernel[i] - 1) * dilations[i] + 1 + extra[i] - strides[i]
        if shape:
            size = n.size(0, 2 + i, "size and output_shape")
            total += strides[i] * size - shape[-axes:][i]
        else:  # where windows leave gaps, ONNX Runtime adds nothing behind the last
            total = max(total, 0)
        less, more = total // 2, total - total // 2
        if total < 0:  # what is missing is added behind
            less, more = (total, 0) if auto != "SAME_UPPER" else (0, total)
        begin.append(less if auto == "SAME_UPPER" else more)
        end.append(more if auto == "SAME_UPPER" else less)
    return begin + end


def _cut(y: Any, keep: list[slice]) -> Any:
    index = (..., *keep)
    return y if all(part == slice(None) for part in keep) else y[index]


def _transpose_options(n: NodeView, w: Windows, output: list[int]) -> dict[str, Any]:
    return {
        "stride": (short(w.stride), 1),
        "padding": (short(w.begin), 0),
        "output_padding": (short(output), 0),
        "dilation": (short(w.dilation), 1),
        "groups": (n.attr("group", 1), 1),
    }


def _conv_transpose_module(n: NodeView) -> ModuleForm | None:
    if not _is_layer(n):
        return None
    w, output, keep = _transposed(n)
    shape = _weight_shape(n)
    return ModuleForm(
        layer=f"nn.ConvTranspose{w.axes}d",
        positional=(shape[0], shape[1] * n.attr("group", 1), short(w.kernel)),
        keywords={**_transpose_options(n, w, output), "bias": (n.has(2), True)},
        weights=_weights(n),
        inputs=(n.value(0),),
        outputs=(n.node.outputs[0],),
        call=lambda t, layer, x: _cut(layer(x), keep),
    )


@operator(
    "ConvTranspose",
    since=11,
    cut=cuts.along(0),
    fits=fitting_sizes.window(1, channels=0),
    mapping=MANY_TO_MANY,
    onnx_errs=True,
    fresh=True,
    module=_conv_transpose_module,
)
def _conv_transpose(t: Any, n: NodeView, x: Any, weight: Any, bias: Any = None) -> Any:
    w, output, keep = _transposed(n)
    given = unusual(_transpose_options(n, w, output))
    function = getattr(t.F, f"conv_transpose{w.axes}d")
    operands = (x, weight) if bias is None else (x, weight, bias)
    return _cut(function(*operands, **given), keep)


# ---- DeformConv


@operator("DeformConv", since=19, mapping=MANY_TO_MANY, shape=sizes_windows.conv)
def _deform_conv(
    t: Any,
    n: NodeView,
    x: Any,
    weight: Any,
    offset: Any,
    bias: Any = None,
    mask: Any = None,
) -> Any:
    if n.rank(0) != 4:
        n.refuse("DeformConv over other than two spatial axes is not supported")
    if n.dtype(0) in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        n.refuse("DeformConv in half precision is not supported")
    w = windows(n, kernel_sizes(n))
    given = present(
        bias=bias,
        mask=mask,
        stride=w.stride if set(w.stride) != {1} else None,
        padding=(*w.begin, *w.end) if any((*w.begin, *w.end)) else None,
        dilation=w.dilation if w.dilated() else None,
    )
    return t.helper(helpers.deform_conv2d)(x, weight, offset, **given)
