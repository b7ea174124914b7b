"""Reductions over axes, positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import cuts, flop_counts, sizes_elementwise, tiles
from ..facts.requirements import Axes, Between
from ..helpers import elementwise as helpers
from ..node_view import NodeView
from ..operands import SIGNED, converted, front, shown_axis, through_signed
from ..registry import MANY_TO_MANY, operator

# ---- axes


def _is_left_out(n: NodeView) -> bool:
    """Whether nothing is reduced, because there are no axes."""
    if not n.attr("noop_with_empty_axes", 0):
        return False
    if not n.has(1):
        return True
    (count,) = n.dims(1)
    if not isinstance(count, int):
        n.refuse(
            f"{n.node.op_type} with axes of unknown number is not supported",
            "make the axes a constant, or set noop_with_empty_axes to 0",
        )
    return count == 0


def _axes(n: NodeView) -> list[int] | None:
    """The axes to reduce, as the model counts them; None if known only at run time."""
    if not n.has(1) or n.dims(1) == (0,):
        return list(range(n.rank(0)))
    if n.ints(1) is None:
        return None
    rank, axes = n.shapes.rank(n.value(0)), n.known_ints(1, "axes")
    # One that comes again, as -1 of 2, is reduced once.
    return [*{axis % rank if rank else axis: axis for axis in axes}.values()]


def _over(n: NodeView, axes: Any) -> dict[str, Any]:
    """Keyword arguments `dim` and `keepdim`; none for one result over all elements."""
    keep = {"keepdim": True} if n.attr("keepdims", 1) else {}
    if not keep and not n.has(1):
        return {}
    listed, rank = _axes(n), n.shapes.rank(n.value(0))
    if listed is None:
        return {"dim": axes.tolist(), **keep}
    if rank == 0 or (len(listed) == rank and not keep):
        return {}
    if len(listed) == 1:
        return {"dim": shown_axis(n, listed[0]), **keep}
    return {"dim": tuple(listed), **keep}


# ---- sums and products

Keywords = dict[str, Any]
Reduction = Callable[[Any, NodeView, Any, Keywords], Any]


def _reduction(
    reduce: Reduction, alone: Callable[[Any], Any] = lambda x: x
) -> Callable[..., Any]:
    """A spelling; `alone` is what the operator does to each element with no axes."""

    def spelling(t: Any, n: NodeView, x: Any, axes: Any = None) -> Any:
        return alone(x) if _is_left_out(n) else reduce(t, n, x, _over(n, axes))

    return spelling


def _in_double(spelling: Callable[..., Any]) -> Callable[..., Any]:
    """What is no integer in between: computed in float64, and cut to an integer."""

    def spell(t: Any, n: NodeView, x: Any, axes: Any = None) -> Any:
        if n.is_float(0):
            return spelling(t, n, x, axes)
        return converted(t, spelling(t, n, x.double(), axes), n.dtype(0))

    return spell


def _same_type(t: Any, n: NodeView) -> Keywords:
    """PyTorch sums int32 into int64 unless it is told the type."""
    return {"dtype": t.int32} if n.dtype(0) == ir.DataType.INT32 else {}


def _sum(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    return x.sum(**over, **_same_type(t, n))


def _l1(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    return _sum(t, n, x if n.dtype(0) in SIGNED else x.abs(), over)


def _l2(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    return t.linalg.vector_norm(x, **over)


def _mean(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    # The mean of nothing is undefined; ONNX Runtime gives 0.
    empty = 0 in (n.shapes.dims(n.value(0)) or ())
    return x.sum(**over) if empty else x.mean(**over)


def _log_sum(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    return x.sum(**over).log()


def _log_sum_exp(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    over = over or {"dim": tuple(range(n.rank(0)))}
    if n.is_float(0):
        return x.logsumexp(**over)
    # Each exponential is cut to an integer, so that only the largest elements count.
    largest = x.amax(over["dim"], keepdim=True)
    return x.amax(**over) + (x == largest).sum(**over).log().to(x.dtype)


def _sum_square(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    return _sum(t, n, x.square(), over)


def _prod(t: Any, n: NodeView, x: Any, over: Keywords) -> Any:
    """torch.prod takes one axis at a time: the later ones first, to keep the count."""
    same = _same_type(t, n)
    if "dim" not in over:
        return x.prod(**same)
    keep = {key: value for key, value in over.items() if key != "dim"}
    if isinstance(over["dim"], int):
        return x.prod(**over, **same)
    if _axes(n) is None:
        return t.helper(helpers.product)(x, over["dim"], **keep)
    rank = n.rank(0)
    for axis in sorted((front(axis, rank) for axis in over["dim"]), reverse=True):
        x = x.prod(dim=axis, **keep, **same)
    return x


# Per element: 2 where it is squared or made positive first, 3 for exp, sum and log.
_STEPS = {"ReduceL1": 2, "ReduceL2": 2, "ReduceSumSquare": 2, "ReduceLogSumExp": 3}
_REDUCES: dict[str, Any] = {
    "shape": sizes_elementwise.reduce,
    "tile": tiles.reduce,
    "cut": cuts.reduce,
    "requires": {1: Axes()},
}
for _name, _since, _spelling, _result in (
    ("ReduceSum", 13, through_signed(first=True)(_reduction(_sum)), "total"),
    ("ReduceMean", 18, _in_double(_reduction(_mean)), "mean"),
    (
        "ReduceL1",
        18,
        through_signed(first=True)(_reduction(_l1, lambda x: x.abs())),
        "norm",
    ),
    ("ReduceL2", 18, _in_double(_reduction(_l2, lambda x: x.abs())), "norm"),
    ("ReduceLogSum", 18, _in_double(_reduction(_log_sum, lambda x: x.log())), ""),
    ("ReduceLogSumExp", 18, _reduction(_log_sum_exp), ""),
    (
        "ReduceSumSquare",
        18,
        through_signed(first=True)(_reduction(_sum_square, lambda x: x.square())),
        "",
    ),
    ("ReduceProd", 18, through_signed(first=True)(_reduction(_prod)), ""),
):
    operator(
        _name,
        since=_since,
        mapping=MANY_TO_MANY,
        flops=flop_counts.per_input(_STEPS.get(_name, 1)),
        result=_result,
        **_REDUCES | ({"cut": cuts.adds} if _name == "ReduceSum" else {}),
    )(_spelling)


# ---- extremes


def _extreme(method: str, whole: str, sign: int) -> Callable[..., Any]:
    @through_signed(ordered=True, first=True)
    def reduced(t: Any, n: NodeView, x: Any, axes: Any = None) -> Any:
        if _is_left_out(n):
            return x
        over = _over(n, axes)
        return getattr(x, method if over else whole)(**over)

    def spelling(t: Any, n: NodeView, x: Any, axes: Any = None) -> Any:
        if 0 not in (n.shapes.dims(n.value(0)) or ()) or _is_left_out(n):
            return reduced(t, n, x, axes)
        # PyTorch refuses to find the largest of nothing.
        dtype, sizes = n.dtype(0), n.out_dims()
        limit = _limit(dtype, sign)
        if all(isinstance(size, int) for size in sizes):
            return t.full(sizes, limit, dtype=t.dtype(dtype), device=t.device)
        return t.full_like(x.sum(**_over(n, axes)), limit, dtype=t.dtype(dtype))

    return spelling


def _limit(dtype: ir.DataType, sign: int) -> float | int | bool:
    """What the least (-1) or largest (1) value of a type is."""
    if dtype.is_floating_point():
        return sign * float("inf")
    if dtype == ir.DataType.BOOL:
        return sign > 0
    info = np.iinfo(dtype.numpy())
    return int(info.min if sign < 0 else info.max)


for _name, _method, _whole, _sign in (
    ("ReduceMax", "amax", "max", -1),
    ("ReduceMin", "amin", "min", 1),
):
    operator(
        _name,
        since=18,
        mapping=MANY_TO_MANY,
        flops=flop_counts.per_input(1),
        **_REDUCES,
    )(_extreme(_method, _whole, _sign))


def _position(method: str) -> Callable[..., Any]:
    @through_signed(ordered=True, back=False)
    def spelling(t: Any, n: NodeView, x: Any) -> Any:
        keep = {"keepdim": True} if n.attr("keepdims", 1) else {}
        axis = shown_axis(n, int(n.attr("axis", 0)))
        if n.shapes.rank(n.value(0)) == 0:
            return getattr(x, method)()
        if not n.attr("select_last_index", 0):
            return getattr(x, method)(dim=axis, **keep)
        # PyTorch gives the first of equals, so count from the end.
        found = getattr(x.flip(axis), method)(dim=axis, **keep)
        size = n.dims(0)[axis]
        return (size if isinstance(size, int) else x.shape[axis]) - 1 - found

    return spelling


for _name, _method in (("ArgMax", "argmax"), ("ArgMin", "argmin")):
    operator(
        _name,
        since=12,
        mapping=MANY_TO_MANY,
        shape=sizes_elementwise.arg_reduce,
        flops=flop_counts.per_input(1),
        cut=cuts.extreme,
        result="index",
    )(_position(_method))


# ---- running sums and products


def _running(method: str, exclusive: str) -> Callable[..., Any]:
    @through_signed(first=True)
    def spelling(t: Any, n: NodeView, x: Any, axis: Any) -> Any:
        known = n.ints(1) and n.known_ints(1, "axis")
        dim = shown_axis(n, known[0]) if known else axis.item()
        if n.attr("reverse", 0):
            x = x.flip(dim)
        if n.attr("exclusive", 0):
            y = t.helper(getattr(helpers, exclusive))(x, dim)
        else:
            y = getattr(x, method)(dim=dim, **_same_type(t, n))
        return y.flip(dim) if n.attr("reverse", 0) else y

    return spelling


for _name, _since, _method in (("CumSum", 11, "cumsum"), ("CumProd", 26, "cumprod")):
    operator(
        _name,
        since=_since,
        mapping=MANY_TO_MANY,
        shape=sizes_elementwise.like_input,
        cut=cuts.cumulative,
        flops=1,
        requires={1: Between(0, 1)},
    )(_running(_method, f"exclusive_{_method}"))
