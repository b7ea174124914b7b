"""Cases of analysis/ops/onnx/reshape.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _i64(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


cases(
    "Reshape",
    case([2, 3, 4], _i64(2, 3, 4), constants=(1,)),
    case([2, 3, 4], _i64(0, -1), constants=(1,)),
    case([2, 3, 4], _i64(-1, 4), constants=(1,)),
    case([2, 3, 4], _i64(-1), constants=(1,)),
    case([2, 3, 12], _i64(0, 0, 4, 3), constants=(1,)),
    case([2, 12, 3], _i64(0, 4, 3, -1), constants=(1,)),
    case([2, 12], _i64(2, 3, 2, 2), constants=(1,)),
    case([12], _i64(3, -1), constants=(1,)),
    case([2, 3], _i64(2, 1, 1, 3), constants=(1,)),
    case([2, 3], _i64(2, 3, 1, 1), constants=(1,)),
    case([2, 3], _i64(1, 2, 3), constants=(1,)),
    case([2, 3, 2, 2], _i64(2, 3, 2, 2, 1, 1), constants=(1,)),
    case([2, 3, 1, 1], _i64(2, 3), constants=(1,)),
    case([2, 1, 3, 1], _i64(2, 3), constants=(1,)),
    case([2, 1, 3], _i64(2, 3), constants=(1,)),
    case([1, 1, 3], _i64(3), constants=(1,)),
    case([2, 1, 3], _i64(2, 3, 1), constants=(1,)),
    case([2, 8, 8, 3], _i64(-1, 4, 2, 4, 2, 3), constants=(1,)),
    case([2, 3, 4], _i64(4, -1), constants=(1,)),
    case([1, 1], _i64(), constants=(1,)),
    case([], _i64(1, 1), constants=(1,)),
    case([0, 3], _i64(3, 0, 2), constants=(1,), allowzero=1),
    case([0, 3], _i64(-1, 3, 1), constants=(1,)),
    case([2, 3, 4], _i64(0, -1)),
    case([0, 3], _i64(3, 0), allowzero=1),
    case(np.arange(6, dtype=np.uint16), _i64(2, 3), constants=(1,)),
)

cases(
    "Flatten",
    case([2, 3]),
    case([2, 3, 4]),
    case([2, 3, 4, 5], axis=2),
    case([2, 3, 4], axis=2),
    case([2, 3, 4], axis=3),
    case([2, 3, 4], axis=0),
    case([2, 3, 4], axis=-1),
    case([4], axis=0),
    case([4], axis=1),
    case([], axis=0),
    case([0, 3, 4]),
)

cases(
    "Squeeze",
    case([1, 3, 1, 5]),
    case([1, 3, 4, 5], _i64(0), constants=(1,)),
    case([1, 3, 1, 5], _i64(0, -2), constants=(1,)),
    case([3, 1], _i64(-1), constants=(1,)),
    case([1], _i64(0), constants=(1,)),
    case([2, 3], _i64(), constants=(1,)),
    case([1, 3, 1, 5], _i64(0, -2)),
)

cases(
    "Unsqueeze",
    case([3, 4], _i64(0), constants=(1,)),
    case([3, 4], _i64(1), constants=(1,)),
    case([3, 4], _i64(-1), constants=(1,)),
    case([3, 4], _i64(1, 2), constants=(1,)),
    case([3, 4], _i64(3, 2), constants=(1,)),
    case([3, 4], _i64(0, 1), constants=(1,)),
    case([3, 4, 5], _i64(4, 1), constants=(1,)),
    case([3, 4, 5], _i64(3, 4), constants=(1,)),
    case([], _i64(0), constants=(1,)),
    case([], _i64(0, 1), constants=(1,)),
    case([3, 4, 5], _i64(-1, 0)),
)
