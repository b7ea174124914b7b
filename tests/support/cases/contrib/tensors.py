"""Cases of analysis/ops/contrib/tensors.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases, f32, i32, i64

from fairhand.analysis.ops.registry import (
    DOMAIN,
)

cases(
    "Inverse",
    case(f32([[2, 1], [1, 3]])),
    case(np.array([[[2, 1], [1, 3]], [[0, 1], [2, 0]]], np.float64)),
    domain=DOMAIN,
)

cases(
    "CDist",
    case([3, 4], [5, 4]),
    case([3, 4], [5, 4], metric="euclidean"),
    case(np.eye(3), np.ones((2, 3)), metric="euclidean"),
    domain=DOMAIN,
)

_BOXES = f32(
    [[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.3, 0.5, 1.4], [0.9, 1, 0, 0]]
)
_WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "nearest", "extrapolation_value": 2.5},
)
_FROM = i32([0, 1, 1, 0])
cases(
    "CropAndResize",
    *[
        case([2, 3, 5, 6], _BOXES, _FROM, i32(size), constants=(3,), **attrs)
        for size in ([3, 4], [1, 2], [7, 1])
        for attrs in _WAYS
    ],
    domain=DOMAIN,
)

_IDS = i64([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]])
cases(
    "NGramRepeatBlock",
    *[case(_IDS, [2, 6], ngram_size=size) for size in (2, 3, 5, 6, 7)],
    domain=DOMAIN,
)

cases(
    "Rfft",
    case([2, 3, 8]),
    case([2, 4, 6], signal_ndim=2),
    case([1, 2]),
    domain=DOMAIN,
)

cases(
    "Irfft",
    case([2, 5, 2], signal_ndim=1),
    case([2, 4, 3, 2], signal_ndim=2),
    domain=DOMAIN,
)
