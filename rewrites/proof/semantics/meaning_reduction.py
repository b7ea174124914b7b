"""Meanings of operators along axes.

A reduction over one axis, which a law names by its number, runs over a whole number;
one over a set of axes over indices. The prover takes them for different things, so
which one it is depends on the form of the law's set alone, the same for all operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernel.scalars import FromInt, Op
from ..kernel.smt import Integer, Truth, choose, integer
from ..kernel.tensors import Context, Tensor
from . import reduction
from .elementwise import div, elementwise, mul
from .index_maps import Axes, AxisRange, is_one, simple
from .table import means

REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"),
    *("ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)


def _reduce(name: str) -> Callable[..., Tensor]:
    def meaning(context: Context, x: Tensor, axes: Axes, keepdims: Integer) -> Tensor:
        keep = integer(keepdims)
        if isinstance(keep, int):
            return _reduced(context, name, x, axes, bool(keep))
        kept = _reduced(context, name, x, axes, True)
        axes.require(context, x.rank)
        return _kept_or_not(kept, axes, keep == 1)

    return meaning


for _name in REDUCTIONS:
    means(_name)(_reduce(_name))


def _reduced(
    context: Context, name: str, x: Tensor, axes: Axes, keepdims: bool
) -> Tensor:
    if not (isinstance(axes, AxisRange) and is_one(simple(axes.high - axes.low))):
        return reduction.reduce_by(context, name, x, axes, keepdims)

    def total(t: Tensor, kind: str = "sum") -> Tensor:
        return reduction.reduce(context, kind, t, axes.low, keepdims)

    def unary(head: str, t: Tensor) -> Tensor:
        return elementwise(context, lambda v: Op(head, v), t)

    if name == "ReduceMean":
        return div(context, total(x), FromInt(x.dim(axes.low)))
    if name == "ReduceL1":
        return total(unary("abs", x))
    if name == "ReduceSumSquare":
        return total(mul(context, x, x))
    if name == "ReduceL2":
        return unary("sqrt", total(mul(context, x, x)))
    if name == "ReduceLogSum":
        return unary("log", total(x))
    if name == "ReduceLogSumExp":
        return unary("log", total(unary("exp", x)))
    return total(x, name.removeprefix("Reduce").lower())


def _kept_or_not(kept: Tensor, axes: Axes, keep: Truth) -> Tensor:
    """The reduced axes stay, with size 1, where `keep` holds."""

    def position(k: Integer) -> Integer:
        return choose(keep, k, axes.rest(k))

    return Tensor(
        choose(keep, kept.rank, kept.rank - axes.count),
        lambda k: kept.dim(position(k)),
        lambda i: kept.at(lambda k: i(choose(keep, k, axes.place(k)))),
    )


@means("Softmax")
def _softmax(context: Context, x: Tensor, axis: Integer) -> Tensor:
    return reduction.softmax(context, x, axis)


@means("LogSoftmax")
def _log_softmax(context: Context, x: Tensor, axis: Integer) -> Tensor:
    return reduction.log_softmax(context, x, axis)


@means("CumSum")
def _cumsum(
    context: Context, x: Tensor, axis: Integer, exclusive: Any, reverse: Any
) -> Tensor:
    return reduction.cumsum(context, x, axis, bool(exclusive), bool(reverse))


def _arg(name: str) -> Callable[..., Tensor]:
    def meaning(
        context: Context,
        x: Tensor,
        axis: Integer,
        keepdims: int,
        select_last_index: Any,
    ) -> Tensor:
        """`keepdims` is literally 0 or 1."""
        which = f"{name}:{select_last_index}"
        return reduction.argmax(context, x, axis, bool(keepdims), which)

    return meaning


for _name in ("ArgMax", "ArgMin"):
    means(_name)(_arg(_name))
