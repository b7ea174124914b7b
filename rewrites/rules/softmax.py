"""Softmax, its logarithm and log-sum-exp, put together from their parts."""

from __future__ import annotations

from ..language.operators.elementwise import Exp, Log, Sub
from ..language.operators.reduction import (
    LogSoftmax,
    ReduceLogSumExp,
    ReduceMax,
    ReduceSum,
    Softmax,
)
from ..language.pattern import Var
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


@rule("invariance", samples=SAMPLES)
def log_softmax_shift_max(law: Law) -> None:
    """LogSoftmax(x - max x) = LogSoftmax(x)"""
    _, x, axes, axis = _operand(law)
    top = ReduceMax(x, axes=axes, keepdims=1)
    law.rewrite(LogSoftmax(Sub(x, top), axis=axis), LogSoftmax(x, axis=axis))


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


RULES = [
    log_softmax_shift_max,
    log_softmax,
    log_sum_exp,
]
