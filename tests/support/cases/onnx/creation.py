"""Cases of analysis/ops/onnx/creation.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _i64(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


def _f32(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


cases(
    "Shape",
    case([2, 3, 4]),
    case([2, 3, 4], start=1),
    case([2, 3, 4], end=-1),
    case([2, 3, 4], start=-9, end=2),
    case([2, 3, 4], start=1, end=2),
    case([2, 3, 4], start=2, end=1),
    case([]),
)

cases("Size", case([2, 3, 4]), case([0, 3]), case([]))


def _scalars(dtype: Any, *values: float) -> list[Any]:
    return [np.array(value, dtype=dtype) for value in values]


cases(
    "Range",
    case(*_scalars(np.int64, 0, 5, 1), constants=(0, 1, 2)),
    case(*_scalars(np.int64, 2, 5, 1), constants=(0, 1, 2)),
    case(*_scalars(np.int64, 10, 1, -3), constants=(0, 1, 2)),
    case(*_scalars(np.int64, 3, 1, 1), constants=(0, 1, 2)),
    case(*_scalars(np.int32, 1, 7, 2), constants=(0, 1, 2)),
    case(*_scalars(np.int16, 1, 7, 2), constants=(0, 1, 2)),
    case(*_scalars(np.float32, 0, 5, 1), constants=(0, 1, 2)),
    case(*_scalars(np.float32, 0, 1, 0.1), constants=(0, 1, 2)),
    case(*_scalars(np.float32, 0.5, 3, 0.4), constants=(0, 1, 2)),
    case(*_scalars(np.float32, 0, 0.9, 0.3), constants=(0, 1, 2)),
    case(*_scalars(np.float64, 0, 0.9, 0.3), constants=(0, 1, 2)),
    case(*_scalars(np.int64, 2, 9, 3)),
    case(*_scalars(np.int64, 0, 9, 1), constants=(0, 2)),
    case(*_scalars(np.float32, 1, 2, 0.25)),
    case(*_scalars(np.int32, 9, 2, -3)),
    case(*_scalars(np.int64, 9, 2, 3)),
    case(*_scalars(np.int64, 0, -2, 1), constants=(0, 2)),
    case(*_scalars(np.int64, 2, 9, -1), constants=(2,)),
    case(*_scalars(np.float32, 3, 1, 0.5), constants=(0, 2)),
)

cases(
    "ConstantOfShape",
    case(_i64(2, 3), constants=(0,)),
    case(_i64(2, 3), constants=(0,), value=np.ones(1, np.float32)),
    case(_i64(2), constants=(0,), value=np.zeros(1, np.int64)),
    case(_i64(2), constants=(0,), value=np.full(1, -1, np.int64)),
    case(_i64(2), constants=(0,), value=np.full(1, 7, np.int32)),
    case(_i64(2), constants=(0,), value=np.full(1, 0.1, np.float32)),
    case(_i64(2), constants=(0,), value=np.full(1, -np.inf, np.float32)),
    *(
        case(_i64(2), constants=(0,), value=np.full(1, np.finfo(dtype).min))
        for dtype in (np.float16, np.float32, np.float64)
    ),
    case(_i64(2), constants=(0,), value=np.full(1, 2.5, np.float16)),
    case(_i64(2), constants=(0,), value=np.ones(1, bool)),
    case(_i64(2), constants=(0,), value=np.zeros(1, np.uint8)),
    case(_i64(0), constants=(0,)),
    case(_i64(), constants=(0,)),
    case(_i64(2, 3)),
    case(_i64(2, 3), value=np.full(1, 0.1, np.float32)),
)

cases(
    "EyeLike",
    case([3, 3]),
    case([3, 4]),
    case([3, 4], k=1),
    case([3, 4], k=-1, dtype=7),
    case(np.ones((2, 2), np.int32)),
    case(np.ones((2, 2), np.int32), dtype=1),
    case(np.ones((2, 3), np.uint64)),
)

cases(
    "OneHot",
    case(_i64(0, 2, -1, 7, -9), np.array(4), _f32(0, 1), constants=(1, 2)),
    case(_i64(0, 2), np.array([4]), _i64(5, 7), constants=(1,), axis=0),
    case(np.array([[0], [1]]), np.array(3), _f32(-1, 2), axis=1),
    case(_f32(0, 2), np.float32(3), _f32(0, 1)),
    case(np.array(2), np.array(3), _f32(0, 1), constants=(1, 2)),
)
