"""Layers and helpers of integers with scales, as the operators that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...analysis.lazy import lazy

if TYPE_CHECKING:
    import torch
    from torch.onnx import ops
else:
    torch, ops = lazy("torch"), lazy("torch.onnx.ops")

_PARTS = ("scale", "zero_point")


def node(name: str, inputs: Sequence[Any], like: Any, **attributes: Any) -> Any:
    """What an operator makes, traced as that: of the type and sizes of another."""
    return ops.symbolic(name, inputs, attributes, dtype=like.dtype, shape=like.shape)


def _quantize(
    own: Any, x: Any, scale: Any, zero: Any = 0, *rest: Any, **more: Any
) -> Any:
    y = own(x, scale, zero, *rest, **more)
    is_byte = isinstance(zero, torch.Tensor) and zero.dtype == y.dtype != torch.int32
    if scale.dim() or rest[1:] or "bits" in more or not is_byte:
        return y
    return node("QuantizeLinear", [x, scale, zero], y)


def _dequantize(own: Any, x: Any, scale: Any, *zero: Any) -> Any:
    y = own(x, scale, *zero)
    if scale.dim() or x.is_floating_point() or any(isinstance(z, int) for z in zero):
        return y
    return node("DequantizeLinear", [x, scale, *zero], y)


def _dynamic(own: Any, x: Any) -> Any:
    dtypes, shapes = (torch.uint8, x.dtype, torch.uint8), (x.shape, (), ())
    name = "DynamicQuantizeLinear"
    return ops.symbolic_multi_out(name, [x], dtypes=dtypes, shapes=shapes)


def _fake_quantize(own: Any, layer: Any, x: Any) -> Any:
    y, end = own(layer, x), [layer.scale, layer.zero_point]
    integers = node("QuantizeLinear", [x, *end], y.to(layer.zero_point.dtype))
    return node("DequantizeLinear", [integers, *end], y)


def _stored(own: Any, layer: Any, x: Any) -> Any:
    """Of a weight that is integers times a scale, or one for each output."""
    scale = layer.scale if len(layer.scale) > 1 else layer.scale.squeeze()
    like = layer.weight.float()
    weight = node("DequantizeLinear", [layer.weight, scale], like, axis=0)
    if isinstance(layer, torch.nn.Linear):
        return torch.nn.functional.linear(x, weight, layer.bias)
    return layer._conv_forward(x, weight, layer.bias)


def _ends(layer: Any, *names: str) -> list[Any]:
    return [getattr(layer, f"{n}_{part}") for n in names for part in _PARTS]


def _weight(layer: Any) -> list[Any]:
    zero = torch.zeros_like(layer.scale, dtype=layer.weight.dtype)
    return [layer.weight, layer.scale, zero]


def _window(layer: Any) -> dict[str, Any]:
    window = {"strides": layer.stride, "dilations": layer.dilation}
    return window | {"pads": [*layer.padding] * 2, "group": layer.groups}


def _qconv(own: Any, layer: Any, x: Any) -> Any:
    inputs = [x, *_ends(layer, "input"), *_weight(layer), *_ends(layer, "output")]
    inputs.append(layer.bias)
    return node("QLinearConv", inputs, own(layer, x), **_window(layer))


def _qgemm(own: Any, layer: Any, x: Any) -> Any:
    y, inputs = own(layer, x), [x, *_ends(layer, "input"), *_weight(layer), layer.bias]
    if y.dim() != 2:
        return y
    inputs += _ends(layer, "output")
    return node("com.microsoft::QGemm", inputs, y, transB=1)


def _rounded(own: Any, layer: Any, x: Any) -> Any:
    """A layer of integers of what it rounds itself."""
    integers, scale, zero = _dynamic(own, x)
    like = own(layer, x).to(torch.int32)
    if isinstance(layer, torch.nn.Linear):
        given = [integers, layer.weight.T, zero]
        y = node("MatMulInteger", given, like) * (scale * layer.scale)
        return y if layer.bias is None else y + layer.bias
    given = [integers, layer.weight, zero]
    sums = node("ConvInteger", given, like, **_window(layer))
    every = (slice(None), *[None] * (layer.weight.dim() - 2))  # filters, and behind
    own_scale = layer.scale if len(layer.scale) == 1 else layer.scale[every]
    y = sums * (scale * own_scale)
    return y if layer.bias is None else y + layer.bias[every]


def _lstm(
    own: Any, x: Any, w: Any, r: Any, w_numbers: Any, r_numbers: Any, **given: Any
) -> Any:
    directions = {(False,): "forward", (True,): "reverse"}
    named = directions.get(given.get("reverse", (False,)), "bidirectional")
    kinds = given.get("activations", ())
    if {*kinds} - {"relu", "sigmoid", "tanh"}:  # of the others some have numbers
        return own(x, w, r, w_numbers, r_numbers, **given)
    some = [given.get(key) for key in ("bias", "lengths", "h", "c", "peepholes")]
    options: dict[str, Any] = {"direction": named, "hidden_size": r.shape[1]}
    options["input_forget"] = int(given.get("couple", False))
    options |= {"activations": [kind.title() for kind in kinds]} if kinds else {}
    options |= {"clip": given["clip"]} if "clip" in given else {}
    state = (len(w), x.shape[1], r.shape[1])
    return ops.symbolic_multi_out(
        "com.microsoft::DynamicQuantizeLSTM",
        [x, w, r, *some, *w_numbers, *r_numbers],
        options,
        dtypes=[x.dtype] * 3,
        shapes=((x.shape[0], *state), state, state),
    )


def _few_bits(own: Any, layer: Any, x: Any) -> Any:
    out_features, _, width = layer.weight.shape
    inputs = [x, layer.weight, layer.scales, layer.zero_points, None, layer.bias]
    sizes = {"K": layer.in_features, "N": out_features, "bits": layer.bits}
    sizes["block_size"] = width * 8 // layer.bits
    return node("com.microsoft::MatMulNBits", inputs, own(layer, x), **sizes)


def _both(own: Any, layer: Any, x: Any, y: Any) -> Any:
    inputs = [x, *_ends(layer, "input"), y, *_ends(layer, "other", "output")]
    return node(f"com.microsoft::{type(layer).__name__}", inputs, own(layer, x, y))


# By the helper's name: called with the helper as it was, and its arguments.
INTEGERS: dict[str, Callable[..., Any]] = {
    "quantize_linear": _quantize,
    "dequantize_linear": _dequantize,
    "dynamic_quantize_linear": _dynamic,
    "DynamicQuantizedConv1d": _rounded,
    "DynamicQuantizedConv2d": _rounded,
    "DynamicQuantizedLinear": _rounded,
    "FakeQuantize": _fake_quantize,
    "run_dynamic_quantized_lstm": _lstm,
    "QuantizedConv2d": _stored,
    "QuantizedLinear": _stored,
    "QLinearConv2d": _qconv,
    "QLinearLinear": _qgemm,
    "PackedLinear": _few_bits,
    "QLinearAdd": _both,
    "QLinearMul": _both,
}
