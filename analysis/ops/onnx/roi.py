"""Pooling over regions of interest, and the inverse of max pooling."""

from __future__ import annotations

from typing import Any

from ..facts import fitting_sizes
from ..facts.requirements import Corners, IndexOf
from ..helpers import roi as helpers
from ..node_view import NodeView
from ..operands import number
from ..operands import size as size_of
from ..registry import OPAQUE, operator
from .windows import windows

# ---- RoiAlign


@operator(
    "RoiAlign",
    since=16,
    requires={1: Corners(), 2: IndexOf(0)},
    mapping=OPAQUE,
    runs_until=21,
)
def _roi_align(t: Any, n: NodeView, x: Any, rois: Any, batch: Any) -> Any:
    size = (n.attr("output_height", 1), n.attr("output_width", 1))
    options = {
        "scale": (number(n, "spatial_scale", 1.0), 1.0),
        "samples": (n.attr("sampling_ratio", 0), 0),
        "half_pixel": (
            n.attr("coordinate_transformation_mode", "half_pixel") == "half_pixel",
            True,
        ),
        "mode": (n.attr("mode", "avg"), "avg"),
    }
    given = {k: v for k, (v, default) in options.items() if v != default}
    return t.helper(helpers.roi_align)(x, rois, batch, size, **given)


# ---- MaxRoiPool


@operator(
    "MaxRoiPool",
    since=1,
    fits=fitting_sizes.of_size({1: (5,)}),
    mapping=OPAQUE,
    runs_until=21,
)
def _max_roi_pool(t: Any, n: NodeView, x: Any, rois: Any) -> Any:
    size = tuple(n.attr("pooled_shape"))
    scale = number(n, "spatial_scale", 1.0)
    helper = t.helper(helpers.max_roi_pool)
    return helper(x, rois, size) if scale == 1 else helper(x, rois, size, scale=scale)


# ---- MaxUnpool


@operator("MaxUnpool", since=11, mapping=OPAQUE, flops=0)
def _max_unpool(t: Any, n: NodeView, x: Any, indices: Any, size: Any = None) -> Any:
    w = windows(n, n.attr("kernel_shape"))
    small = n.dims(0)[2:] if size is None else [n.size(0, 2 + i) for i in range(w.axes)]
    around = zip(small, w.stride, w.kernel, w.begin, w.end, strict=True)
    sizes = tuple(size_of((i - 1) * s + k - b - e) for i, s, k, b, e in around)
    y = t.helper(helpers.max_unpool)(x, indices, sizes)
    known = None if size is None else n.const(2)
    if size is None or (known is not None and tuple(known[2:]) == sizes):
        return y
    if known is not None:
        # ONNX Runtime and ONNX's tests disagree on where the indices point then. Where
        # the shape is known only at run time, it is as in ONNX's tests.
        n.refuse("MaxUnpool to another size than its windows give is not supported")
    return t.helper(helpers.zeros_behind)(y, size.tolist())
