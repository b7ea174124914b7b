"""Operators of PyTorch as the exporter doesn't write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from ...analysis.lazy import lazy

if TYPE_CHECKING:
    import onnxscript
    import torch
    from onnxscript.function_libs.torch_lib.ops import core
else:
    onnxscript, torch = lazy("onnxscript"), lazy("torch")
    core = lazy("onnxscript.function_libs.torch_lib.ops.core")

_BOOL = ir.DataType.BOOL


def translations() -> dict[Any, Callable[..., Any]]:
    """By what is written in the place of each operator."""
    return {
        # What it sorts by, TopK, has the first of equals first.
        torch.ops.aten.sort.stable: core.aten_sort,
        torch.ops.aten.div.Tensor_mode: _divided,
        torch.ops.aten.remainder.Scalar: _remainder,
        torch.ops.aten.index.Tensor: _picked,
        torch.ops.aten.unbind.int: _parted,
        torch.ops.aten.where.self: _chosen,
        torch.ops.aten.__lshift__.Scalar: _shifted("left"),
        torch.ops.aten.__lshift__.Tensor: _shifted("left"),
        torch.ops.aten.__rshift__.Scalar: _shifted("right"),
        torch.ops.aten.__rshift__.Tensor: _shifted("right"),
        torch.ops.aten.scaled_dot_product_attention.default: _attended,
    }


def _divided(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """A quotient; of whole numbers exactly, where the exporter goes through float32."""
    if rounding_mode == "trunc" and self.dtype.is_integer():
        return onnxscript.opset18.Div(self, other)
    if rounding_mode == "floor" and self.dtype.is_integer():
        return core.aten_floor_divide(self, other)
    return core.aten_div_mode(self, other, rounding_mode)


def _remainder(self: Any, other: Any) -> Any:
    """By a size as well, where the exporter takes a number for one that it knows."""
    return core.aten_remainder(self, onnxscript.opset18.CastLike(other, self))


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    """Of truth values, too, for which ONNX Runtime has no Where."""
    op: Any = onnxscript.opset18
    if x.dtype != _BOOL:
        return core.aten_where(condition, x, y)
    return op.Or(op.And(condition, x), op.And(op.Not(condition), y))


def _picked(x: Any, places: Any) -> Any:
    """Along one axis by Gather, where the exporter has GatherND of places in a row."""
    (axis, at), *others = ((i, at) for i, at in enumerate(places) if at is not None)
    if others or at.dtype == _BOOL:
        return core.aten_index(x, places)
    return onnxscript.opset18.Gather(x, at, axis=axis)


def _parted(x: Any, dim: int = 0) -> Any:
    """Each part by its place, where the exporter splits and drops the axis."""
    op: Any = onnxscript.opset18
    return [
        op.Gather(x, op.Constant(value_int=i), axis=dim) for i in range(x.shape[dim])
    ]


def _shifted(to: str) -> Callable[[Any, Any], Any]:
    """Of numbers without a sign as they are, which the exporter makes signed."""

    def shifted(self: Any, other: Any) -> Any:
        by = onnxscript.opset18.CastLike(other, self)
        if self.dtype.is_signed():
            by.dtype = self.dtype
            return getattr(core, f"aten_bitwise_{to}_shift")(self, by)
        return onnxscript.opset18.BitShift(self, by, direction=to.upper())

    return shifted


def _attended(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    dropout: float = 0.0,
    causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """By its definition, of any axes and any scale; where a row may be left without a
    place PyTorch gives 0 of it."""
    rank, empty = len(q.shape), mask is not None and _may_hide_all(mask)
    op: Any = onnxscript.opset18
    if enable_gqa and (times := q.shape[-3] // k.shape[-3]) > 1:
        wide, heads = [1] * (rank - 2) + [times, 1, 1], op.Shape(q, start=-3, end=-2)
        each = (op.Expand(op.Unsqueeze(x, [rank - 2]), wide) for x in (k, v))
        ends = ((op.Shape(x, end=-3), op.Shape(x, start=-2)) for x in (k, v))
        k, v = (
            op.Reshape(x, op.Concat(lead, heads, last, axis=0))
            for x, (lead, last) in zip(each, ends, strict=True)
        )
    least = op.CastLike(-math.inf, q)
    scale = op.CastLike(q.shape[-1] ** -0.5 if scale is None else scale, q)
    turned = op.Transpose(k, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = op.MatMul(op.Mul(q, scale), turned)
    if causal:
        sizes = op.Concat(*(op.Shape(x, start=-2, end=-1) for x in (q, k)), axis=0)
        mask = op.Trilu(op.Expand(least, sizes), 1, upper=1)
    if mask is not None and mask.dtype == _BOOL:
        scores = op.Where(mask, scores, least)
    elif mask is not None:
        scores = op.Add(scores, mask)
    weights = op.Softmax(scores, axis=-1)
    if empty:
        weights = op.Where(op.IsNaN(weights), op.CastLike(0.0, q), weights)
    return op.MatMul(weights, v)


def _may_hide_all(mask: Any) -> bool:
    """Whether a row of a mask may leave no key: of truth values, or with an infinity
    or a caller's own numbers among what it is made of."""
    made, todo = {}, [mask]
    while todo:
        value = todo.pop()
        made[value] = known = ir.convenience.get_const_tensor(value)
        node = value.producer()
        if known is None and node is None and value.dtype.is_floating_point():
            return True
        if known is not None and not np.isfinite(known.numpy()).all():
            return True
        read = node.inputs if node else ()
        todo += [x for x in read if x is not None and x not in made]
    return bool(mask.dtype == _BOOL)
