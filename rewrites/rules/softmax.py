"""Softmax, its logarithm and log-sum-exp, put together from their parts."""

from __future__ import annotations

from ..language.operators.elementwise import Add, Exp, Log, Sub
from ..language.operators.reduction import (
    LogSoftmax,
    ReduceLogSumExp,
    ReduceMax,
    ReduceSum,
    Softmax,
)
from ..language.pattern import Term, Var
from ..language.rule import Law, rule
from ..language.terms import Axes, Int, one_axis

SAMPLES = [
    dict(r=3, x=[2, 3, 4], a=1, b=0),
    dict(r=2, x=[3, 2], a=0, b=1),
    dict(r=1, x=[5], a=0, b=0),
]


def _operand(law: Law) -> tuple[Int, Var, Axes, Int]:
    """x, the axis of the left side, and that of the right side."""
    r = law.rank(low=1)
    x = law.tensor("x", r, kinds="float")
    axis = law.axis("a", r)
    other = law.axis("b", r) if law.mutant("other_axis") else axis
    return r, x, one_axis(r, axis), other


def total(x: Term, axes: Axes) -> Term:
    """The sum along the axes, which stay with size 1."""
    return ReduceSum(x, axes=axes, keepdims=1)


def largest(x: Term, axes: Axes) -> Term:
    """The maximum along the axes, which stay with size 1."""
    return ReduceMax(x, axes=axes, keepdims=1)


@rule("invariance", samples=[dict(r=2, x=[2, 3], c=(0.75,), a=1)])
def softmax_shift(law: Law) -> None:
    """Softmax(x + c) = Softmax(x), for one number c"""
    r = law.rank(low=1)
    x, axis = law.tensor("x", r), law.axis("a", r)
    kind = law.constant_operand if law.mutant("any_constant") else law.scalar
    law.rewrite(Softmax(Add(x, kind("c", r)), axis=axis), Softmax(x, axis=axis))


@rule("invariance", samples=SAMPLES)
def log_softmax_shift_max(law: Law) -> None:
    """LogSoftmax(x - max x) = LogSoftmax(x)"""
    _, x, axes, axis = _operand(law)
    left = LogSoftmax(Sub(x, largest(x, axes)), axis=axis)
    law.rewrite(left, LogSoftmax(x, axis=axis))


# ---- LogSoftmax


@rule("recompose", samples=SAMPLES)
def log_softmax(law: Law) -> None:
    """log(Softmax(x)) = LogSoftmax(x)"""
    r = law.rank(low=1)
    x, axis = law.tensor("x", r, kinds="float"), law.axis("a", r)
    other = law.axis("b", r) if law.mutant("other_axis") else axis
    law.rewrite(Log(Softmax(x, axis=axis)), LogSoftmax(x, axis=other))


# ---- ReduceLogSumExp


@rule(
    "recompose",
    samples=[
        dict(r=3, x=[2, 3, 4], axes={1}, keepdims=1),
        dict(r=3, x=[2, 3, 4], axes={0, 2}, keepdims=0),
    ],
)
def log_sum_exp(law: Law) -> None:
    """log(sum exp(x)) = ReduceLogSumExp(x)"""
    r = law.rank()
    x, axes = law.tensor("x", r, kinds="float"), law.axes("axes", r)
    keepdims = law.int("keepdims", 0, 1)
    left = Log(ReduceSum(Exp(x), axes=axes, keepdims=keepdims))
    kept = 1 - keepdims if law.mutant("other_shape") else keepdims
    law.rewrite(left, ReduceLogSumExp(x, axes=axes, keepdims=kept))


def _not_empty(law: Law, rank: Int) -> tuple[Var, Axes]:
    """x and an axis along which it has elements, without which there is no maximum."""
    x, axis = law.tensor("x", rank, kinds="float"), law.axis("a", rank)
    if not law.mutant("empty"):
        law.require(x.dim(axis) >= 1, "there may be nothing to take the maximum of")
    return x, one_axis(rank, axis)


@rule("recompose", samples=[dict(r=3, x=[2, 3, 4], a=1), dict(r=1, x=[3], a=0)])
def log_sum_exp_stable(law: Law) -> None:
    """max x + log(sum exp(x - max x)) = ReduceLogSumExp(x), size 1 kept"""
    r = law.rank(low=1)
    x, axes = _not_empty(law, r)
    top = largest(x, axes)
    left = Add(top, Log(total(Exp(Sub(x, top)), axes)))
    right = top if law.mutant("max") else ReduceLogSumExp(x, axes=axes, keepdims=1)
    law.rewrite(left, right)


RULES = [
    softmax_shift,
    log_softmax_shift_max,
    log_softmax,
    log_sum_exp,
    log_sum_exp_stable,
]
