"""ONNX Runtime's own operators that stand alone: crops, distances, transforms."""

from __future__ import annotations

from typing import Any

from ..facts import sizes_elementwise, sizes_windows
from ..helpers import contrib as helpers
from ..node_view import NodeView
from ..operands import converted, number
from ..registry import DOMAIN, MANY_TO_MANY, ONE_TO_MANY, ONE_TO_ONE, operator
from .attributes import check_attributes


@operator(
    "Inverse",
    since=1,
    domain=DOMAIN,
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
)
def _inverse(t: Any, n: NodeView, x: Any) -> Any:
    y = t.linalg.inv(x.float() if n.dtype(0).bitwidth == 16 else x)
    return converted(t, y, n.dtype(0)) if n.dtype(0).bitwidth == 16 else y


@operator("CDist", since=1, domain=DOMAIN, mapping=MANY_TO_MANY)
def _cdist(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    check_attributes(n, strings="metric", needs=(0, 1))
    metric = n.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        n.refuse("CDist with other than euclidean distances is not supported")
    if metric == "euclidean":
        return (a[:, None] - b).square().sum(dim=-1).sqrt()
    return (a[:, None] - b).square().sum(dim=-1)


@operator(
    "CropAndResize",
    since=1,
    domain=DOMAIN,
    mapping=ONE_TO_MANY,
    shape=sizes_windows.crop_and_resize,
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


@operator("NGramRepeatBlock", since=1, domain=DOMAIN, mapping=ONE_TO_ONE)
def _without_repeats(t: Any, n: NodeView, ids: Any, scores: Any) -> Any:
    check_attributes(n, "ngram_size", needs=(0, 1))
    size = n.attr("ngram_size")
    if not isinstance(size, int) or size < 1:
        n.refuse("NGramRepeatBlock needs a positive ngram_size")
    return t.helper(helpers.without_repeats)(ids, scores, size)


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


@operator(
    "Rfft", since=1, domain=DOMAIN, mapping=MANY_TO_MANY, shape=sizes_windows.rfft
)
def _rfft(t: Any, n: NodeView, x: Any) -> Any:
    count = _signal_axes(n)
    made = t.fft.rfft(x) if count == 1 else t.fft.rfftn(x, dim=_axes(count))
    return t.view_as_real(made)


@operator(
    "Irfft", since=1, domain=DOMAIN, mapping=MANY_TO_MANY, shape=sizes_windows.irfft
)
def _irfft(t: Any, n: NodeView, x: Any) -> Any:
    count = _signal_axes(n)
    x = t.view_as_complex(x.contiguous())
    return t.fft.irfft(x) if count == 1 else t.fft.irfftn(x, dim=_axes(count))
