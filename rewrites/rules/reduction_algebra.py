"""Reductions in other words, and what can be done after them instead of before."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..language.operators.elementwise import Abs, Div, Exp, Log, Mul, Sqrt
from ..language.operators.reduction import (
    ReduceL1,
    ReduceL2,
    ReduceLogSumExp,
    ReduceMean,
    ReduceSum,
    ReduceSumSquare,
)
from ..language.pattern import Operator, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Axes, Int, eq, one_axis, real, real_eq


def snake(operator: Operator) -> str:
    """ReduceSumSquare: sum_square"""
    name = operator.name.removeprefix("Reduce")
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


# ---- other spellings of the operators

Left: TypeAlias = Callable[[Law, Term, Axes, Int], Term]


def _spelled(
    name: str, statement: str, left: Left, op: Operator, wrong: Operator
) -> Rule:
    @rule(
        "recompose",
        name=name,
        statement=statement,
        samples=[
            dict(r=3, x=[2, 3, 4], axes={1}, keepdims=1),
            dict(r=3, x=[2, 3, 4], axes={0, 2}, keepdims=0),
        ],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r, kinds="float"), law.axes("axes", r)
        keepdims = law.int("keepdims", 0, 1)
        right = wrong if law.mutant(snake(wrong)) else op
        made = left(law, x, axes, keepdims)
        law.rewrite(made, right(x, axes=axes, keepdims=keepdims))

    return build


def _over(op: Operator, of: Term, axes: Axes, keepdims: Int) -> Term:
    return op(of, axes=axes, keepdims=keepdims)


SPELLINGS = [
    _spelled(
        "sum_square_mul",
        "ReduceSum(x * x) = ReduceSumSquare(x)",
        lambda law, x, a, k: _over(ReduceSum, Mul(x, x), a, k),
        ReduceSumSquare,
        ReduceSum,
    ),
    _spelled(
        "l2_sqrt",
        "Sqrt(ReduceSumSquare(x)) = ReduceL2(x)",
        lambda law, x, a, k: Sqrt(_over(ReduceSumSquare, x, a, k)),
        ReduceL2,
        ReduceL1,
    ),
    _spelled(
        "l1_abs",
        "ReduceSum(Abs(x)) = ReduceL1(x)",
        lambda law, x, a, k: _over(ReduceSum, Abs(x), a, k),
        ReduceL1,
        ReduceSum,
    ),
    _spelled(
        "log_sum_exp",
        "Log(ReduceSum(Exp(x))) = ReduceLogSumExp(x)",
        lambda law, x, a, k: Log(_over(ReduceSum, Exp(x), a, k)),
        ReduceLogSumExp,
        ReduceL1,
    ),
]


def _adds_no_axis(law: Law, rank: Int, axes: Axes, keepdims: Int) -> None:
    """A number may have one axis, and so must what it is combined with."""
    law.require(eq(keepdims, 1) | (axes.count < rank), "a number may add an axis")


@rule(
    "definition",
    samples=[
        dict(r=3, x=[2, 3, 4], a=1, n=(3,), keepdims=0),
        dict(r=1, x=[3], a=0, n=(3,), keepdims=1),
    ],
)
def mean_from_sum(law: Law) -> None:
    """ReduceSum(x, a) / n = ReduceMean(x, a), where n is the size of axis a"""
    r = law.rank(low=1)
    x, axis = law.tensor("x", r, kinds="float"), law.axis("a", r)
    n, keepdims = law.scalar("n", 1), law.int("keepdims", 0, 1)
    if not law.mutant("any_divisor"):
        law.require(real_eq(n.value, real(x.dim(axis))), "n is another number")
    axes = one_axis(r, axis)
    _adds_no_axis(law, r, axes, keepdims)
    left = Div(ReduceSum(x, axes=axes, keepdims=keepdims), n)
    law.rewrite(left, ReduceMean(x, axes=axes, keepdims=keepdims))


RULES: list[Rule] = [*SPELLINGS, mean_from_sum]
