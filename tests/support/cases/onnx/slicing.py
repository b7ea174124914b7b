"""Cases of analysis/ops/onnx/slicing.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import float8_e4m3fn
from support.operator_cases import case, cases


def _i64(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


cases(
    "Slice",
    case([5, 6], _i64(1), _i64(3), constants=(1, 2)),
    case([5, 6], _i64(1, 0), _i64(3, 9), constants=(1, 2)),
    case([5, 6], _i64(1), _i64(3), _i64(1), constants=(1, 2, 3)),
    case([5, 6], _i64(-1), _i64(2**63 - 1), _i64(1), constants=(1, 2, 3)),
    case([5, 6], _i64(0), _i64(-1), _i64(-1), constants=(1, 2, 3)),
    case([5, 6], _i64(0), _i64(9), _i64(1), _i64(2), constants=(1, 2, 3, 4)),
    case([2, 3, 4, 5], _i64(1), _i64(3), _i64(3), constants=(1, 2, 3)),
    case([2, 3, 4, 5], _i64(1, 0), _i64(3, 2), _i64(1, 3), constants=(1, 2, 3)),
    case([2, 3, 4, 5, 6], _i64(1), _i64(3), _i64(3), constants=(1, 2, 3)),
    case([5, 6], _i64(4), _i64(2), _i64(1), constants=(1, 2, 3)),
    *(
        case([5, 6], _i64(4), _i64(end), _i64(1), _i64(-1), constants=known)
        for end in (2**31 - 1, 2**31, 2**62, 2**63 - 1)
        for known in ((1, 2, 3, 4), (3, 4))
    ),
    case([5, 6], _i64(-9), _i64(-3), _i64(1), constants=(1, 2, 3)),
    case(
        [5, 6],
        _i64(-1),
        _i64(-(2**63)),
        _i64(1),
        _i64(-1),
        constants=(1, 2, 3, 4),
    ),
    case([5, 6], _i64(4), _i64(1), _i64(1), _i64(-2), constants=(1, 2, 3, 4)),
    case([5, 6], _i64(9), _i64(-9), _i64(1), _i64(-4), constants=(1, 2, 3, 4)),
    case([5, 6], _i64(1), _i64(3), _i64(1), _i64(-1), constants=(1, 2, 3, 4)),
    case(
        [5, 6],
        _i64(-1, 1),
        _i64(-9, 5),
        _i64(0, 1),
        _i64(-1, 2),
        constants=(1, 2, 3, 4),
    ),
    case([5, 6], _i64(1), _i64(3)),
    case([5, 6], _i64(1), _i64(3), _i64(1), constants=(3,)),
    case([5, 6], _i64(1), _i64(-1), _i64(1), constants=(1, 3)),
    case([5, 6], _i64(1, 5), _i64(9, -9), _i64(0, 1), _i64(2, -3)),
    case([5, 6], _i64(5), _i64(-9), _i64(1), _i64(-2), constants=(3, 4)),
    case([5, 6, 2], _i64(4, 0), _i64(1, 1), _i64(-2, -1), _i64(-2, 1)),
    case([0, 6], _i64(-1), _i64(-9), _i64(0), _i64(-1), constants=(1, 2, 3, 4)),
    case(
        np.arange(5, dtype=np.uint16),
        _i64(-1),
        _i64(-9),
        _i64(0),
        _i64(-1),
        constants=(1, 2, 3, 4),
    ),
)

cases(
    "Pad",
    case([2, 3], _i64(0, 1, 0, 2), constants=(1,)),
    case([1, 2, 3, 3], _i64(0, 0, 1, 1, 0, 0, 1, 1), constants=(1,)),
    case([2, 3], _i64(0, 1, 0, 2), np.float32(1.5), constants=(1, 2)),
    case([2, 3], _i64(1, 0, 0, 0), np.float32(1.5), constants=(1,)),
    case([2, 3], _i64(-1, 1, 0, -2), constants=(1,)),
    case([2, 3], _i64(0, 0, 0, 0), constants=(1,)),
    *(  # more is cut off one end than there is, unless the other end is padded first
        case(*given, constants=constants)
        for size, pads in ((1, (-2, 2)), (3, (5, -5)), (0, (-1, 1)))
        for given in (([size], _i64(*pads)), ([size], _i64(*pads), np.float32(1.5)))
        for constants in ((1,), ())
    ),
    case([0, 3], _i64(0, 1, 0, 1), constants=(1,), mode="edge"),
    case([0], _i64(-1, 1), constants=(1,), mode="reflect"),
    case([0], _i64(-1, 1), mode="edge"),
    case([2, 3], _i64(1, 2), None, _i64(-1), constants=(1, 3)),
    case([2, 3], _i64(1, 2, 0, 1), None, _i64(1, 0), constants=(1, 3)),
    case([2, 3], _i64(0, 1, 0, 2)),
    case([2, 3], _i64(1, 2), np.float32(1.5), _i64(-1)),
    case(
        [2, 3, 4, 5],
        _i64(0, 0, 1, 2, 0, 0, 3, 4),
        constants=(1,),
        mode="reflect",
    ),
    case([2, 3, 4], _i64(0, 1, 2, 0, 2, 0), constants=(1,), mode="reflect"),
    case([3, 4], _i64(1, 2, 2, 3), constants=(1,), mode="reflect"),
    case([2, 3, 4, 5], _i64(0, 0, 1, 2, 0, 0, 3, 4), constants=(1,), mode="edge"),
    case([3, 4], _i64(1, 2, 2, 3), constants=(1,), mode="edge"),
    case([3, 4], _i64(-1, -1, 0, -1), constants=(1,), mode="edge"),
    *(
        case([3, 5], _i64(*pads), constants=(1,), mode=mode)
        for mode in ("edge", "reflect", "wrap")
        for pads in ((0, -1, 0, 2), (0, 2, 0, -2), (1, -3, -1, 1))
    ),
    case([5], _i64(2, -2), mode="wrap"),
    case([2, 3, 4, 5], _i64(0, 0, 1, 2, 0, 0, 3, 4), constants=(1,), mode="wrap"),
    case([3, 4], _i64(1, 2, 2, 3), constants=(1,), mode="wrap"),
    case([3, 4], _i64(1, 2, 2, 3), mode="wrap"),
    case(np.arange(4, dtype=np.uint64), _i64(2, 3), mode="wrap"),
    case(
        np.arange(24).reshape(2, 3, 4).astype(float8_e4m3fn),
        _i64(0, 1, 2, 0, 1, 1),
        constants=(1,),
        mode="reflect",
    ),
    case(
        np.arange(6).reshape(2, 3),
        _i64(0, 1, 0, 2),
        np.array(-7),
        constants=(1, 2),
    ),
    case(
        np.arange(6).reshape(1, 2, 3),
        _i64(0, 0, 1, 0, 0, 2),
        constants=(1,),
        mode="reflect",
    ),
    case(
        np.ones((2, 3), bool),
        _i64(0, 1, 0, 2),
        np.array(True),
        constants=(1, 2),
    ),
)
