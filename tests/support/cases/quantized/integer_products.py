"""Cases of analysis/ops/quantized/integer_products.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases, f32, i8, i32, u8

_A, _B = u8([[208, 236, 0, 238], [3, 214, 255, 29]]), u8(
    np.arange(12).reshape(4, 3) * 20
)
_QUANTIZED = {
    dtype: (
        f32(0.0066),
        np.array(113 - half, dtype),
        f32(0.00705),
        np.array(114 - half, dtype),
        f32(0.0107),
        np.array(118 - half, dtype),
    )
    for dtype, half in (("uint8", 0), ("int8", 127))
}


def _product(dtype: str, a: Any, b: Any, *more: Any, **options: Any) -> Any:
    a_scale, a_zero, b_scale, b_zero, y_scale, y_zero = _QUANTIZED[dtype]
    return case(
        a.astype(dtype),
        a_scale,
        a_zero,
        b.astype(dtype),
        b_scale,
        b_zero,
        y_scale,
        y_zero,
        *more,
        **options,
    )


cases(
    "QLinearMatMul",
    *[_product(d, _A, _B) for d in _QUANTIZED],
    *[_product(d, np.stack([_A, _A + 1]), _B) for d in _QUANTIZED],
    _product("uint8", _A, _B, constants=(1, 2, 3, 4, 5, 6, 7)),
    _product("uint8", _A[0], _B[:, 0]),
    case(
        *(_A[0], f32([0.0066]), u8([113]), _B[:, 0], f32([0.007]), u8([114])),
        *(f32([0.0107]), u8([118])),
    ),
    *[
        case(
            *(_A, f32(0.0066), np.array(113, np.uint8), i8(_B // 2)),
            *(scale, i8(zero), f32(0.0107), np.array(118, np.uint8)),
            constants=(1, 2, 3, 4, 5, 6, 7),
        )
        for scale, zero in (
            (f32(0.007), 0),
            (f32([0.01, 0.02, 0.03]), [0, 0, 0]),
        )
    ],
)

_IMAGE = u8(np.arange(48).reshape(1, 2, 4, 6) * 5)
_FILTERS = u8(np.arange(24).reshape(3, 2, 2, 2) * 9)
_PADS: dict[str, Any] = {"pads": [1, 0, 1, 1]}
cases(
    "ConvInteger",
    case(_IMAGE, _FILTERS),
    case(_IMAGE, _FILTERS, np.array(7, np.uint8), np.array(3, np.uint8)),
    case(_IMAGE, _FILTERS, np.array(7, np.uint8), constants=(1,), **_PADS),
    case(_IMAGE, _FILTERS, np.array(7, np.uint8), u8([1, 2, 3]), strides=[2, 2]),
    case(_IMAGE[:, :, 0], _FILTERS[:, :, 0], np.array(1, np.uint8)),
)

cases(
    "QLinearConv",
    *[_product(d, _IMAGE, _FILTERS) for d in _QUANTIZED],
    _product("uint8", _IMAGE, _FILTERS, i32([100, -2000, 40]), **_PADS),
    _product("uint8", _IMAGE, _FILTERS, auto_pad="SAME_UPPER"),
    *[
        case(
            _IMAGE,
            f32(0.03),
            np.array(100, np.uint8),
            i8(_FILTERS.astype(np.int8)),
            f32([0.01, 0.02, 0.03]),
            i8([0, 0, 0]),
            f32(0.4),
            np.array(120, np.uint8),
            i32([100, -2000, 40]),
            constants=(1, 2, 3, 4, 5, 6, 7, 8),
            strides=[2, 1],
            **pads,
        )
        for pads in ({}, _PADS, {"auto_pad": "SAME_LOWER"})
    ],
)
