"""Cases of analysis/ops/onnx/resize.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _f32(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def _i64(*values: int) -> Any:
    return np.array(values, dtype=np.int64)


_MODE = "coordinate_transformation_mode"
_UNET: dict[str, Any] = {_MODE: "asymmetric", "nearest_mode": "floor"}
_UP: dict[str, Any] = {"nearest_mode": "round_prefer_ceil"}
_CEIL: dict[str, Any] = {_MODE: "align_corners", "nearest_mode": "ceil"}
_LINEAR: dict[str, Any] = {"mode": "linear", _MODE: "pytorch_half_pixel"}
_CORNERS: dict[str, Any] = {"mode": "linear", _MODE: "align_corners"}
_OLD: dict[str, Any] = {"mode": "linear", _MODE: "asymmetric"}
_TORCH: dict[str, Any] = {"mode": "linear", _MODE: "pytorch_half_pixel"}
_SYMMETRIC: dict[str, Any] = {"mode": "linear", _MODE: "half_pixel_symmetric"}
_KEYS: dict[str, Any] = {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}
_PIL: dict[str, Any] = {
    "mode": "cubic",
    "cubic_coeff_a": -0.5,
    "exclude_outside": 1,
    "antialias": 1,
}
_SMOOTH: dict[str, Any] = {"mode": "linear", "antialias": 1}
_FIT: dict[str, Any] = {"keep_aspect_ratio_policy": "not_larger", "axes": [2, 3]}
_LARGER = {"keep_aspect_ratio_policy": "not_smaller"}
_CROP: dict[str, Any] = {"mode": "linear", _MODE: "tf_crop_and_resize", "axes": [2, 3]}
_REGION = (0.2, 0.1, 0.9, 1.3)
_EDGES = [  # which are inside, and which aren't, tell last bits
    case(
        np.arange(1, n * n + 1, dtype=np.float32).reshape(1, 1, n, n),
        _f32(begin, begin, 1, 1),
        None,
        _i64(size, size),
        constants=(1, 3),
        **_CROP,
    )
    for n, begin, size in ((8, 0.2, 4), (8, 0.1, 4), (9, 0.3, 5), (6, 0.7, 8))
]
_BYTES = np.arange(12, dtype=np.uint8).reshape(1, 1, 3, 4)
_DRAWN = np.random.default_rng(0).integers(-99, 99, (1, 2, 7, 8))
_INTEGERS = [
    case(array, None, _f32(*scales), constants=(2,), mode="linear", **{_MODE: mode})
    for mode in ("half_pixel", "asymmetric", "half_pixel_symmetric")
    for array, *scales in (
        (_DRAWN.astype(np.int32), 1, 1, 3, 3),
        (_DRAWN.astype(np.int32), 1, 1, 1.7, 0.6),
        (_DRAWN.astype(np.int8), 1, 1, 1, 3),
        (_DRAWN.astype(np.int8)[0], 1, 3, 2.5),
        (_DRAWN.astype(np.uint8), 1, 1.7, 3, 1),
        (_DRAWN.astype(np.uint8)[None], 1, 1, 2, 3, 0.6),
    )
]
cases(
    "Resize",
    *_INTEGERS,
    *_EDGES,
    case([1, 1, 5, 5], None, _f32(1, 1, 1.4, 1.4), constants=(2,)),
    case([1, 2, 3, 3], None, _f32(1, 1, 1.25, 1), constants=(2,), mode="linear"),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 2), constants=(2,)),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 2), constants=(2,), **_UNET),
    case([1, 2, 4, 5], None, _f32(2, 3), constants=(2,), axes=[2, 3]),
    case([1, 2, 6, 8], None, _f32(1, 1, 0.5, 0.5), constants=(2,)),
    case([1, 2, 6, 8], None, _f32(1, 1, 0.5, 0.5), constants=(2,), **_UP),
    case([2, 3, 5], None, _f32(1, 1, 2), constants=(2,)),
    case([1, 1, 2, 3, 2], None, _f32(1, 1, 2, 2, 2), constants=(2,)),
    case([1, 2, 7, 9], None, None, _i64(1, 2, 3, 5), constants=(3,)),
    case([1, 2, 7, 9], None, None, _i64(1, 2, 3, 5), constants=(3,), **_CEIL),
    case([1, 2, 4, 5], None, _f32(1, 1, 1, 1), constants=(2,)),
    case([2, 4, 4, 3], None, _f32(1, 2, 2, 1), constants=(2,)),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 2), constants=(2,), **_LINEAR),
    case([1, 2, 5, 7], None, None, _i64(1, 2, 8, 3), constants=(3,), **_LINEAR),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 2), constants=(2,), **_CORNERS),
    case([1, 2, 4, 5], None, None, _i64(1, 2, 9, 1), constants=(3,), **_CORNERS),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 2), constants=(2,), **_OLD),
    case([2, 3, 5], None, _f32(1, 1, 2), constants=(2,), mode="linear"),
    case([1, 1, 3, 4, 2], None, _f32(1, 1, 2, 2, 2), constants=(2,), **_LINEAR),
    case([4, 5], None, None, _i64(3, 7), constants=(3,), mode="linear"),
    case([1, 2, 7, 9], None, None, _i64(1, 2, 3, 1), constants=(3,), **_TORCH),
    case([1, 1, 7, 9], None, _f32(1, 1, 0.6, 0.6), constants=(2,), **_SYMMETRIC),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 2), constants=(2,), mode="cubic"),
    case([1, 2, 7, 9], None, None, _i64(1, 2, 3, 5), constants=(3,), **_KEYS),
    case([1, 2, 7, 9], None, None, _i64(1, 2, 3, 5), constants=(3,), **_PIL),
    case([1, 2, 7, 9], None, None, _i64(1, 2, 3, 5), constants=(3,), **_SMOOTH),
    case([1, 2, 7, 9], None, None, _i64(3, 5), constants=(3,), **_FIT),
    case([1, 2, 7, 9], None, None, _i64(3, 5), **_FIT),
    case([1, 2, 7, 9], None, None, _i64(10, 30), **_FIT | _LARGER),
    case([1, 2, 7, 9], None, None, _i64(10, 30), mode="linear", **_FIT),
    case(
        [1, 2, 7, 9],
        _f32(*_REGION),
        None,
        _i64(3, 5),
        constants=(1, 3),
        **_CROP,
    ),
    case([1, 2, 7, 9], _f32(*_REGION), None, _i64(3, 5), **_CROP),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 3)),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 3), mode="linear"),
    case([1, 2, 4, 5], None, _f32(1, 1, 2, 3), **_CORNERS),
    case([1, 2, 7, 9], None, None, _i64(1, 2, 3, 5), mode="cubic"),
    case(_BYTES, None, _f32(1, 1, 2, 2), constants=(2,)),
    case(_BYTES.astype(np.int32), None, _f32(1, 1, 2, 2), constants=(2,)),
    case(
        _BYTES.astype(np.float16),
        None,
        _f32(1, 1, 2, 2),
        constants=(2,),
        **_OLD,
    ),
)
