"""Cases of analysis/ops/onnx/elementwise.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import (
    FLOATS,
    INTS,
    UNSIGNED,
    Case,
    case,
    cases,
    f16,
    f32,
    f64,
    i32,
    i64,
    pairs,
    spread,
    u32,
    u64,
)

for _name, _low, _high in (
    ("Acos", -1, 1),
    ("Acosh", 1, 9),
    ("Asin", -1, 1),
    ("Asinh", -5, 5),
    ("Atan", -5, 5),
    ("Atanh", -0.9, 0.9),
    ("Ceil", -3, 3),
    ("Cos", -9, 9),
    ("Cosh", -3, 3),
    ("Exp", -5, 5),
    ("Floor", -3, 3),
    ("Log", 0, 5),
    ("Round", -3.5, 8),  # steps of a half: ties go to the even neighbour
    ("Sin", -9, 9),
    ("Sinh", -3, 3),
    ("Sqrt", 0, 9),
    ("Tan", -1.5, 1.5),
):
    cases(_name, *spread(_low, _high, *FLOATS))


cases(
    "Erf",
    *spread(-4, 4, "float16"),  # onnx's own evaluator rounds to float32
    case(np.arange(-2, 3)),
)

cases("Reciprocal", *spread(0.5, 8, *FLOATS))

cases("Neg", *spread(-4, 4, *FLOATS, "int8", "int16", "int32", "int64"))

for _name in ("Abs", "Sign"):
    cases(
        _name,
        *spread(-4, 4, *FLOATS, *INTS),
        *[case(np.array([0, 1, 250], dtype)) for dtype in UNSIGNED],
    )


for _name in ("Add", "Sub", "Mul"):
    cases(_name, *pairs())


cases(
    "Div",
    *pairs(zero=False),
    case(
        u64([2**64 - 1, 2**63, 7, 2**64 - 1]),
        u64([2**63, 3, 2**63, 1]),
    ),
)


def _only_fmod(made: Case) -> bool:
    first = made.inputs[0]
    return not isinstance(first, np.ndarray) or first.dtype.kind == "f"


_MOD_CASES = pairs(zero=False)
cases(
    "Mod",
    *[made for made in _MOD_CASES if not _only_fmod(made)],
    *[Case(made.inputs, {"fmod": 1}, made.constants) for made in _MOD_CASES],
)

_BASES = f32([0.5, 1, 2, 3])
cases(
    "Pow",
    case(_BASES, f32([-1.5, 0, 2, 3])),
    case([2, 3], f32(2), constants=(1,)),
    case([2, 3], f32(3), constants=(1,)),
    case(np.abs(_BASES), f32(0.5), constants=(1,)),
    case(np.abs(_BASES), f32(-0.5), constants=(1,)),
    case(np.abs(_BASES), f32([[0.3], [2]])),
    case(_BASES.astype("float64"), f64([-1.5, 0, 2, 3])),
    case(_BASES.astype("float64"), f32([-1.5, 0, 2, 3])),
    case(_BASES, f64([-1.5, 0, 2, 3])),
    case(_BASES.astype("float16"), f16([-1.5, 0, 2, 3])),
    case(_BASES.astype("float16"), f32([-1.5, 0, 2, 3])),
    case(_BASES, i64([-2, 0, 2, 3])),
    case(_BASES, i64(3), constants=(1,)),
    case(_BASES, u32([1, 0, 2, 3])),
    case(_BASES, u64([1, 0, 2, 2**63])),
    case(i32([2, -3, 4]), u32([0, 3, 2])),
    case(i64([2, -3, 4]), i64([0, 3, 2])),
    case(i64([2, -3, 4]), i32([0, 3, 2])),
    case(i32([2, -3, 4]), i64([0, 3, 2])),
    case(i64([2, -3, 4]), f32([0, 3, 2.5])),
    case(i32([2, -3, 4]), i32(2), constants=(1,)),
    case(i32([2, -1, 4]), i32(-1), constants=(1,)),
    case(i64([2, 3, 4]), f32(0.5), constants=(1,)),
)

for _name in ("Sum", "Mean"):
    cases(
        _name,
        case([2, 3]),
        case([2, 3], [2, 3]),
        case([2, 1], [3], [1, 1, 3]),
        case(f64([1, 2]), f64([3, 4]), f64([5, 7])),
        case(f16([1, 2]), f16([3, 4.5])),
    )


for _name in ("Max", "Min"):
    cases(
        _name,
        *pairs(),
        case([2, 3]),
        case([2, 1], [3], [1, 1, 3]),
        case([2, 3], f32(0), [3], constants=(1,)),
        case(f32([1, np.nan, 2]), f32([0, 1, np.nan])),
        case(f32([1, np.nan]), f32(0), constants=(1,)),
        case(u64([2**63, 1]), u64([1, 2**64 - 1])),
    )
