"""ONNX Runtime's own operators that stand alone: crops, distances, transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case_arrays import f32, i32, i64
from ..facts import sizes_windows
from ..helpers import contrib as helpers
from ..node_view import NodeView
from ..operands import converted, number
from ..registry import (
    DOMAIN,
    MANY_TO_MANY,
    ONE_TO_MANY,
    ONE_TO_ONE,
    OpDef,
    case,
    define,
)
from .attributes import check_attributes


def _inverse(t: Any, n: NodeView, x: Any) -> Any:
    y = t.linalg.inv(x.float() if n.dtype(0).bitwidth == 16 else x)
    return converted(t, y, n.dtype(0)) if n.dtype(0).bitwidth == 16 else y


define(
    OpDef(
        "Inverse",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_inverse,
        cases=[
            case(f32([[2, 1], [1, 3]])),
            case(np.array([[[2, 1], [1, 3]], [[0, 1], [2, 0]]], np.float64)),
        ],
    )
)


def _cdist(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    check_attributes(n, strings="metric", needs=(0, 1))
    metric = n.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        n.refuse("CDist with other than euclidean distances is not supported")
    if metric == "euclidean":
        return (a[:, None] - b).square().sum(dim=-1).sqrt()
    return (a[:, None] - b).square().sum(dim=-1)


define(
    OpDef(
        "CDist",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        torch=_cdist,
        cases=[
            case([3, 4], [5, 4]),
            case([3, 4], [5, 4], metric="euclidean"),
            case(np.eye(3), np.ones((2, 3)), metric="euclidean"),
        ],
    )
)


def _crop_and_resize(
    t: Any, n: NodeView, x: Any, boxes: Any, samples: Any, size: Any
) -> Any:
    check_attributes(n, floats="extrapolation_value", strings="mode", needs=range(4))
    mode = n.attr("mode", "bilinear").lower()
    if mode not in ("bilinear", "nearest"):
        n.refuse("CropAndResize of an unknown mode is not supported")
    sizes = n.known_ints(3, "its size")
    if len(sizes) != 2 or min(sizes) < 1:
        n.refuse("CropAndResize needs a height and a width")
    options: dict[str, Any] = {"nearest": True} if mode == "nearest" else {}
    if outside := number(n, "extrapolation_value", 0.0):
        options["outside"] = outside
    helper = t.helper(helpers.crop_and_resize)
    return helper(x, boxes, samples, tuple(sizes), **options)


_BOXES = f32(
    [[0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9], [-0.2, 0.3, 0.5, 1.4], [0.9, 1, 0, 0]]
)
_WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "nearest", "extrapolation_value": 2.5},
)
_FROM = i32([0, 1, 1, 0])

define(
    OpDef(
        "CropAndResize",
        since=1,
        domain=DOMAIN,
        mapping=ONE_TO_MANY,
        shape=sizes_windows.crop_and_resize,
        torch=_crop_and_resize,
        cases=[
            case([2, 3, 5, 6], _BOXES, _FROM, i32(size), constants=(3,), **attrs)
            for size in ([3, 4], [1, 2], [7, 1])
            for attrs in _WAYS
        ],
    )
)


def _without_repeats(t: Any, n: NodeView, ids: Any, scores: Any) -> Any:
    check_attributes(n, "ngram_size", needs=(0, 1))
    size = n.attr("ngram_size")
    if not isinstance(size, int) or size < 1:
        n.refuse("NGramRepeatBlock needs a positive ngram_size")
    return t.helper(helpers.without_repeats)(ids, scores, size)


_IDS = i64([[1, 2, 3, 1, 2], [4, 4, 4, 4, 4]])

define(
    OpDef(
        "NGramRepeatBlock",
        since=1,
        domain=DOMAIN,
        mapping=ONE_TO_ONE,
        torch=_without_repeats,
        cases=[case(_IDS, [2, 6], ngram_size=size) for size in (2, 3, 5, 6, 7)],
    )
)


# ---- Rfft and Irfft: ONNX Runtime has no kernel for a CPU, so tests hold the formula


def _signal_axes(n: NodeView) -> int:
    check_attributes(n, "normalized onesided signal_ndim")
    if not n.attr("onesided", 1) or n.attr("normalized", 0):
        n.refuse(f"{n.node.op_type} of both sides, or normalised, is not supported")
    count = int(n.attr("signal_ndim", 1))
    if not 1 <= count <= n.rank(0):
        n.refuse(f"{n.node.op_type} over more axes than there are")
    return count


def _axes(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


def _rfft(t: Any, n: NodeView, x: Any) -> Any:
    count = _signal_axes(n)
    made = t.fft.rfft(x) if count == 1 else t.fft.rfftn(x, dim=_axes(count))
    return t.view_as_real(made)


def _irfft(t: Any, n: NodeView, x: Any) -> Any:
    count = _signal_axes(n)
    x = t.view_as_complex(x.contiguous())
    return t.fft.irfft(x) if count == 1 else t.fft.irfftn(x, dim=_axes(count))


define(
    OpDef(
        "Rfft",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        shape=sizes_windows.rfft,
        torch=_rfft,
        cases=[case([2, 3, 8]), case([2, 4, 6], signal_ndim=2), case([1, 2])],
    )
)
define(
    OpDef(
        "Irfft",
        since=1,
        domain=DOMAIN,
        mapping=MANY_TO_MANY,
        shape=sizes_windows.irfft,
        torch=_irfft,
        cases=[case([2, 5, 2], signal_ndim=1), case([2, 4, 3, 2], signal_ndim=2)],
    )
)
