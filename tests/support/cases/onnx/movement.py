"""Cases of analysis/ops/onnx/movement.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _i64(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


cases(
    "Transpose",
    case([2, 3]),
    case([2, 3, 4]),
    case([2, 3, 4], perm=[0, 2, 1]),
    case([2, 3, 4], perm=[0, 1, 2]),
    case([2, 3, 4, 5], perm=[0, 2, 3, 1]),
    case([2, 3, 4, 5], perm=[0, 1, 3, 2]),
    case([4, 1, 1, 3], perm=[0, 2, 1, 3]),
    case([4, 1, 3], perm=[1, 0, 2]),
    case([4]),
    case([]),
)

cases(
    "Expand",
    case([3, 1], _i64(3, 4), constants=(1,)),
    case([3, 1], _i64(2, 1, 6), constants=(1,)),
    case([3, 1], _i64(1, 1, 1, 6), constants=(1,)),
    case([2, 3, 4], _i64(4), constants=(1,)),
    case([2, 3, 4], _i64(1, 3, 1), constants=(1,)),
    case([1], _i64(0, 5), constants=(1,)),
    case([], _i64(2, 3), constants=(1,)),
    case([2], _i64(), constants=(1,)),
    case([3, 1], _i64(2, 1, 6)),
    case(np.array([[True], [False]]), _i64(2, 3), constants=(1,)),
)

cases(
    "Tile",
    case([2, 3], _i64(2, 1), constants=(1,)),
    case([2, 3], _i64(1, 1), constants=(1,)),
    case([2, 3], _i64(0, 2), constants=(1,)),
    case([], _i64(), constants=(1,)),
    case([2, 3], _i64(2, 2)),
)

cases(
    "Concat",
    case([2, 3], [2, 3], axis=0),
    case([2, 3], [2, 1], [2, 2], axis=1),
    case([2, 3, 4], [2, 3, 1], axis=-1),
    case([2, 3, 4], [2, 5, 4], axis=1),
    case([2, 3], axis=0),
    case([0, 3], [2, 3], axis=0),
    case(np.array([1, 2], np.uint32), np.array([3], np.uint32), axis=0),
)

cases(
    "Split",
    case([6], outputs=3, num_outputs=3),
    case([2, 6], outputs=3, axis=1, num_outputs=3),
    case([2, 3, 6], outputs=2, axis=-1, num_outputs=2),
    case([7], outputs=3, num_outputs=3),
    case([2, 6], _i64(2, 4), constants=(1,), outputs=2, axis=1),
    case([2, 6], _i64(3, 3), constants=(1,), outputs=2, axis=1),
    case([2, 7], _i64(3, 3, 1), constants=(1,), outputs=3, axis=1),
    case([6], _i64(0, 6, 0), constants=(1,), outputs=3),
    case([0], _i64(0, 0, 0), constants=(1,), outputs=3),
    case([2, 6], _i64(2, 4), outputs=2, axis=1),
    case([2, 6], outputs=1, axis=1, num_outputs=1),
)

_PIXELS = [1, 8, 2, 3]
cases(
    "DepthToSpace",
    case(_PIXELS, blocksize=2),
    case(_PIXELS, blocksize=2, mode="CRD"),
    case([2, 4, 2, 3], blocksize=2),
    case([1, 4, 0, 3], blocksize=2, mode="CRD"),
    case([2, 9, 2, 1], blocksize=3),
    case([0, 8, 2, 1], blocksize=2),
)

cases(
    "SpaceToDepth",
    case([1, 3, 4, 6], blocksize=2),
    case([2, 1, 4, 6], blocksize=2),
    case([0, 2, 3, 3], blocksize=3),
)

cases(
    "ReverseSequence",
    case([4, 3], _i64(4, 1, 2)),
    case([3, 4, 2], _i64(4, 1, 2), batch_axis=0, time_axis=1),
    case([4, 3, 2], _i64(4, 1, 2), batch_axis=1, time_axis=0),
)

cases(
    "Trilu",
    case([3, 4]),
    case([3, 4], upper=0),
    case([2, 3, 4], np.array(1), constants=(1,)),
    case([3, 4], np.array(-1), constants=(1,), upper=0),
    case([3, 4], np.array(2), upper=0),
    case([0, 4]),
    case(np.ones((3, 3), bool), upper=0),
    case(np.ones((3, 3), np.int64)),
)
