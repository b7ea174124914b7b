"""Helpers of a package that are operators of ONNX: traced as these, and not as what
they do, of which ONNX Runtime may lack a part, and PyTorch's exporter too."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from ...analysis.lazy import lazy
from .interface import Interface
from .tables import CODES, MAP, TREES, of_tables

if TYPE_CHECKING:
    import torch
    from torch.onnx import ops
else:
    torch, ops = lazy("torch"), lazy("torch.onnx.ops")


@contextmanager
def as_operators(module: torch.nn.Module, known: Interface) -> Iterator[None]:
    """In here, helpers that no one edited call for their operators."""
    text = known.report.get("source_map", {}).get("text", "")
    page = sys.modules[type(module).__module__]
    with ExitStack() as entered:
        for name, call in _HELPERS.items():
            helper: Any = getattr(page, name, None) if text else None
            if helper is not None and inspect.getsource(helper) in text:
                is_layer = isinstance(helper, type)
                owner, key = (helper, "forward") if is_layer else (page, name)
                called = _called(call, getattr(owner, key))
                entered.enter_context(patch.object(owner, key, called))
        yield


def _called(call: Callable[..., Any], own: Callable[..., Any]) -> Callable[..., Any]:
    """The operator, of types that each of its versions has; else what was written."""

    def called(*given: Any, **options: Any) -> Any:
        layer = given[0] if isinstance(given[0], torch.nn.Module) else torch.nn.Module()
        held = [*given, *layer.parameters(), *layer.buffers()]
        kinds = {x.dtype for x in held if isinstance(x, torch.Tensor)}
        if kinds.isdisjoint({torch.float64, torch.float16, torch.bfloat16}):
            return call(own, *given, **options)
        return own(*given, **options)

    return called


def _node(name: str, inputs: Sequence[Any], like: Any, **attributes: Any) -> Any:
    return ops.symbolic(name, inputs, attributes, dtype=like.dtype, shape=like.shape)


def _boxes(own: Any, boxes: Any, scores: Any, *rest: Any, **given: Any) -> Any:
    if rest:
        return own(boxes, scores, *rest, **given)
    limits = [given.get("max_per_class", 0), float(given.get("iou_threshold", 0))]
    limits += [given[key] for key in ("score_threshold",) if given.get(key) is not None]
    some = scores.nonzero()  # as many rows of three, which only a run knows
    inputs = [boxes, scores, *map(torch.tensor, limits)]
    centers = int(given.get("centers", False))
    return _node("NonMaxSuppression", inputs, some, center_point_box=centers)


def _lp(own: Any, x: Any, dim: int, p: int = 2) -> Any:
    known = p in (1, 2)
    return _node("LpNormalization", [x], x, axis=dim, p=p) if known else own(x, dim, p)


def _largest(own: Any, x: Any, k: Any, dim: int = -1, largest: bool = True) -> Any:
    shape, dtypes = [*x.shape], (x.dtype, torch.int64)
    shape[dim] = k
    inputs, options = [x, torch.tensor([k])], {"axis": dim, "largest": int(largest)}
    return ops.symbolic_multi_out(
        "TopK", inputs, {**options}, dtypes=dtypes, shapes=(shape, shape)
    )


def _quantize(
    own: Any, x: Any, scale: Any, zero: Any = 0, *rest: Any, **more: Any
) -> Any:
    y = own(x, scale, zero, *rest, **more)
    is_byte = isinstance(zero, torch.Tensor) and zero.dtype == y.dtype != torch.int32
    if scale.dim() or rest[1:] or "bits" in more or not is_byte:
        return y
    return _node("QuantizeLinear", [x, scale, zero], y)


def _dequantize(own: Any, x: Any, scale: Any, *zero: Any) -> Any:
    y = own(x, scale, *zero)
    if scale.dim() or x.is_floating_point() or any(isinstance(z, int) for z in zero):
        return y
    return _node("DequantizeLinear", [x, scale, *zero], y)


def _dynamic(own: Any, x: Any) -> Any:
    dtypes, shapes = (torch.uint8, x.dtype, torch.uint8), (x.shape, (), ())
    name = "DynamicQuantizeLinear"
    return ops.symbolic_multi_out(name, [x], dtypes=dtypes, shapes=shapes)


def _fake_quantize(own: Any, layer: Any, x: Any) -> Any:
    y, end = own(layer, x), [layer.scale, layer.zero_point]
    integers = _node("QuantizeLinear", [x, *end], y.to(layer.zero_point.dtype))
    return _node("DequantizeLinear", [integers, *end], y)


def _stored(own: Any, layer: Any, x: Any) -> Any:
    """Of a weight that is integers times a scale, or one for each output."""
    scale = layer.scale if len(layer.scale) > 1 else layer.scale.squeeze()
    like = layer.weight.float()
    weight = _node("DequantizeLinear", [layer.weight, scale], like, axis=0)
    if isinstance(layer, torch.nn.Linear):
        return torch.nn.functional.linear(x, weight, layer.bias)
    return layer._conv_forward(x, weight, layer.bias)


def _ends(layer: Any, *names: str) -> list[Any]:
    return [getattr(layer, f"{n}_{part}") for n in names for part in _PARTS]


def _weight(layer: Any) -> list[Any]:
    zero = torch.zeros_like(layer.scale, dtype=layer.weight.dtype)
    return [layer.weight, layer.scale, zero]


def _qconv(own: Any, layer: Any, x: Any) -> Any:
    inputs = [x, *_ends(layer, "input"), *_weight(layer), *_ends(layer, "output")]
    options = {"strides": layer.stride, "dilations": layer.dilation}
    options |= {"pads": [*layer.padding] * 2, "group": layer.groups}
    return _node("QLinearConv", [*inputs, layer.bias], own(layer, x), **options)


def _qgemm(own: Any, layer: Any, x: Any) -> Any:
    y, inputs = own(layer, x), [x, *_ends(layer, "input"), *_weight(layer), layer.bias]
    if y.dim() != 2:
        return y
    inputs += _ends(layer, "output")
    return _node("com.microsoft::QGemm", inputs, y, transB=1)


def _few_bits(own: Any, layer: Any, x: Any) -> Any:
    out_features, _, width = layer.weight.shape
    inputs = [x, layer.weight, layer.scales, layer.zero_points, None, layer.bias]
    sizes = {"K": layer.in_features, "N": out_features, "bits": layer.bits}
    sizes["block_size"] = width * 8 // layer.bits
    return _node("com.microsoft::MatMulNBits", inputs, own(layer, x), **sizes)


def _both(own: Any, layer: Any, x: Any, y: Any) -> Any:
    inputs = [x, *_ends(layer, "input"), y, *_ends(layer, "other", "output")]
    return _node(f"com.microsoft::{type(layer).__name__}", inputs, own(layer, x, y))


def _walked(own: Any, layer: Any, x: Any) -> Any:
    like = x.new_empty(x.shape[0], layer.targets)
    reduce = {"amin": "MIN", "amax": "MAX"}.get(layer.reduce, "SUM")
    options = {"n_targets": layer.targets, "reduce": reduce}
    return _node(of_tables(TREES), [x, *layer.buffers()], like, **options)


def _found(own: Any, x: Any, keys: Any) -> Any:
    if x.dtype != keys.dtype or x.dtype not in (torch.int64, torch.float32):
        return own(x, keys)
    return _node(of_tables(CODES), [x, keys], x.to(torch.int64))


def _mapped(own: Any, scores: Any, keys: list[Any]) -> Any:
    kind = "strings" if isinstance(keys[0], str) else "int64s"
    return _node(of_tables(MAP), [scores], scores, **{f"classlabels_{kind}": keys})


_PARTS = ("scale", "zero_point")
_HELPERS: dict[str, Callable[..., Any]] = {
    "non_max_suppression": _boxes,
    "lp_normalize": _lp,
    "top_k": _largest,
    "quantize_linear": _quantize,
    "dequantize_linear": _dequantize,
    "dynamic_quantize_linear": _dynamic,
    "FakeQuantize": _fake_quantize,
    "QuantizedConv2d": _stored,
    "QuantizedLinear": _stored,
    "QLinearConv2d": _qconv,
    "QLinearLinear": _qgemm,
    "PackedLinear": _few_bits,
    "QLinearAdd": _both,
    "QLinearMul": _both,
    "Trees": _walked,
    "MixedTrees": _walked,
    "find_numbers": _found,
    "zip_map": _mapped,
}
