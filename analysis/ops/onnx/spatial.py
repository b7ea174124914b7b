"""Operators on images and boxes: sampling at a grid, patches, suppression."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..facts import flop_counts
from ..facts.requirements import Between, Fraction
from ..helpers import slicing as slicing_helpers
from ..helpers import spatial as spatial_helpers
from ..node_view import NodeView
from ..operands import EVERYTHING, flat_ints, front, subscript
from ..registry import MANY_TO_MANY, ONE_TO_MANY, ONE_TO_ONE, OPAQUE, operator
from .slicing import listed

# ---- GridSample, AffineGrid


@operator("GridSample", since=22, mapping=MANY_TO_MANY, result="sampled")
def _grid_sample(t: Any, n: NodeView, x: Any, grid: Any) -> Any:
    mode = n.attr("mode", "linear")
    rank = n.rank(0)
    names = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}
    torch_mode = names.get(mode, mode)
    if rank not in (4, 5) or (torch_mode == "bicubic" and rank != 4):
        n.refuse(
            f"GridSample in mode {mode} on a tensor of rank {rank} is not supported"
        )
    if not n.is_float(0):
        n.refuse(f"GridSample of {n.dtype(0).name.lower()} is not supported")
    options: dict[str, Any] = {} if torch_mode == "bilinear" else {"mode": torch_mode}
    padding = n.attr("padding_mode", "zeros")
    if padding != "zeros":
        options["padding_mode"] = padding
    options["align_corners"] = bool(n.attr("align_corners", 0))
    if n.dtype(1) != n.dtype(0):
        grid = grid.to(t.dtype(n.dtype(0)))
    return t.F.grid_sample(x, grid, **options)


@operator("AffineGrid", since=20, mapping=ONE_TO_MANY, result="grid")
def _affine_grid(t: Any, n: NodeView, theta: Any, size: Any) -> Any:
    found = n.ints(1)
    sizes = size.tolist() if found is None else tuple(found)
    aligned = bool(n.attr("align_corners", 0))
    if aligned and found is not None and 1 in found[2:]:
        n.refuse(
            "AffineGrid with aligned corners over a single element is not supported"
        )
    if n.dtype(0) != ir.DataType.FLOAT16:
        return t.F.affine_grid(theta, sizes, align_corners=aligned)
    return t.F.affine_grid(theta.float(), sizes, align_corners=aligned).half()


# ---- Col2Im


@operator("Col2Im", since=18, mapping=MANY_TO_MANY, flops=flop_counts.per_input(1))
def _col2im(t: Any, n: NodeView, x: Any, image: Any, block: Any) -> Any:
    if not n.is_float(0):
        n.refuse(f"Col2Im of {n.dtype(0).name.lower()} is not supported")
    shape, kernel = n.ints(1), flat_ints(n.ints(2))
    axes = n.size(2, 0, "number of axes") if kernel is None else len(kernel)
    dilations = n.attr("dilations", [1] * axes)
    strides = n.attr("strides", [1] * axes)
    pads = n.attr("pads", [0] * 2 * axes)
    if axes != 2 or pads[:axes] != pads[axes:] or shape is None or kernel is None:
        size = image.tolist() if shape is None else shape
        patch = block.tolist() if kernel is None else kernel
        return t.helper(spatial_helpers.col2im)(
            x, size, patch, dilations, pads, strides
        )
    given = {
        "dilation": (dilations, 1),
        "padding": (pads[:2], 0),
        "stride": (strides, 1),
    }
    options = {
        name: found[0] if found[0] == found[1] else tuple(found)
        for name, (found, default) in given.items()
        if list(found) != [default] * 2
    }
    return t.F.fold(x, tuple(shape), tuple(kernel), **options)


# ---- CenterCropPad


@operator("CenterCropPad", since=18, mapping=ONE_TO_ONE, flops=0)
def _center_crop_pad(t: Any, n: NodeView, x: Any, shape: Any) -> Any:
    rank = n.rank(0)
    places = [front(axis, rank) for axis in n.attr("axes", range(rank))]
    wanted = flat_ints(n.ints(1))
    sizes = [n.dims(0)[axis] for axis in places]
    numbers = flat_ints([size for size in sizes if isinstance(size, int)])
    if wanted is None or numbers is None or len(numbers) != len(places):
        return t.helper(slicing_helpers.center_crop_pad)(x, listed(n, 1, shape), places)
    items: list[Any] = [EVERYTHING] * rank
    around = [(0, 0)] * rank
    for axis, have, want in zip(places, numbers, wanted, strict=True):
        # A cut starts half a pixel to the left, a border ends with the odd pixel.
        begin = abs(have - want) // 2
        if have > want:
            items[axis] = slice(begin or None, begin + want)
        else:
            around[axis] = (begin, want - have - begin)
    x = subscript(x, items)
    first = next((i for i in range(rank) if around[i] != (0, 0)), rank)
    order = [amount for axis in reversed(range(first, rank)) for amount in around[axis]]
    return t.F.pad(x, tuple(order)) if order else x


# ---- NonMaxSuppression, Det


def _number(array: Any) -> int | float:
    value = array.reshape(-1)[0]
    return int(value) if array.dtype.kind in "iu" else float(str(value))


@operator(
    "NonMaxSuppression",
    since=11,
    mapping=OPAQUE,
    requires={2: Between(1, 10), 3: Fraction(), 4: Fraction()},
    result="kept",
)
def _non_max_suppression(
    t: Any,
    n: NodeView,
    boxes: Any,
    scores: Any,
    limit: Any = None,
    iou: Any = None,
    score: Any = None,
) -> Any:
    options: dict[str, Any] = {}
    given = (limit, iou, score)
    names = ("max_per_class", "iou_threshold", "score_threshold")
    for i, (name, operand) in enumerate(zip(names, given, strict=True), start=2):
        if operand is None:
            continue
        known = n.const(i)
        options[name] = operand.item() if known is None else _number(known)
    if n.attr("center_point_box", 0):
        options["centers"] = True
    return t.helper(spatial_helpers.non_max_suppression)(boxes, scores, **options)


@operator("Det", since=22, mapping=MANY_TO_MANY)
def _det(t: Any, n: NodeView, x: Any) -> Any:
    if not n.is_float(0):
        n.refuse(f"Det of {n.dtype(0).name.lower()} is not supported")
    if n.dtype(0) in (ir.DataType.FLOAT, ir.DataType.DOUBLE):
        return t.linalg.det(x)
    return t.linalg.det(x.float()).to(t.dtype(n.dtype(0)))
