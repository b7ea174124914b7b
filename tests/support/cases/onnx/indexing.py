"""Cases of analysis/ops/onnx/indexing.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _i64(*values: Any) -> Any:
    return np.array(values, dtype=np.int64)


_TABLE = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
cases(
    "Gather",
    case([4, 5], np.array(0), constants=(1,)),
    case([4, 5], np.array(-1), constants=(1,), axis=1),
    case([4, 5, 6], np.array(2), constants=(1,), axis=-1),
    case([2, 3, 4, 5], np.array(2), constants=(1,), axis=3),
    case([4, 5], _i64(1), constants=(1,), axis=1),
    case([4, 5], _i64(-1), constants=(1,), axis=1),
    case([4, 5], _i64(1, 2, 3), constants=(1,), axis=1),
    case([4, 5], _i64(2, 3, 4), constants=(1,), axis=1),
    case([4, 5], _i64(-3, -2), constants=(1,), axis=1),
    case([4, 5], _i64(0, 1, 2, 3), constants=(1,)),
    case([4, 5], _i64(-1, 0), constants=(1,), axis=1),
    case([4, 5], _i64(2, 0, 2), constants=(1,), axis=1),
    case([4, 5], _i64([2, 0], [1, -1]), constants=(1,), axis=1),
    case([4, 5, 2, 3, 2], _i64([2, 0], [1, -1]), constants=(1,), axis=3),
    case([4, 5], np.zeros(0, np.int64), constants=(1,), axis=1),
    case([4, 5], _i64([0, 1, 2, 3, 4]), constants=(1,), axis=1),
    case([4, 5], _i64([[1], [2]]), constants=(1,), axis=1),
    case([6], np.arange(6).reshape(1, 2, 3), constants=(1,)),
    case([4, 7], _i64([0, 1, 2], [2, 3, 4], [4, 5, 6]), constants=(1,), axis=1),
    case([8, 4], _i64([1, 2], [3, 4]), constants=(1,)),
    case([2, 9, 4], _i64([0, 1, 2], [2, 3, 4]), constants=(1,), axis=-2),
    case([4, 5], _i64([0, 1], [1, 3]), constants=(1,), axis=1),
    case([4, 5], _i64(2, -1, 2), axis=1),
    case([4, 5], np.array([[2, -1]], np.int32)),
    case([4, 5], np.array(-2), axis=1),
    case(_TABLE, _i64([2, 1], [0, 4]), constants=(0,)),
    case(_TABLE, np.array([2, 1], np.int32), constants=(0,)),
    case(np.arange(5, dtype=np.uint32), _i64(2, 1)),
)

_GRID = np.stack([np.zeros((1, 1, 4)), np.arange(4).reshape(1, 1, 4)], -1).astype(int)
_CORNERS = np.argwhere(np.ones((2, 2))).reshape(2, 1, 2, 2)
cases(
    "GatherElements",
    case([3, 3], _i64([1, 2, 0], [2, 0, 0]), axis=0, constants=(1,)),
    case([3, 3], _i64([1, -2, 0], [2, 0, -1]), axis=1),
    case([3, 3], np.array([[1, 2], [0, 1]], np.int32), axis=-1, constants=(1,)),
    case([2, 3, 4], np.zeros((2, 1, 4), np.int64), axis=1),
    case(np.arange(4, dtype=np.uint16), _i64(3, -1)),
)

cases(
    "GatherND",
    case([3, 4], _i64([0, 1], [2, -1])),
    case([3, 4], _i64([0], [-1])),
    case([3, 4, 2], _i64([[0, 1]], [[2, 3]])),
    case([3, 4], _i64(2, 1)),
    case([1, 4], _GRID, constants=(1,)),
    case([2, 2, 3], _CORNERS, constants=(1,)),
    case([2, 3, 4], _i64([1], [0]), batch_dims=1),
    case(
        [2, 3, 4, 2],
        _i64([[[1]], [[0]], [[3]]], [[[1]], [[0]], [[-1]]]),
        batch_dims=2,
    ),
)

cases(
    "NonZero",
    case(np.array([[1, 0], [2, 3]])),
    case(np.array([True, False])),
    case(np.array([0, 1], np.uint16)),
    case(np.zeros((2, 0), np.float32)),
)

cases(
    "Compress",
    case([3, 4], np.array([False, True, True]), axis=0),
    case([3, 4], np.array([False, True]), axis=1),
    case([3, 4], np.array([False, True, False, True]), axis=-1),
    case([3, 4], np.array([False, True, False, True])),
    case([3, 4], np.array([False, True, True, True, False]), axis=0),
    case([2], np.array([True, True, True])),
    case([3, 4], np.array([[False], [True], [True]]), axis=0),
)

cases(
    "TopK",
    case([3, 7], _i64(3), constants=(1,), outputs=2),
    case([3, 7], _i64(3), constants=(1,), outputs=2, largest=0),
    case([3, 7], _i64(2), constants=(1,), outputs=2, axis=0),
    case([3, 7, 2], _i64(2), constants=(1,), outputs=2, axis=1),
    case([3, 7], _i64(3), outputs=2),
    case(_i64(3, 1, 3, 2, 3, 1), _i64(4), constants=(1,), outputs=2),
    case(_i64(3, 1, 3, 2, 3, 1), _i64(4), constants=(1,), outputs=2, largest=0),
    case(np.array([3, 1, 2], np.uint8), _i64(2), constants=(1,), outputs=2),
)

cases(
    "Unique",
    case(_i64(3, 1, 3, 2, 3, 1), outputs=4),
    case(_i64(3, 1, 3, 2, 3, 1), outputs=4, sorted=0),
    case(_i64([3, 1, 3], [2, 3, 1]), outputs=4),
    case(_i64([3, 1], [2, 3], [3, 1]), outputs=4, axis=0),
    case(_i64([3, 1, 3], [2, 3, 2]), outputs=4, axis=-1, sorted=0),
    case(_i64(3, 1, 3), outputs=2),
    case(np.array([3, 1, 3], np.float32), outputs=1),
    case(np.zeros([0, 3], np.float32), outputs=4, axis=1),
    case(np.zeros([0, 3], np.float32), outputs=4, axis=0, sorted=0),
    case(np.array([3, 1, 3], np.uint16), outputs=3, axis=0, sorted=0),
)
