"""Conversions of type, and operators that do nothing at inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from ml_dtypes import float8_e4m3fn

from .operands import FLOAT8_MAX, converted
from .samples import FLOATS, INTS, UNSIGNED, f16, f32, i8, i32, i64
from .table import ONE_TO_ONE, NodeView, OpDef, case, define


def _cast(t: Any, n: NodeView, x: Any, like: Any = None) -> Any:
    """A float out of an integer type's range is undefined in ONNX, and in PyTorch."""
    source, target = n.dtype(0), n.out_dtype()
    if source == target:
        return x
    if target in FLOAT8_MAX:
        return _cast_float8(t, n, x)
    return converted(t, x, target)


def _cast_float8(t: Any, n: NodeView, x: Any) -> Any:
    target, dtype = n.out_dtype(), t.dtype(n.out_dtype())
    if n.dtype(0) == ir.DataType.BOOL:
        return x.to(dtype)
    if n.attr("saturate", 1):
        # What PyTorch makes of larger values depends on its version.
        bound = FLOAT8_MAX[target]
        return x.clamp(-bound, bound).to(dtype)
    if target == ir.DataType.FLOAT8E4M3FN:
        # From 464, half way to the number after the largest, there is only NaN.
        x = x if n.is_float(0) else x.float()
        return x.masked_fill(x.abs() > 464, float("nan")).to(dtype)
    return x.to(dtype)


_VALUES = np.array([[0, 1, 2.5], [7, 100.7, 3]], np.float32)
_SIGNED_VALUES = np.array([-1.5, -100, 0, 1.5, 65, 1e3], np.float32)
_WIDE = f32([0.3, -0.0, 17, 250, -450, 464, 470, 6e4, -1e5, np.inf, np.nan])
_NUMBERS = ("float32", *FLOATS, *INTS, *UNSIGNED, "bool")
_TO = {
    dtype: ir.DataType.from_numpy(np.dtype(dtype)) for dtype in (*_NUMBERS, "bfloat16")
}
_SPECIAL = f32([1, np.nan, np.inf, -np.inf, 0, -2])


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
    made += [make(_SPECIAL.astype(float8_e4m3fn), _TO[d]) for d in ("float32", "bool")]
    return made


define(
    OpDef(
        "Cast",
        since=6,
        mapping=ONE_TO_ONE,
        torch=_cast,
        cases=_cast_cases(lambda x, to, **attrs: case(x, to=to.value, **attrs)),
    )
)
define(
    OpDef(
        "CastLike",
        since=15,
        mapping=ONE_TO_ONE,
        torch=_cast,
        cases=_cast_cases(
            lambda x, to, **attrs: case(x, np.zeros(1, to.numpy()), **attrs)
        ),
    )
)


def _bit_cast(t: Any, n: NodeView, x: Any) -> Any:
    return x if n.dtype(0) == n.out_dtype() else x.view(t.dtype(n.out_dtype()))


define(
    OpDef(
        "BitCast",
        since=26,
        mapping=ONE_TO_ONE,
        torch=_bit_cast,
        cases=[
            case(f32([[1, -2], [0.1, 3]]), to=ir.DataType.INT32.value),
            case(f32(1), to=ir.DataType.UINT32.value),
            case(i64([1, 2]), to=ir.DataType.DOUBLE.value),
            case(i8([-1, 2]), to=ir.DataType.UINT8.value),
            case(i8([-1, 2]), to=ir.DataType.INT8.value),
            case(f16([-1, 2]), to=ir.DataType.UINT16.value),
        ],
    )
)


# ---- nothing at all


def _dropout(
    t: Any, n: NodeView, x: Any, ratio: Any = None, training: Any = None
) -> Any:
    mode = n.const(2) if n.has(2) else False
    if mode is None:
        n.refuse("Dropout with a training mode known only at run time is not supported")
    if np.any(mode):
        share = n.const(1) if n.has(1) else 0.5
        if share is None or np.any(share):
            n.refuse("Dropout in training mode is random", "export in inference mode")
    return (x, t.ones_like(x, dtype=t.bool)) if n.used(1) else x


define(
    OpDef(
        "Identity",
        since=1,
        mapping=ONE_TO_ONE,
        torch=lambda t, n, x: x,
        cases=[case([2, 3]), case([]), case(i64([1, 2]))],
    )
)
define(
    OpDef(
        "Dropout",
        since=12,
        mapping=ONE_TO_ONE,
        torch=_dropout,
        cases=[
            case([2, 3]),
            case([2, 3], f32(0.3)),
            case([2, 3], f32(0.3), np.array(False), constants=(2,), outputs=2),
            case([2, 3], outputs=2),
            case([2, 3], f32(0), np.array(True), constants=(1, 2)),
        ],
    )
)
