"""Pooling over windows and over everything."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import onnx_ir as ir

from ..facts import cuts, fitting_sizes, flop_counts, sizes_windows, tiles
from ..helpers import pool as helpers
from ..node_view import NodeView
from ..operands import present, wanted
from ..registry import MANY_TO_MANY, operator
from .windows import Windows, padded, short, windows

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def _windows(n: NodeView) -> Windows:
    kernel = n.attr("kernel_shape") or []
    if not 1 <= len(kernel) <= 3:
        n.refuse(f"{n.node.op_type} over {len(kernel)} spatial axes is not supported")
    w = windows(n, kernel)
    if w.dilated() and n.attr("auto_pad", "NOTSET").startswith("SAME"):
        n.refuse(f"{n.node.op_type} with auto_pad SAME and dilations is not supported")
    if any(p >= r for p, r in zip(w.begin + w.end, w.reach * 2, strict=True)):
        n.refuse(f"{n.node.op_type} with padding as wide as the window")
    sizes = zip(n.dims(0)[2:], w.begin, w.end, w.reach, strict=True)
    if any(
        isinstance(size, int) and size + a + b < reach for size, a, b, reach in sizes
    ):
        n.refuse(f"{n.node.op_type} with a window larger than its padded input")
    return w


def _fits_torch(w: Windows) -> bool:
    """Whether PyTorch's own padding does: equal ends, at most half of the window."""
    halves = zip(w.begin, w.kernel, strict=True)
    return w.symmetric and all(2 * p <= k for p, k in halves)


def _rounded_down(n: NodeView, w: Windows) -> Windows:
    """Windows of the same number without ceil_mode: the end padding makes room."""
    if not w.ceil:
        return w
    end = []
    for i in range(w.axes):
        size, reach, stride = n.size(0, 2 + i), w.reach[i], w.stride[i]
        total = size + w.begin[i] + w.end[i]
        # A window that would start in the end padding is left out.
        fitting = -(-(total - reach) // stride) + 1
        count = min(fitting, -(-(size + w.begin[i]) // stride))
        end.append((count - 1) * stride + reach - size - w.begin[i])
    return replace(w, end=tuple(end), ceil=False)


def _arguments(w: Windows, padding: bool = True) -> tuple[Any, dict[str, Any]]:
    """The window and the keywords of F.max_pool2d and its kin; defaults left out."""
    options: dict[str, Any] = {}
    if w.stride != w.kernel:
        options["stride"] = short(w.stride)
    if padding and any(w.begin):
        options["padding"] = short(w.begin)
    if w.dilated():
        options["dilation"] = short(w.dilation)
    if w.ceil:
        options["ceil_mode"] = True
    return short(w.kernel), options


_POOLS: dict[str, Any] = dict(
    cut=cuts.along(0, 1),
    fits=fitting_sizes.window(),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.pool,
    tile=tiles.pool,
)

# ---- MaxPool


def _max_pool_with_indices(t: Any, n: NodeView, w: Windows, x: Any) -> Any:
    if not n.is_float(0) or w.same:
        n.refuse("MaxPool with indices on such an input is not supported")
    options: dict[str, Any] = {}
    if any((*w.begin, *w.end)):
        options["padding"] = (*w.begin, *w.end)
    if w.dilated():
        options["dilation"] = w.dilation
    if n.attr("storage_order", 0):
        options["column_major"] = True
    made = t.helper(helpers.max_pool_with_indices)
    return wanted(n, made(x, w.kernel, w.stride, **options), 2)


@operator(
    "MaxPool",
    since=12,
    **_POOLS,
    flops=flop_counts.pool(1),
)
def _max_pool(t: Any, n: NodeView, x: Any) -> Any:
    w = _windows(n)
    if n.used(1):
        return _max_pool_with_indices(t, n, _rounded_down(n, w), x)
    # PyTorch has no such kernels for small integers on all devices.
    small = not n.is_float(0)
    x = x.float() if small else x
    fits = _fits_torch(w)
    if not fits:
        w = _rounded_down(n, w)
        x = padded(t, w, x, fill=float("-inf"))
    kernel, options = _arguments(w, padding=fits)
    y = getattr(t.F, f"max_pool{w.axes}d")(x, kernel, **options)
    return y.to(t.dtype(n.dtype(0))) if small else y


# ---- AveragePool


@operator(
    "AveragePool",
    since=19,
    **_POOLS,
    flops=flop_counts.pool(1),
)
def _average_pool(t: Any, n: NodeView, x: Any) -> Any:
    w = _windows(n)
    include = bool(n.attr("count_include_pad", 0))
    fits = _fits_torch(w) and not w.dilated()
    counted = w.ceil or w.dilated() or not include  # beyond F.avg_pool2d
    if not fits and counted and not w.same:
        given = present(
            padding=(*w.begin, *w.end) if any((*w.begin, *w.end)) else None,
            dilation=w.dilation if w.dilated() else None,
            ceil_mode=w.ceil or None,
            count_include_pad=include or None,
        )
        return t.helper(helpers.average_pool)(x, w.kernel, w.stride, **given)
    kernel, options = _arguments(w, padding=fits)
    if fits and any(w.begin) and not include:
        options["count_include_pad"] = False
    function = getattr(t.F, f"avg_pool{w.axes}d")
    half = w.axes == 3 and n.dtype(0) in _HALF  # PyTorch has no such kernel
    x = x.float() if half else x
    y = function(x if fits else padded(t, w, x), kernel, **options)
    if w.same and not include:  # by the share of each window that isn't padding
        y = y / function(padded(t, w, t.ones_like(x)), kernel, **options)
    return y.to(t.dtype(n.dtype(0))) if half else y


# ---- LpPool


def _order(n: NodeView) -> int:
    p = int(n.attr("p", 2))
    if not p:
        n.refuse(f"{n.node.op_type} with p = 0 is not supported", "p is at least 1")
    return p


@operator("LpPool", since=18, **_POOLS, flops=flop_counts.pool(2))
def _lp_pool(t: Any, n: NodeView, x: Any) -> Any:
    w, p = _windows(n), _order(n)
    if w.dilated() or w.ceil:
        w = _rounded_down(n, w)
        options = {"dilation": w.dilation} if w.dilated() else {}
        return t.helper(helpers.lp_pool)(
            padded(t, w, x), p, w.kernel, w.stride, **options
        )
    kernel, options = _arguments(w, padding=False)
    x = padded(t, w, x)
    x = x.abs() if p % 2 else x
    function = getattr(t.F, f"lp_pool{w.axes}d")
    if w.axes == 3 and n.dtype(0) in _HALF:  # PyTorch has no such kernel
        return function(x.float(), p, kernel, **options).to(t.dtype(n.dtype(0)))
    return function(x, p, kernel, **options)


# ---- over everything


def _all_axes(n: NodeView) -> Any:
    if n.rank(0) < 3:
        n.refuse(f"{n.node.op_type} without spatial axes is not supported")
    return 2 if n.rank(0) == 3 else tuple(range(2, n.rank(0)))


_over_all = partial(
    operator,
    since=1,
    cut=cuts.along(0, 1),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.global_pool,
    flops=flop_counts.per_input(1),
    tile=tiles.global_pool,
)
_over_all("GlobalAveragePool", result="mean")(
    lambda t, n, x: x.mean(dim=_all_axes(n), keepdim=True)
)
_over_all("GlobalMaxPool", result="pooled")(
    lambda t, n, x: x.amax(dim=_all_axes(n), keepdim=True)
)


@operator(
    "GlobalLpPool",
    since=2,
    cut=cuts.along(0, 1),
    mapping=MANY_TO_MANY,
    shape=sizes_windows.global_pool,
    flops=flop_counts.per_input(2),
    tile=tiles.global_pool,
    runs_until=21,
    result="pooled",
)
def _global_lp_pool(t: Any, n: NodeView, x: Any) -> Any:
    p = _order(n)
    norm = t.linalg.vector_norm
    options = {"dim": _all_axes(n), "keepdim": True}
    return norm(x, **options) if p == 2 else norm(x, ord=p, **options)
