"""Cases of analysis/ops/onnx/scatter.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _i64(*values: Any) -> Any:
    return np.array(values, dtype=np.int64)


_INDEX = _i64([1, 0, 2], [0, -1, 1])
_ROWS = _i64([3], [1], [3])
_GRID = np.moveaxis(np.indices((2, 3)), 0, -1)  # the places of all of [2, 3]
_COLUMN = _i64([[0, 1]], [[1, 1]])
_CELLS = _i64([3, 1], [1, -1], [3, 1])
cases(
    "ScatterElements",
    case([3, 3], _INDEX, [2, 3], axis=0),
    case([3, 3], _i64([1, 0], [2, 0]), [2, 2], axis=1, constants=(1,)),
    case(
        [3, 3, 2],
        np.zeros((1, 2, 2), np.int32),
        [1, 2, 2],
        axis=-1,
        reduction="max",
    ),
    case([3, 3], _i64([1, 1]), [1, 2], axis=1, constants=(1,), reduction="add"),
    case([3, 3], _i64([1, 1]), [1, 2], axis=1, constants=(1,), reduction="mul"),
    case([3, 3], _i64([1, 1]), [1, 2], axis=1, constants=(1,), reduction="min"),
    case(np.zeros(4, np.uint16), _i64(3, 1), np.array([7, 8], np.uint16), axis=0),
    case(np.zeros(4, bool), _i64(3, 1), np.array([True, True]), axis=0),
    case(np.arange(4), _i64(3, 3), _i64(5, 6), axis=0, reduction="mul"),
)

cases(
    "ScatterND",
    case([4, 3], _i64([3], [-3]), [2, 3]),
    case([4, 3], _i64([2], [3]), [2, 3], constants=(1,)),
    case([4, 3], _i64([3], [2]), [2, 3], constants=(1,)),
    case([2, 3, 2], _COLUMN, [2, 1, 2], constants=(1,)),
    case([4, 3, 2], _COLUMN, [2, 1, 2], constants=(1,)),
    case([2, 3, 2], _GRID, [2, 3, 2], constants=(1,)),
    case([2, 3, 2], _GRID[:, 1:], [2, 2, 2], constants=(1,)),
    case([4, 5], 1 + _GRID, [2, 3], constants=(1,)),
    case(
        np.zeros((2, 3), np.uint16), _GRID, np.ones((2, 3), np.uint16), constants=(1,)
    ),
    case([4, 3], _i64([3, 1], [1, -1]), [2]),
    case([4, 3, 2], _i64([[3, 1]], [[1, -1]]), [2, 1, 2]),
    case([4, 3], _ROWS, [3, 3], reduction="add"),
    case([4, 3], _ROWS, [3, 3], reduction="mul"),
    case([4, 3, 2], _CELLS, [3, 2], reduction="min"),
    case([4, 3], _CELLS, [3], reduction="max"),
    case(np.zeros((4, 2), np.uint32), _i64([3]), np.ones((1, 2), np.uint32)),
    case(np.arange(4), _i64([3], [3]), _i64(5, 6), reduction="mul"),
)

cases(
    "TensorScatter",
    case([2, 5, 3], [2, 2, 3], _i64(0, 3)),
    case([2, 4, 5, 3], [2, 4, 2, 3], _i64(3, 4), mode="circular"),
    case([2, 5, 4, 3], [2, 2, 4, 3], _i64(1, 0), axis=1),
    case([2, 5, 3], [2, 2, 3], None),
)
