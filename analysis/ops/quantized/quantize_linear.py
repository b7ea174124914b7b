"""Quantisation: to few bits and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from ml_dtypes import bfloat16, float8_e4m3fn, int4, uint4

from ...graph.dims import same
from ..case_arrays import f16, f32, i32, u8
from ..facts import cuts, sizes_elementwise
from ..helpers import quant as helpers
from ..node_view import NodeView
from ..onnx.casts import cast
from ..operands import BITS, EVERYTHING, axis_of, converted, is_zero, size, wanted
from ..quant_layers import dequantize, quantize
from ..registry import MANY_TO_MANY, ONE_TO_ONE, OpDef, case, define

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


def _zero_point(n: NodeView, zero: Any) -> tuple[Any, ...]:
    """The zero point as the last operand, unless it is 0 throughout."""
    return () if zero is None or is_zero(n, 2) else (_aligned(n, 2, zero),)


def torch_dtype(t: Any, dtype: ir.DataType) -> dict[str, Any]:
    """The `dtype` option of a helper; none where uint8 is meant, its default."""
    unsigned = (ir.DataType.UINT8, ir.DataType.UINT4, ir.DataType.UINT2)
    return {} if dtype in unsigned else {"dtype": t.dtype(dtype)}


def _dequantize(t: Any, n: NodeView, x: Any, scale: Any, zero: Any = None) -> Any:
    zero = zero if n.dtype(0).is_integer() else None
    operands = (x, _aligned(n, 1, scale), *_zero_point(n, zero))
    y = t.helper(helpers.dequantize_linear)(*operands)
    target = n.out_dtype()
    return y if target == n.dtype(1) == ir.DataType.FLOAT else converted(t, y, target)


def _dynamic(t: Any, n: NodeView, x: Any) -> Any:
    return wanted(n, t.helper(helpers.dynamic_quantize_linear)(x), 3)


_VALUES = f32([[-400, -1.5, -0.5, 0], [0.5, 1.5, 2.5, 1e9]])
_HALVES = f16([[-40, -1.5, -0.3, 0], [0.5, 1.1, 2.5, 1000]])
_COLUMNS, _ROWS = f32([0.5, 1, 0.25, 3]), f32([0.5, 0.3])
_BLOCKS = f32([[0.5, 1], [0.25, 3]])
_TWO, _LEVEL = f32(2), f32(0.02)
_CODES = u8([[0, 3, 128, 255], [7, 8, 9, 10]])
_TYPED = (("int8", -7), ("uint8", 128), ("int16", 300), ("uint16", 40000))


def _zeros(dtype: Any, *values: int) -> Any:
    return np.array(values, dtype)


define(
    OpDef(
        "QuantizeLinear",
        since=25,
        mapping=ONE_TO_ONE,
        cut=cuts.quantized,
        shape=sizes_elementwise.like_input,
        flops=3,
        traceable=False,
        torch=_quantize,
        module=quantize,
        cases=[
            case(_VALUES, _TWO),
            *[case(_VALUES, _LEVEL, np.array(z, d)) for d, z in _TYPED],
            *[case([3, 4], _LEVEL, np.array(z, d)) for d, z in _TYPED],
            case(_VALUES, _COLUMNS, _zeros("uint8", 0, 7, 128, 255)),
            case(_VALUES, _ROWS, _zeros("int8", 5, -5), axis=0),
            *[
                case([3, 4], _LEVEL, np.array(z, d), constants=(1, 2))
                for d, z in (*_TYPED, ("int8", 0))
            ],
            case(_HALVES, f16(0.3), np.array(3, np.int8), constants=(1, 2)),
            case(_HALVES, f32(0.3), np.array(3, np.int8), constants=(1, 2)),
            case([2, 3, 4], f32([1, 2, 3]), _zeros("int8", 5, -5, 0), constants=(1, 2)),
            case(
                _VALUES, _BLOCKS, _zeros("int8", 1, 2, 3, 4).reshape(2, 2), block_size=2
            ),
            case([2, 3], _BLOCKS[:, :2], axis=-1, block_size=2),
            case(_VALUES, _TWO, output_dtype=ir.DataType.INT16.value),
            case(_VALUES, _TWO, output_dtype=ir.DataType.UINT4.value),
            case(_VALUES, _COLUMNS, _zeros(int4, 1, 2, -3, 4)),
            case(_VALUES, _COLUMNS, _zeros(uint4, 1, 2, 3, 4)),
            case(_VALUES, _TWO, output_dtype=ir.DataType.FLOAT8E4M3FN.value),
            case(_VALUES, _TWO, _zeros(float8_e4m3fn, 0)[0], saturate=0),
            case(_VALUES, _TWO, output_dtype=ir.DataType.FLOAT4E2M1.value),
            case(_HALVES, f16(2), np.array(3, np.uint8)),
            case(_HALVES, f16(0.3), np.array(3, np.int8)),
            case(_HALVES, _TWO, np.array(3, np.int8), precision=1),
            case(i32([[5, -7, 300]]), _TWO, np.array(3, np.int8)),
            case(_VALUES.astype(bfloat16), f32(2).astype(bfloat16)),
            case(f32(7), _TWO),
        ],
    )
)
define(
    OpDef(
        "DequantizeLinear",
        since=25,
        mapping=ONE_TO_ONE,
        cut=cuts.quantized,
        shape=sizes_elementwise.like_input,
        flops=2,
        traceable=False,
        torch=_dequantize,
        module=dequantize,
        cases=[
            case(_CODES, _LEVEL),
            *[
                case(_CODES.astype(d), _LEVEL, np.array(z, d))
                for d, z in (*_TYPED, ("int32", 0))
            ],
            case(_CODES, _COLUMNS, _zeros("uint8", 0, 7, 128, 255)),
            case(
                _CODES, _COLUMNS, _zeros("uint8", 0, 7, 128, 255), constants=(0, 1, 2)
            ),
            case(_CODES, _ROWS, _zeros("uint8", 5, 6), axis=0),
            case(_CODES, _LEVEL, np.array(7, np.uint8), constants=(1, 2)),
            case(_CODES, f32([0.3]), u8([7]), constants=(1, 2)),
            case(_CODES, f16(0.3), np.array(7, np.uint8), constants=(1, 2)),
            case(
                _CODES, _BLOCKS, _zeros("uint8", 1, 2, 3, 4).reshape(2, 2), block_size=2
            ),
            case(_CODES[:, :3], _BLOCKS, axis=-1, block_size=2),
            case(_CODES, f16(0.3), np.array(100, np.uint8)),
            case(_CODES, _LEVEL, output_dtype=ir.DataType.FLOAT16.value),
            case(f32([1, -7, 5]).astype(int4), _LEVEL, np.array(-3, int4)),
            case(f32([1, 7, 15]).astype(uint4), _LEVEL),
            case(f32([1, -7, 448]).astype(float8_e4m3fn), _LEVEL),
            case(u8(200), _LEVEL, np.array(9, np.uint8)),
        ],
    )
)
define(
    OpDef(
        "DynamicQuantizeLinear",
        since=11,
        mapping=MANY_TO_MANY,
        shape=sizes_elementwise.dynamically_quantized,
        traceable=False,
        torch=_dynamic,
        cases=[
            case([3, 4], outputs=3),
            case(f32([0, 2, -3, -2.5, 1.34, 0.5]), outputs=3),
            case(f32([-1, -2.1, -1.3, -2.5, -3.34, -4]), outputs=3),
            case(f32([[1, 2.1, 1.3], [2.5, 3.34, 4]]), outputs=3),
            case(f32([0, 0]), outputs=3),
        ],
    )
)
