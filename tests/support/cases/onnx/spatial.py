"""Cases of analysis/ops/onnx/spatial.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _i64(*values: Any) -> Any:
    return np.array(values, dtype=np.int64)


def _f32(*values: Any) -> Any:
    return np.array(values, dtype=np.float32)


_IMAGE = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
_PLACES = np.linspace(-1.3, 1.27, 20, dtype=np.float32).reshape(1, 2, 5, 2)
_VOLUME = np.arange(24, dtype=np.float32).reshape(1, 1, 2, 3, 4)
_PLACES_3D = np.linspace(-1.3, 1.27, 36, dtype=np.float32).reshape(1, 2, 3, 2, 3)
cases(
    "GridSample",
    case(_IMAGE, _PLACES),
    case(_IMAGE, _PLACES, align_corners=1),
    case(_IMAGE, _PLACES, mode="nearest"),
    case(_IMAGE, _PLACES, mode="cubic"),
    case(_IMAGE, _PLACES, mode="cubic", padding_mode="border"),
    case(_IMAGE, _PLACES, padding_mode="border"),
    case(_IMAGE, _PLACES, padding_mode="reflection", align_corners=1),
    case(_IMAGE, _PLACES, padding_mode="reflection"),
    case(_VOLUME, _PLACES_3D),
    case(_VOLUME, _PLACES_3D, mode="nearest", padding_mode="border"),
)

cases(
    "AffineGrid",
    case([2, 2, 3], _i64(2, 3, 4, 5), constants=(1,)),
    case([2, 2, 3], _i64(2, 3, 4, 5), constants=(1,), align_corners=1),
    case([2, 3, 4], _i64(2, 3, 4, 5, 6), constants=(1,)),
    case([2, 2, 3], _i64(2, 3, 4, 5)),
    case(np.ones((2, 2, 3), np.float16), _i64(2, 3, 4, 5), constants=(1,)),
)

_FOLD: dict[str, Any] = {"constants": (1, 2)}
cases(
    "Col2Im",
    case([1, 5, 5], _i64(5, 5), _i64(1, 5), **_FOLD),
    case([1, 8, 9], _i64(4, 4), _i64(2, 2), **_FOLD),
    case([1, 9, 4], _i64(5, 5), _i64(3, 3), strides=[2, 2], **_FOLD),
    case([1, 5, 15], _i64(5, 5), _i64(1, 5), pads=[0, 1, 0, 1], **_FOLD),
    case([1, 4, 5], _i64(6, 6), _i64(2, 2), dilations=[1, 5], **_FOLD),
    case([1, 4, 16], _i64(4, 4), _i64(2, 2), pads=[0, 1, 1, 0], **_FOLD),
    case([1, 10, 12], _i64(3, 4, 5), _i64(1, 1, 5), **_FOLD),
    case([2, 6, 4], _i64(6), _i64(3), **_FOLD),
    case([1, 8, 9], _i64(4, 4), _i64(2, 2)),
)

cases(
    "CenterCropPad",
    case([5, 6], _i64(2, 3), constants=(1,)),
    case([2, 3], _i64(5, 4), constants=(1,)),
    case([2, 6], _i64(5, 3), constants=(1,)),
    case([3, 6, 3], _i64(5, 3), constants=(1,), axes=[-3, 1]),
    case([2, 6], _i64(5, 3)),
)

_BOXES = _f32(
    [
        [0, 0, 1, 1],
        [0, 0.1, 1, 1.1],
        [1, 0.9, 0, -0.1],
        [0, 10, 1, 11],
        [0, 10.1, 1, 11.1],
        [0, 100, 1, 101],
    ]
)
_SCORES = _f32([[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.7, 0.7, 0.2, 0.9, 0.3]])
_LIMITS = (_i64(3), _f32(0.5), _f32(0.4))
cases(
    "NonMaxSuppression",
    case(_BOXES, _SCORES, *_LIMITS, constants=(2, 3, 4)),
    case(_BOXES, _SCORES, *_LIMITS[:2], constants=(2, 3)),
    case(_BOXES, _SCORES, _LIMITS[0]),
    case(_BOXES, _SCORES),
    case(_BOXES, _SCORES, *_LIMITS, center_point_box=1),
)

cases("Det", case([3, 3]), case([2, 3, 2, 2]))
