"""Cases of analysis/ops/quantized/quantize_linear.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from ml_dtypes import bfloat16, float8_e4m3fn, int4, uint4
from support.operator_cases import case, cases, f16, f32, i32, u8

_VALUES = f32([[-400, -1.5, -0.5, 0], [0.5, 1.5, 2.5, 1e9]])
_HALVES = f16([[-40, -1.5, -0.3, 0], [0.5, 1.1, 2.5, 1000]])
_COLUMNS, _ROWS = f32([0.5, 1, 0.25, 3]), f32([0.5, 0.3])
_BLOCKS = f32([[0.5, 1], [0.25, 3]])
_TWO, _LEVEL = f32(2), f32(0.02)
_CODES = u8([[0, 3, 128, 255], [7, 8, 9, 10]])
_TYPED = (("int8", -7), ("uint8", 128), ("int16", 300), ("uint16", 40000))


def _zeros(dtype: Any, *values: int) -> Any:
    return np.array(values, dtype)


cases(
    "QuantizeLinear",
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
    case(_VALUES, _BLOCKS, _zeros("int8", 1, 2, 3, 4).reshape(2, 2), block_size=2),
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
)

cases(
    "DequantizeLinear",
    case(_CODES, _LEVEL),
    *[
        case(_CODES.astype(d), _LEVEL, np.array(z, d))
        for d, z in (*_TYPED, ("int32", 0))
    ],
    case(_CODES, _COLUMNS, _zeros("uint8", 0, 7, 128, 255)),
    case(_CODES, _COLUMNS, _zeros("uint8", 0, 7, 128, 255), constants=(0, 1, 2)),
    case(_CODES, _ROWS, _zeros("uint8", 5, 6), axis=0),
    case(_CODES, _LEVEL, np.array(7, np.uint8), constants=(1, 2)),
    case(_CODES, f32([0.3]), u8([7]), constants=(1, 2)),
    case(_CODES, f16(0.3), np.array(7, np.uint8), constants=(1, 2)),
    case(_CODES, _BLOCKS, _zeros("uint8", 1, 2, 3, 4).reshape(2, 2), block_size=2),
    case(_CODES[:, :3], _BLOCKS, axis=-1, block_size=2),
    case(_CODES, f16(0.3), np.array(100, np.uint8)),
    case(_CODES, _LEVEL, output_dtype=ir.DataType.FLOAT16.value),
    case(f32([1, -7, 5]).astype(int4), _LEVEL, np.array(-3, int4)),
    case(f32([1, 7, 15]).astype(uint4), _LEVEL),
    case(f32([1, -7, 448]).astype(float8_e4m3fn), _LEVEL),
    case(u8(200), _LEVEL, np.array(9, np.uint8)),
)

cases(
    "DynamicQuantizeLinear",
    case([3, 4], outputs=3),
    case(f32([0, 2, -3, -2.5, 1.34, 0.5]), outputs=3),
    case(f32([-1, -2.1, -1.3, -2.5, -3.34, -4]), outputs=3),
    case(f32([[1, 2.1, 1.3], [2.5, 3.34, 4]]), outputs=3),
    case(f32([0, 0]), outputs=3),
)
