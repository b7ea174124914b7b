"""Reductions: along one axis, or over any set of axes at once.

A reduction over one axis runs over an integer, one over a set of axes over index
functions; the prover doesn't see that a set of one axis is one axis, so the two sides
of a law should use the same form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..kernel.scalars import Const, FromInt, Op, Red, Scalar
from ..kernel.smt import IndexMap, Integer, Truth, both, choose, integer, within
from ..kernel.tensors import Context, Tensor
from .elementwise import div, elementwise, mul
from .gather import number, opaque
from .index_maps import Axes, AxisRange, is_one, one_axis, simple
from .table import means

Reading: TypeAlias = Callable[[IndexMap], Scalar]


def reduce(
    context: Context, kind: str, t: Tensor, axis: Integer, keepdims: bool = True
) -> Tensor:
    """The sum, prod, max or min along one axis."""
    context.require(within(axis, t.rank), "the axis of a reduction")
    out = one_axis(axis)

    def at(i: IndexMap) -> Scalar:
        def place(s: Integer, k: Integer) -> Integer:
            return choose(k == axis, s, i(k if keepdims else out.place(k)))

        return Red(kind, t.dim(axis), lambda s: t.at(lambda k: place(s, k)))

    return _reduced(t, out, keepdims, at)


def reduce_set(
    context: Context, kind: str, t: Tensor, axes: Axes, keepdims: bool = True
) -> Tensor:
    """The sum, prod, max or min over a set of axes; without axes t itself."""
    if not keepdims:
        axes.require(context, t.rank)

    def at(i: IndexMap) -> Scalar:
        def body(s: IndexMap) -> Scalar:
            return t.at(
                lambda k: choose(axes.has(k), s(k), i(k if keepdims else axes.place(k)))
            )

        return Red(kind, t.dim, body, vec=True, rank=t.rank, sel=axes.has)

    return _reduced(t, axes, keepdims, at)


def _reduced(t: Tensor, axes: Axes, keepdims: bool, at: Reading) -> Tensor:
    if keepdims:
        return Tensor(t.rank, lambda k: choose(axes.has(k), 1, t.dim(k)), at)
    return Tensor(t.rank - axes.count, lambda k: t.dim(axes.rest(k)), at)


def reduce_mean(
    context: Context, t: Tensor, axis: Integer, keepdims: bool = True
) -> Tensor:
    """The mean along one axis."""
    total = reduce(context, "sum", t, axis, keepdims)
    return div(context, total, FromInt(t.dim(axis)))


def reduce_mean_set(
    context: Context, t: Tensor, axes: Axes, keepdims: bool = True
) -> Tensor:
    """The mean over a set of axes."""
    total = reduce_set(context, "sum", t, axes, keepdims)
    return div(context, total, count_over(t, axes))


def count_over(t: Tensor, axes: Axes) -> Scalar:
    """How many elements a reduction takes together: a sum of ones like it.

    Unlike a product of sizes, it is rearranged as other sums are.
    """
    return Red("sum", t.dim, lambda s: Const(1), vec=True, rank=t.rank, sel=axes.has)


def reduce_by(
    context: Context, name: str, t: Tensor, axes: Axes, keepdims: bool = True
) -> Tensor:
    """ReduceSum and its relatives, by their ONNX names; of one axis like `reduce`."""
    axis = None
    if isinstance(axes, AxisRange) and is_one(simple(axes.high - axes.low)):
        axis = axes.low

    def total(x: Tensor, kind: str = "sum") -> Tensor:
        if axis is None:
            return reduce_set(context, kind, x, axes, keepdims)
        return reduce(context, kind, x, axis, keepdims)

    def unary(head: str, x: Tensor) -> Tensor:
        return elementwise(context, lambda v: Op(head, v), x)

    if name == "ReduceMean":
        if axis is None:
            return reduce_mean_set(context, t, axes, keepdims)
        return reduce_mean(context, t, axis, keepdims)
    if name == "ReduceL1":
        return total(unary("abs", t))
    if name == "ReduceSumSquare":
        return total(mul(context, t, t))
    if name == "ReduceL2":
        return unary("sqrt", total(mul(context, t, t)))
    if name == "ReduceLogSum":
        return unary("log", total(t))
    if name == "ReduceLogSumExp":
        return unary("log", total(unary("exp", t)))
    return total(t, name.removeprefix("Reduce").lower())


def _row(t: Tensor, axis: Integer, i: IndexMap, s: Integer) -> Scalar:
    return t.at(lambda k: choose(k == axis, s, i(k)))


@means("Softmax")
def softmax(context: Context, t: Tensor, axis: Integer, stable: bool = True) -> Tensor:
    """exp / sum of exp along an axis; `stable` takes the maximum off first."""
    context.require(within(axis, t.rank), "the axis of Softmax")

    def at(i: IndexMap) -> Scalar:
        top = Red("max", t.dim(axis), lambda s: _row(t, axis, i, s))

        def weight(x: Scalar) -> Scalar:
            return Op("exp", x - top if stable else x)

        row = Red("sum", t.dim(axis), lambda s: weight(_row(t, axis, i, s)))
        return weight(t.at(i)) / row

    return Tensor(t.rank, t.dim, at)


@means("LogSoftmax")
def log_softmax(
    context: Context, t: Tensor, axis: Integer, stable: bool = True
) -> Tensor:
    """The logarithm of softmax."""
    context.require(within(axis, t.rank), "the axis of LogSoftmax")

    def at(i: IndexMap) -> Scalar:
        top = Red("max", t.dim(axis), lambda s: _row(t, axis, i, s))

        def shifted(x: Scalar) -> Scalar:
            return x - top if stable else x

        def weight(s: Integer) -> Scalar:
            return Op("exp", shifted(_row(t, axis, i, s)))

        return shifted(t.at(i)) - Op("log", Red("sum", t.dim(axis), weight))

    return Tensor(t.rank, t.dim, at)


@means("CumSum")
def cumsum(
    context: Context,
    t: Tensor,
    axis: Integer,
    exclusive: bool = False,
    reverse: bool = False,
) -> Tensor:
    """The sum of the elements up to here, or from the end down to here if reversed."""
    context.require(within(axis, t.rank), "the axis of CumSum")
    own = 0 if exclusive else 1

    def at(i: IndexMap) -> Scalar:
        last = t.dim(axis) - 1
        count = (last - i(axis) if reverse else i(axis)) + own
        return Red("sum", count, lambda s: _row(t, axis, i, last - s if reverse else s))

    return Tensor(t.rank, t.dim, at)


def argmax(
    context: Context,
    t: Tensor,
    axis: Integer,
    keepdims: bool = True,
    name: str = "argmax",
) -> Tensor:
    """Where the maximum stands along an axis; `name` tells variants apart."""
    context.require(both(within(axis, t.rank), t.dim(axis) >= 1), "the axis of ArgMax")
    out = one_axis(axis)

    def place(i: IndexMap) -> IndexMap:
        return lambda k: choose(k == axis, 0, i(k if keepdims else out.place(k)))

    kept = opaque(name, t.rank, t.dim, (t, number(axis)), place)
    return _reduced(t, out, keepdims, kept.at)


REDUCTIONS = (
    *("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1"),
    *("ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"),
)


def _reduce(name: str) -> Callable[..., Tensor]:
    def meaning(context: Context, x: Tensor, axes: Axes, keepdims: Integer) -> Tensor:
        keep = integer(keepdims)
        if isinstance(keep, int):
            return reduce_by(context, name, x, axes, bool(keep))
        kept = reduce_by(context, name, x, axes, True)
        axes.require(context, x.rank)
        return _kept_or_not(kept, axes, keep == 1)

    return meaning


for _name in REDUCTIONS:
    means(_name)(_reduce(_name))


def _kept_or_not(kept: Tensor, axes: Axes, keep: Truth) -> Tensor:
    """The reduced axes stay, with size 1, where `keep` holds."""

    def position(k: Integer) -> Integer:
        return choose(keep, k, axes.rest(k))

    return Tensor(
        choose(keep, kept.rank, kept.rank - axes.count),
        lambda k: kept.dim(position(k)),
        lambda i: kept.at(lambda k: i(choose(keep, k, axes.place(k)))),
    )


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
        return argmax(context, x, axis, bool(keepdims), which)

    return meaning


for _name in ("ArgMax", "ArgMin"):
    means(_name)(_arg(_name))
