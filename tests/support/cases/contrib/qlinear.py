"""Cases of analysis/ops/contrib/qlinear.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases, f32, i8, i32, u8

from fairhand.analysis.ops.registry import (
    DOMAIN,
)

_HUNDREDTH = np.array(0.0137, np.float32)
_PAIR_U8 = (_HUNDREDTH, np.array(120, np.uint8))
_PAIR_I8 = (_HUNDREDTH, np.array(-3, np.int8))
_SUM_U8 = (f32(0.0311), np.array(99, np.uint8))
_SUM_I8 = (f32(0.0311), np.array(9, np.int8))
_BYTES = u8(np.arange(24).reshape(2, 3, 4) * 11 % 256)
_SIGNED = i8(_BYTES.astype(np.int16) - 128)
_ROW = _BYTES[0, :1]
_PAIRS = [
    case(_BYTES, *_PAIR_U8, _BYTES[::-1], f32(0.02), *_PAIR_U8[1:], *_SUM_U8),
    case(_BYTES, *_PAIR_U8, _ROW, f32(0.02), *_PAIR_U8[1:], *_SUM_U8),
    *[
        case(
            *(_SIGNED, *_PAIR_I8, _SIGNED[::-1], f32(0.02), *_PAIR_I8[1:], *_SUM_I8),
            constants=constants,
        )
        for constants in ((), (1, 2, 4, 5, 6, 7), (1, 2, 3, 4, 5, 6, 7))
    ],
]
for _name in ("QLinearAdd", "QLinearMul"):
    cases(_name, *_PAIRS, domain=DOMAIN)


_LEFT, _RIGHT = _BYTES[0], i8(np.arange(20).reshape(4, 5) * 9 - 90)
_LEFT, _RIGHT = _BYTES[0], i8(np.arange(20).reshape(4, 5) * 9 - 90)
_RIGHT_SCALE, _NO_ZERO = f32(0.0213), np.array(0, np.int8)
_FACTORS = (_LEFT, *_PAIR_U8, _RIGHT, _RIGHT_SCALE, _NO_ZERO)
_TURNED = (_LEFT, *_PAIR_U8, i8(_RIGHT.T), f32([0.02] * 5), i8([0] * 5))
_UP = (_LEFT.T.copy(), *_PAIR_U8, _RIGHT, _RIGHT_SCALE, np.array(5, np.int8))
_SUMS = i32([100, -2000, 40, 0, 7])
cases(
    "QGemm",
    case(*_FACTORS, _SUMS, *_SUM_U8),
    case(*_FACTORS),
    case(*_FACTORS, _SUMS, alpha=0.5),
    case(*_UP, None, *_SUM_U8, transA=1),
    case(*_FACTORS, _SUMS, *_SUM_U8, constants=range(1, 9)),
    case(*_TURNED, _SUMS, *_SUM_U8, constants=range(1, 9), transB=1),
    domain=DOMAIN,
)
