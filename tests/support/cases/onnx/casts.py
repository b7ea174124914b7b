"""Cases of analysis/ops/onnx/casts.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from ml_dtypes import float8_e4m3fn
from support.operator_cases import (
    FLOATS,
    INTS,
    UNSIGNED,
    case,
    cases,
    f16,
    f32,
    i8,
    i32,
    i64,
)

from fairhand.analysis.ops.operands import (
    BITS,
    FLOAT8_MAX,
    SMALL_FLOATS,
)

_VALUES = np.array([[0, 1, 2.5], [7, 100.7, 3]], np.float32)
_SIGNED_VALUES = np.array([-1.5, -100, 0, 1.5, 65, 1e3], np.float32)
_WIDE = f32([0.3, -0.0, 17, 250, -450, 464, 470, 6e4, -1e5, np.inf, np.nan])
_NUMBERS = ("float32", *FLOATS, *INTS, *UNSIGNED, "bool")
_TO = {
    dtype: ir.DataType.from_numpy(np.dtype(dtype)) for dtype in (*_NUMBERS, "bfloat16")
}
_SPECIAL = f32([1, np.nan, np.inf, -np.inf, 0, -2])
_LITTLE = f32([0.25, 1.05, -3.5, 5, 7.3, 2.5, -1e6, 1e-7, -0.0, np.inf, np.nan])
_WHOLE = f32([*range(-9, 16)])
_E8M0 = ir.DataType.FLOAT8E8M0.value
_POWERS = f32([0.124, 0.25, 1, 1.1, 1.5, 3, 2e-38, 1e38, np.nan])
_BEYOND = f32([0.0, 3e38])


def _narrow_cases(make: Callable[..., Any]) -> list[Any]:
    """To the types that PyTorch lacks, and back."""
    made = [make(_WHOLE.astype(s), to) for s in ("float32", "int32") for to in BITS]
    made += [make(_LITTLE[:5].astype(s), to) for s in FLOATS[:2] for to in SMALL_FLOATS]
    made += [make(_LITTLE, to) for to in SMALL_FLOATS]
    made += [make(x, ir.DataType.FLOAT8E8M0) for x in (_POWERS, _BEYOND)]
    for source in (*BITS, *SMALL_FLOATS, ir.DataType.FLOAT8E8M0):
        values = f32([0, 1, 2] if source.bitwidth < 4 else [0.5, 1, 2, 4])
        narrow = values.astype(source.numpy())
        made += [make(narrow, _TO[d]) for d in ("float32", "float16")]
        made.append(make(narrow, ir.DataType.FLOAT8E4M3FN))
    made += [make(f32([1, -7, 0.3]).astype(float8_e4m3fn), to) for to in SMALL_FLOATS]
    return made


def _cast_cases(make: Callable[..., Any]) -> list[Any]:
    made = [
        make(_VALUES.astype(source), to) for source in _NUMBERS for to in _TO.values()
    ]
    made += [make(_SIGNED_VALUES, _TO[d]) for d in ("int16", "int32", "int64", "bool")]
    made += [make(i32([-1, 300, 70000]), to) for to in _TO.values()]
    for saturate in (1, 0):
        made += [make(_WIDE, to, saturate=saturate) for to in FLOAT8_MAX]
        made.append(
            make(
                i32([3, 500, -9000]),
                ir.DataType.FLOAT8E4M3FN,
                saturate=saturate,
            )
        )
        wide = i32([3, 500, 9000])
        made += [
            make(wide.astype(kind), to, saturate=saturate)
            for kind in ("int16", *UNSIGNED[1:])
            for to in (ir.DataType.FLOAT8E4M3FN, ir.DataType.FLOAT8E5M2)
        ]
    made += [make(_SPECIAL.astype(float8_e4m3fn), _TO[d]) for d in ("float32", "bool")]
    return [*made, *_narrow_cases(make)]


cases(
    "Cast",
    *_cast_cases(lambda x, to, **attrs: case(x, to=to.value, **attrs)),
    *[
        case(_POWERS, to=_E8M0, round_mode=mode, saturate=saturate)
        for mode in ("up", "down", "nearest")
        for saturate in (1, 0)
    ],
)

cases(
    "CastLike",
    *_cast_cases(lambda x, to, **attrs: case(x, np.zeros(1, to.numpy()), **attrs)),
)

cases(
    "BitCast",
    case(f32([[1, -2], [0.1, 3]]), to=ir.DataType.INT32.value),
    case(f32(1), to=ir.DataType.UINT32.value),
    case(i64([1, 2]), to=ir.DataType.DOUBLE.value),
    case(i8([-1, 2]), to=ir.DataType.UINT8.value),
    case(i8([-1, 2]), to=ir.DataType.INT8.value),
    case(f16([-1, 2]), to=ir.DataType.UINT16.value),
)

cases("Identity", case([2, 3]), case([]), case(i64([1, 2])))
