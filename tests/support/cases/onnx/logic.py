"""Cases of analysis/ops/onnx/logic.py."""

from __future__ import annotations

import numpy as np
from ml_dtypes import float8_e5m2
from support.operator_cases import (
    FLOATS,
    INTS,
    UNSIGNED,
    case,
    cases,
    f16,
    f32,
    f64,
    i32,
    pairs,
    u8,
    u64,
)

_NAN = f32([1, np.nan, np.inf, 2])
for _name in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
    cases(
        _name,
        *pairs(),
        case(_NAN, f32([1, 1, np.inf, np.nan])),
        case(u64([2**63, 1, 1]), u64([1, 2**63, 1])),
        case(u64([2**63, 1, 1]), u64(1), constants=(1,)),
    )


_BOOLS = (np.array([[True], [False]]), np.array([True, False, True]))
_BITS = [
    case(np.array([[1, 2, 7], [6, 5, 4]], dtype), np.array([3, 0, 6], dtype))
    for dtype in (*INTS, *UNSIGNED)
]
_BITS.append(case(i32([1, 6, -7]), i32(3), constants=(1,)))

for _name in ("And", "Or", "Xor"):
    cases(_name, case(*_BOOLS))
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    cases(_name, *_BITS)


cases("Not", case(_BOOLS[0]))

cases(
    "BitwiseNot", *[case(np.array([0, 1, 100], dtype)) for dtype in (*INTS, *UNSIGNED)]
)

cases(
    "BitShift",
    *[
        case(
            np.array([16, 4, 200, 255, 1], dtype),
            np.array([1, 2, 3, 0, 7], dtype),
            direction=direction,
        )
        for dtype in UNSIGNED
        for direction in ("LEFT", "RIGHT")
    ],
    case(
        u64([2**64 - 1, 2**63, 5]),
        u64([1, 63, 0]),
        direction="RIGHT",
    ),
    case(u8([1, 2]), u8(1), constants=(1,), direction="LEFT"),
)

_SPECIAL = f32([[1, np.nan, np.inf], [-np.inf, 0, -2]])
_SPECIALS = [
    case(_SPECIAL.astype(dtype)) for dtype in ("float32", *FLOATS, float8_e5m2)
]
cases(
    "IsInf",
    *_SPECIALS,
    case(_SPECIAL, detect_negative=0),
    case(_SPECIAL, detect_positive=0),
    case(_SPECIAL, detect_positive=0, detect_negative=0),
)

cases("IsNaN", *_SPECIALS)

_MASK = np.array([[True, False, True], [False, False, True]])
cases(
    "Where",
    case(_MASK, [2, 3], [2, 3]),
    case(_MASK, [3], [4, 1, 1]),
    case(_MASK, [2, 3], f32(-np.inf), constants=(2,)),
    case(_MASK, f32(0.1), [2, 3], constants=(1,)),
    case(_MASK, f32(0.1), [3], constants=(1,)),
    *[
        made
        for dtype in (*FLOATS, "float32", *INTS, *UNSIGNED, "bool")
        for one, two in [(np.array(1, dtype), np.array([2, 0, 3], dtype))]
        for made in (
            case(_MASK, one, two),
            case(_MASK, one, two, constants=(1,)),
            case(_MASK, two, one, constants=(2,)),
            case(_MASK, one, two[1], constants=(1, 2)),
        )
    ],
    case(_MASK, f64(0.1), f64(0.2), constants=(1, 2)),
    case(_MASK, u64(2**63), u64(2), constants=(1, 2)),
    case(_MASK, f16(0.1), f16(0.2), constants=(1, 2)),
)
