"""Operators that cut a tensor down or put a border around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from ...graph.dims import Dim, at_least, same, slice_range
from ...spelling.expr import DimOf, Expr
from ..facts.requirements import Axes, Between
from ..helpers import slicing as helpers
from ..node_view import NodeView
from ..operands import (
    COMPLEX,
    EVERYTHING,
    TO_THE_END,
    at_axis,
    flat_ints,
    front,
    kernel_result,
    kernel_view,
    subscript,
)
from ..registry import ONE_TO_ONE, operator

Bound: TypeAlias = int | Expr
Amounts: TypeAlias = Sequence[tuple[int, int]]


# ---- Slice


def _numbers(n: NodeView, i: int) -> list[int] | None:
    """The numbers of an optional input, none if it is absent; None if not known."""
    return flat_ints(n.ints(i)) if n.has(i) else []


def _counted(n: NodeView, i: int) -> bool:
    """Whether it is known how many numbers there are."""
    return n.ints(i) is not None or isinstance(n.dims(i)[0], int)


def _bounds(n: NodeView, i: int, operand: Any) -> list[Any]:
    """Numbers, sizes, or elements of the operand at run time."""
    found = n.ints(i)
    if found is not None:
        return list(found)
    count = n.size(i, 0, "number of axes")
    return [operand[k] for k in range(count)]


def _forwards(start: Bound, end: Bound, step: int, dim: Dim | None) -> slice:
    """The slice with the bounds left out that change nothing."""
    if isinstance(start, int) and isinstance(dim, int) and start < 0:
        start = start if start + dim > 0 else 0
    if isinstance(start, int) and (start == 0 or start <= -TO_THE_END):
        start_item: Bound | None = None
    else:
        start_item = start
    end_item: Bound | None = end
    if isinstance(end, int):
        if end >= (dim if isinstance(dim, int) else TO_THE_END):
            end_item = None
    elif isinstance(end, DimOf) and dim is not None and same(end.dim, dim):
        end_item = None
    return slice(start_item, end_item, None if step == 1 else step)


def _backwards(start: Any, end: Any, step: int, dim: Dim) -> tuple[slice, bool] | None:
    """The same elements in ascending order, and whether they are then to be turned.

    None where only run time can tell.
    """
    if not (isinstance(start, int) and isinstance(end, int)):
        return None
    if not isinstance(dim, int):
        whole = (start == -1 or start >= TO_THE_END) and end <= -TO_THE_END
        return (EVERYTHING, True) if whole and step == -1 else None
    taken = slice_range(dim, start, end, step) if dim else range(0)
    if not taken:
        return slice(0, 0), False
    low, high = taken[-1], taken[0] + 1
    stride = None if step == -1 or len(taken) == 1 else -step
    ascending = slice(low or None, high if high < dim else None, stride)
    return ascending, len(taken) > 1


def _slice_at_run_time(t: Any, n: NodeView, x: Any, *operands: Any) -> Any:
    starts, ends, axes, steps = operands
    options = {}
    for i, (name, operand) in enumerate((("axes", axes), ("steps", steps)), start=3):
        if operand is not None:
            options[name] = listed(n, i, operand)
    bounds = [listed(n, 1, starts), listed(n, 2, ends)]
    return t.helper(helpers.slice_axes)(x, *bounds, **options)


def listed(n: NodeView, i: int, operand: Any) -> Any:
    """An input of integers as a list: numbers and sizes, or read at run time."""
    found = n.ints(i)
    return operand.tolist() if found is None else found


@operator(
    "Slice",
    since=13,
    mapping=ONE_TO_ONE,
    onnx_errs=True,
    views=True,
    requires={1: Between(0, 1), 2: Between(1, 4), 3: Axes(), 4: Between(1, 2)},
)
def _slice_(
    t: Any,
    n: NodeView,
    x: Any,
    starts: Any,
    ends: Any,
    axes: Any = None,
    steps: Any = None,
) -> Any:
    places = _numbers(n, 3)
    strides = _numbers(n, 4)
    if places is None or strides is None or not (_counted(n, 1) and _counted(n, 2)):
        return _slice_at_run_time(t, n, x, starts, ends, axes, steps)
    first, last = _bounds(n, 1, starts), _bounds(n, 2, ends)
    count = min(len(first), len(last))
    places = places or list(range(count))
    if n.shapes.dims(n.value(0)) is None and len(places) == 1:
        bounds = first[0], last[0], strides[0] if strides else 1
        if bounds[2] > 0:
            return at_axis(x, places[0], None, _forwards(*bounds, None))
    rank = n.rank(0)
    places = [front(axis, rank) for axis in places]
    items: list[Any] = [EVERYTHING] * rank
    turned = []
    for i, axis in enumerate(places):
        step = strides[i] if strides else 1
        dim = n.dims(0)[axis]
        if step < 0:
            found = _backwards(first[i], last[i], step, dim)
            if found is None:
                return _slice_at_run_time(t, n, x, starts, ends, axes, steps)
            items[axis], turns = found
            turned += [axis] if turns else []
        else:
            items[axis] = _forwards(first[i], last[i], step, dim)
    x = subscript(x, items)
    if not turned:
        return x
    dtype = n.dtype(0)
    return kernel_result(t, dtype, kernel_view(t, dtype, x).flip(*turned))


# ---- Pad

_TORCH_MODES = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


def _is_none(pair: tuple[Bound, Bound]) -> bool:
    return all(isinstance(amount, int) and amount == 0 for amount in pair)


def _is_common(n: NodeView, mode: str, around: Sequence[tuple[Bound, Bound]]) -> bool:
    """Whether F.pad knows it: floats, one to three trailing axes, no second lap."""
    rank = len(around)
    padded = rank - next(i for i in range(rank) if not _is_none(around[i]))
    if not n.is_float(0) or rank not in (padded + 1, padded + 2) or padded > 3:
        return False
    if 0 in n.dims(0):  # F.pad lets no axis but that of batches be empty
        return False
    if not all(isinstance(a, int) and a >= 0 for pair in around for a in pair):
        return False
    # Sizes of run time are taken to be large enough: F.pad raises where they are not.
    room = 1 if mode == "reflect" else 0
    return mode == "edge" or all(
        not isinstance(dim, int) or max(pair) <= dim - room
        for dim, pair in zip(n.dims(0), cast(Amounts, around), strict=True)
    )


def _crops_beyond(n: NodeView, around: Sequence[tuple[Bound, Bound]]) -> bool:
    """Whether one end may be cut by more than there is before the other is padded."""
    known = zip(n.dims(0), around, strict=True)
    pairs = ((d, sorted(a for a in pair if isinstance(a, int))) for d, pair in known)
    return any(
        len(ends) == 2 and ends[0] < 0 < ends[1] and not at_least(size, -ends[0])
        for size, ends in pairs
    )


def _fill(n: NodeView, value: Any) -> dict[str, Any]:
    """`value=` for F.pad, which needs a number; nothing where it is 0."""
    if value is None:
        return {}
    if n.dtype(2) in COMPLEX:
        n.refuse("Pad with a complex number is not supported")
    known = n.const(2)
    if known is None:
        return {"value": value.item()}
    number = known.reshape(-1)[0]
    if number.dtype.kind in "iu" and abs(int(number)) > 2**53:
        n.refuse(f"Pad with {number} is not supported: F.pad rounds it to a float")
    is_zero = number == 0 and not np.signbit(np.float64(number))
    return {} if is_zero else {"value": number}


def _pad_at_run_time(
    t: Any, n: NodeView, x: Any, pads: Any, value: Any, axes: Any
) -> Any:
    options: dict[str, Any] = {}
    if axes is not None:
        options["axes"] = listed(n, 3, axes)
    mode = n.attr("mode", "constant")
    options |= _fill(n, value) if mode == "constant" else {"mode": mode}
    return t.helper(helpers.pad_axes)(x, listed(n, 1, pads), **options)


@operator(
    "Pad",
    since=25,
    mapping=ONE_TO_ONE,
    requires={1: Between(0, 2)},
    result="padded",
)
def _pad(
    t: Any, n: NodeView, x: Any, pads: Any, value: Any = None, axes: Any = None
) -> Any:
    mode, dtype = n.attr("mode", "constant"), n.dtype(0)
    amounts, places = n.ints(1), _numbers(n, 3)
    if amounts is None or places is None:
        return _pad_at_run_time(t, n, x, pads, value, axes)
    rank = n.rank(0)
    places = [front(axis, rank) for axis in places] if n.has(3) else list(range(rank))
    around: list[tuple[Bound, Bound]] = [(0, 0)] * rank
    for i, axis in enumerate(places):
        around[axis] = (amounts[i], amounts[i + len(places)])
    first = next((i for i in range(rank) if not _is_none(around[i])), rank)
    if first == rank:
        return x
    order = [amount for axis in reversed(range(first, rank)) for amount in around[axis]]
    if mode == "constant":
        if _crops_beyond(n, around):
            crop = tuple(min(a, 0) if isinstance(a, int) else 0 for a in order)
            grow = tuple(max(a, 0) if isinstance(a, int) else a for a in order)
            return t.F.pad(t.F.pad(x, grow, **_fill(n, value)), crop)
        return t.F.pad(x, tuple(order), **_fill(n, value))
    if _is_common(n, mode, around) and dtype.bitwidth >= 16:
        order += [0] * (-len(order) % 2)
        return t.F.pad(x, tuple(order), mode=_TORCH_MODES[mode])
    return t.helper(helpers.pad_from_input)(x, around, mode)
