"""Operators that write elements at given places of a copy of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import cuts, fitting_sizes, flop_counts, sizes_elementwise
from ..facts.requirements import Between, IndexOf, PlaceIn
from ..helpers import indexing as helpers
from ..node_view import NodeView
from ..operands import COMPLEX, SIGNED, axis_of, kernel_result, kernel_view, shown
from ..registry import MANY_TO_MANY, operator
from .indexing import index_from_front, only_place

_REDUCE = {"mul": "prod", "min": "amin", "max": "amax"}


def _reduction(n: NodeView) -> str:
    """`reduction`; refused on types that torch can't compute with."""
    found = str(n.attr("reduction", "none"))
    dtype = n.value(0).dtype or n.dtype(0)  # not what stands for strings
    lacking = COMPLEX if found in ("max", "min") else ()
    if found != "none" and dtype in (*SIGNED, *lacking, ir.DataType.STRING):
        n.refuse(
            f"{n.node.op_type} with reduction {found} on type "
            f"{dtype.name.lower()} is not supported"
        )
    return found


def _slices(n: NodeView) -> list[tuple[int, int, int]] | None:
    """Where the places are all those of x[:, start:end, start:]: axes, starts and ends.

    So TorchScript writes `x[:, 3:5] = y`; `x[:, :] = y`, too, of which none is left.
    """
    places, dims = n.const(1), n.dims(0)
    if places is None or not places.size or places.shape[-1] != places.ndim - 1:
        return None
    if all(isinstance(size, int) for size in dims):
        places = np.where(places < 0, places + dims[: places.shape[-1]], places)
    lead, first = places.shape[:-1], places[(0,) * (places.ndim - 1)]
    steps = np.moveaxis(np.indices(lead), 0, -1)
    if (first < 0).any() or not np.array_equal(places, steps + first):
        return None
    return [
        (axis, int(start), int(start) + size)
        for axis, (start, size) in enumerate(zip(first, lead, strict=True))
        if (start, size) != (0, dims[axis])
    ]


def _written(x: Any, source: Any, slices: list[tuple[int, int, int]]) -> Any:
    """`x` with `source` in the place of what these slices leave of it."""
    if not slices:
        return source
    (axis, start, end), *inner = slices
    if inner:
        source = _written(x.narrow(axis, start, end - start), source, inner)
    return x.slice_scatter(source, dim=axis, start=start, end=end)


@operator(
    "ScatterElements",
    since=18,
    fits=fitting_sizes.scattered,
    mapping=MANY_TO_MANY,
    cut=cuts.together(),
    shape=sizes_elementwise.like_input,
    flops=flop_counts.scatter,
    requires={1: IndexOf(0, "axis")},
)
def _scatter_elements(t: Any, n: NodeView, x: Any, indices: Any, updates: Any) -> Any:
    axis, dtype = axis_of(n), n.dtype(0)
    reduction = _reduction(n)
    where = (shown(axis, n.rank(0)), index_from_front(n, 1, axis, indices))
    if reduction == "add":
        return x.scatter_add(*where, updates)
    if reduction != "none":
        return x.scatter_reduce(*where, updates, _REDUCE[reduction])
    source, place = kernel_view(t, dtype, updates), only_place(n, 1, axis)
    if place is not None:
        put = _written(kernel_view(t, dtype, x), source, [(axis, place, place + 1)])
    else:
        put = kernel_view(t, dtype, x).scatter(*where, source)
    return kernel_result(t, dtype, put)


@operator(
    "ScatterND",
    since=18,
    fits=fitting_sizes.scattered,
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
    flops=flop_counts.scatter,
    requires={1: PlaceIn(0)},
)
def _scatter_nd(t: Any, n: NodeView, x: Any, indices: Any, updates: Any) -> Any:
    dtype = n.dtype(0)
    reduction = _reduction(n)
    if reduction in ("none", "add"):
        adds = {"accumulate": True} if reduction == "add" else {}
        source = kernel_view(t, dtype, updates)
        slices = _slices(n) if reduction == "none" else None
        if slices is not None:
            put = _written(kernel_view(t, dtype, x), source, slices)
        else:
            places = indices.unbind(-1)
            put = kernel_view(t, dtype, x).index_put(places, source, **adds)
        return kernel_result(t, dtype, put)
    return t.helper(helpers.scatter_nd)(x, indices, updates, _REDUCE[reduction])


@operator(
    "TensorScatter",
    since=24,
    mapping=MANY_TO_MANY,
    shape=sizes_elementwise.like_input,
    flops=0,
    requires={2: Between(0, 1)},
    result="cache",
)
def _tensor_scatter(
    t: Any, n: NodeView, cache: Any, update: Any, starts: Any = None
) -> Any:
    options: dict[str, Any] = {}
    axis = axis_of(n, default=-2)
    if starts is not None:
        options["starts"] = starts
    if axis != n.rank(0) - 2:
        options["axis"] = axis
    if n.attr("mode", "linear") == "circular":
        options["circular"] = True
    dtype = n.dtype(0)
    operands = (kernel_view(t, dtype, cache), kernel_view(t, dtype, update))
    return kernel_result(
        t, dtype, t.helper(helpers.tensor_scatter)(*operands, **options)
    )
