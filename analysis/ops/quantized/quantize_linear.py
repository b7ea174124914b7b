"""Quantisation: to few bits and back."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ...graph.dims import same
from ..facts import cuts, sizes_elementwise
from ..helpers import quant as helpers
from ..node_view import NodeView
from ..onnx.casts import cast
from ..operands import BITS, EVERYTHING, axis_of, converted, is_zero, size, wanted
from ..quant_layers import dequantize, quantize
from ..registry import MANY_TO_MANY, ONE_TO_ONE, operator

# ---- to few bits and back


def _aligned(n: NodeView, i: int, x: Any) -> Any:
    """A scale or zero point such that it broadcasts against input 0."""
    rank, own = n.rank(0), n.rank(i)
    block = n.attr("block_size", 0)
    if block and own == rank:
        axis = axis_of(n, 1)
        spread = x.repeat_interleave(block, dim=axis)
        whole, blocks = n.dims(0)[axis], n.dims(i)[axis]
        if same(blocks * block, whole) is not True:  # the last block is cut short
            index = (*[EVERYTHING] * axis, slice(size(whole)))
            spread = spread[index]
        return spread
    if own == 1 and rank == 0:
        return x[0]
    if own != 1 or n.dims(i)[0] == 1:
        return x
    behind = rank - 1 - axis_of(n, 1)
    return stretched(x, behind) if behind else x


def stretched(x: Any, count: int) -> Any:
    """x with so many axes of size 1 behind its own one."""
    index = (EVERYTHING, *[None] * count)
    return x[index]


def _zero_point(n: NodeView, zero: Any) -> tuple[Any, ...]:
    """The zero point as the last operand, unless it is 0 throughout."""
    return () if zero is None or is_zero(n, 2) else (_aligned(n, 2, zero),)


def torch_dtype(t: Any, dtype: ir.DataType) -> dict[str, Any]:
    """The `dtype` option of a helper; none where uint8 is meant, its default."""
    unsigned = (ir.DataType.UINT8, ir.DataType.UINT4, ir.DataType.UINT2)
    return {} if dtype in unsigned else {"dtype": t.dtype(dtype)}


@operator(
    "QuantizeLinear",
    since=25,
    mapping=ONE_TO_ONE,
    cut=cuts.quantized,
    shape=sizes_elementwise.like_input,
    flops=3,
    traceable=False,
    module=quantize,
)
def _quantize(t: Any, n: NodeView, x: Any, scale: Any, zero: Any = None) -> Any:
    target = n.out_dtype()
    precision = ir.DataType(n.attr("precision", 0) or n.dtype(1))
    if precision != n.dtype(1):
        scale = converted(t, scale, precision)
    if precision != n.dtype(0):
        x = converted(t, x, precision)
    scale = _aligned(n, 1, scale)
    if not target.is_integer():  # its zero point is zero
        return cast(t, n, x / scale, precision)
    options = torch_dtype(t, target)
    if target in BITS:
        options["bits"] = BITS[target]
    operands = (x, scale, *_zero_point(n, zero))
    return t.helper(helpers.quantize_linear)(*operands, **options)


@operator(
    "DequantizeLinear",
    since=25,
    mapping=ONE_TO_ONE,
    cut=cuts.quantized,
    shape=sizes_elementwise.like_input,
    flops=2,
    traceable=False,
    module=dequantize,
)
def _dequantize(t: Any, n: NodeView, x: Any, scale: Any, zero: Any = None) -> Any:
    zero = zero if n.dtype(0).is_integer() else None
    operands = (x, _aligned(n, 1, scale), *_zero_point(n, zero))
    y = t.helper(helpers.dequantize_linear)(*operands)
    target = n.out_dtype()
    return y if target == n.dtype(1) == ir.DataType.FLOAT else converted(t, y, target)


@operator("DynamicQuantizeLinear", since=11, mapping=MANY_TO_MANY, traceable=False)
def _dynamic(t: Any, n: NodeView, x: Any) -> Any:
    return wanted(n, t.helper(helpers.dynamic_quantize_linear)(x), 3)
