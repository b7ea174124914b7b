"""Arrays for the cases of operators: every type, edges of broadcasting, no elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .registry import Case, case

FLOATS = ("float16", "float64", "bfloat16")
INTS = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def _of(dtype: str) -> Callable[[Any], npt.NDArray[Any]]:
    return lambda values: np.array(values, dtype)


f16, f32, f64 = map(_of, ("float16", "float32", "float64"))
i8, i32, i64 = map(_of, ("int8", "int32", "int64"))
u8, u32, u64 = map(_of, ("uint8", "uint32", "uint64"))


def spread(low: float, high: float, *dtypes: str) -> list[Case]:
    """Cases over an interval: float32 and `dtypes`, a scalar, and no elements."""
    grid = np.linspace(low, high, 24).reshape(2, 3, 4)
    made = [case(grid.astype(dtype)) for dtype in ("float32", *dtypes)]
    middle = np.float32((low + high) / 2)
    return [*made, case(np.array(middle)), case(np.empty((0, 3), np.float32))]


def pairs(zero: bool = True) -> list[Case]:
    """Cases of two operands: every type, broadcasting, numbers on either side."""
    made = [
        case([2, 3], [2, 3]),
        case([2, 1, 4], [3, 1]),
        case([], [3]),
        case([0, 3], [3]),
        case([2, 3], f32(0.1), constants=(1,)),
        case(f32([[2.5]]), [2, 3], constants=(0,)),
        case([2], f32([[[-3]]]), constants=(1,)),
        case([2, 3], f32([1, 2, 3]), constants=(1,)),
    ]
    left = np.arange(-7, 8)
    right = left[::-1] if zero else np.where(left[::-1] == 0, 3, left[::-1])
    for dtype in (*FLOATS, *INTS, *UNSIGNED):
        if dtype == "uint64" and not zero:  # ONNX Runtime takes Mod through float64
            left, right = abs(left), abs(right)
        made.append(case(left.astype(dtype), right.astype(dtype)))
        made.append(case(left.astype(dtype), np.array(3, dtype), constants=(1,)))
    made.append(case(f16([0.3, 1, 7]), f16(0.1), constants=(1,)))
    return made
