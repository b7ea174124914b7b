"""Reductions in other words, and what can be done after them instead of before."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from ..language.operators.elementwise import (
    Abs,
    Add,
    Div,
    Exp,
    Log,
    Mul,
    Neg,
    Pow,
    Sqrt,
)
from ..language.operators.reduction import (
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from ..language.pattern import Operator, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Axes, Int, eq, forall, implies, one_axis, real, real_eq


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


def _squared(law: Law, x: Term) -> Term:
    return Pow(x, law.full("two", x.rank, 2))


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
        "sum_square_pow",
        "ReduceSum(x^2) = ReduceSumSquare(x)",
        lambda law, x, a, k: _over(ReduceSum, _squared(law, x), a, k),
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
        "l2_pow",
        "ReduceSumSquare(x)^0.5 = ReduceL2(x)",
        lambda law, x, a, k: Pow(
            _over(ReduceSumSquare, x, a, k), law.full("half", 0, Fraction(1, 2))
        ),
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
        "log_sum",
        "Log(ReduceSum(x)) = ReduceLogSum(x)",
        lambda law, x, a, k: Log(_over(ReduceSum, x, a, k)),
        ReduceLogSum,
        ReduceSum,
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


# ---- algebra, where it saves operations


def _constant_along(law: Law, c: Term, x: Term, axes: Axes) -> None:
    if not law.mutant("along_the_axes"):
        law.require(
            forall(x.rank, lambda k: implies(axes.has(k), eq(c.dim(k), 1))),
            "c varies along a reduced axis",
        )
    law.require(
        forall(x.rank, lambda k: eq(c.dim(k), 1) | eq(c.dim(k), x.dim(k))),
        "c enlarges x",
    )


def _kinds(op: Operator) -> str:
    """A mean of whole numbers is rounded towards 0; their sums make a ring."""
    return "float" if op is ReduceMean else ""


def _scaled(op: Operator) -> Rule:
    @rule(
        "commutative",
        name=f"{snake(op)}_of_scaled",
        statement=f"{op}(x * c) = {op}(x) * c, where c is the same along the axes",
        measure="flops",
        when="search",
        samples=[dict(r=3, x=[2, 3, 4], c=[3, 1], axes={0, 2})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, c = law.tensor("x", r, kinds=_kinds(op)), law.operand("c", r)
        axes = law.axes("axes", r)
        _constant_along(law, c, x, axes)
        left = op(Mul(x, c), axes=axes, keepdims=1)
        law.rewrite(left, Mul(op(x, axes=axes, keepdims=1), c))

    return build


def _scaled_by_number(op: Operator) -> Rule:
    @rule(
        "commutative",
        name=f"{snake(op)}_of_multiple",
        statement=f"{op}(x * k) = {op}(x) * k, for one number k",
        measure="flops",
        when="search",
        samples=[dict(r=3, x=[2, 3, 4], c=(1.5,), axes={0, 2}, keepdims=1)],
    )
    def build(law: Law) -> None:
        r = law.rank(low=1)
        x, axes = law.tensor("x", r, kinds=_kinds(op)), law.axes("axes", r)
        keepdims = law.int("keepdims", 0, 1)
        _adds_no_axis(law, r, axes, keepdims)
        c = law.constant("c", 1) if law.mutant("vector") else law.scalar("c", 1)
        left = op(Mul(x, c), axes=axes, keepdims=keepdims)
        law.rewrite(left, Mul(op(x, axes=axes, keepdims=keepdims), c))

    return build


def _negated(op: Operator) -> Rule:
    @rule(
        "commutative",
        name=f"{snake(op)}_of_negated",
        statement=f"{op}(-x) = -{op}(x)",
        measure="flops",
        when="search",
        samples=[dict(r=3, x=[2, 3, 4], axes={0, 2}, keepdims=0)],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r, kinds=_kinds(op)), law.axes("axes", r)
        keepdims = law.int("keepdims", 0, 1)
        found = op(x, axes=axes, keepdims=keepdims)
        left = op(Neg(x), axes=axes, keepdims=keepdims)
        law.rewrite(left, found if law.mutant("positive") else Neg(found))

    return build


def _of_sum(op: Operator) -> Rule:
    @rule(
        "commutative",
        name=f"sum_of_{snake(op)}s",
        statement=f"{op}(x) + {op}(y) = {op}(x + y), for x and y of one shape",
        measure="flops",
        when="search",
        samples=[dict(r=2, x=[2, 3], y=[2, 3], axes={1}, keepdims=0)],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, y = law.tensor("x", r, kinds=_kinds(op)), law.tensor("y", r)
        axes, keepdims = law.axes("axes", r), law.int("keepdims", 0, 1)
        if not law.mutant("any_shape"):
            law.require(
                forall(r, lambda k: eq(x.dim(k), y.dim(k))), "the shapes differ"
            )
        parts = [op(t, axes=axes, keepdims=keepdims) for t in (x, y)]
        law.rewrite(Add(*parts), op(Add(x, y), axes=axes, keepdims=keepdims))

    return build


def _shifted(op: Operator) -> Rule:
    @rule(
        "commutative",
        name=f"{snake(op)}_of_shifted",
        statement=f"{op}(x + k) = {op}(x) + k, for one number k",
        measure="flops",
        when="search",
        samples=[dict(r=3, x=[2, 3, 4], c=(1.5,), axes={0, 2})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r, kinds="float"), law.axes("axes", r)
        kind = law.constant_operand if law.mutant("any_constant") else law.scalar
        c = kind("c", r)
        law.require(
            forall(r, lambda k: implies(axes.has(k), x.dim(k) >= 1)),
            "there may be nothing to reduce",
        )
        left = op(Add(x, c), axes=axes, keepdims=1)
        law.rewrite(left, Add(op(x, axes=axes, keepdims=1), c))

    return build


@rule(
    "commutative",
    measure="flops",
    when="search",
    samples=[dict(r=2, x=[2, 3], axes={1}, keepdims=0)],
)
def prod_of_exp(law: Law) -> None:
    """ReduceProd(Exp(x)) = Exp(ReduceSum(x))"""
    r = law.rank()
    x, axes = law.tensor("x", r, kinds="float"), law.axes("axes", r)
    keepdims = law.int("keepdims", 0, 1)
    op = ReduceProd if law.mutant("product") else ReduceSum
    left = ReduceProd(Exp(x), axes=axes, keepdims=keepdims)
    law.rewrite(left, Exp(op(x, axes=axes, keepdims=keepdims)))


@rule(
    "associative",
    measure="flops",
    when="search",
    samples=[dict(r=2, x=[2, 3], y=[2, 3], t=[2, 4], axes={1})],
)
def square_of_sums(law: Law) -> None:
    """(x * s) * (s * y) = (x * y) * (s * s), where s = ReduceSum(t)"""
    r = law.rank()
    x, y, t = law.operand("x", r), law.operand("y", r), law.tensor("t", r)
    s = ReduceSum(t, axes=law.axes("axes", r), keepdims=1)
    square = s if law.mutant("once") else Mul(s, s)
    law.rewrite(Mul(Mul(x, s), Mul(s, y)), Mul(Mul(x, y), square))


RULES: list[Rule] = [
    *SPELLINGS,
    mean_from_sum,
    *(_scaled(op) for op in (ReduceSum, ReduceMean)),
    *(_scaled_by_number(op) for op in (ReduceSum, ReduceMean)),
    *(_negated(op) for op in (ReduceSum, ReduceMean)),
    *(_of_sum(op) for op in (ReduceSum, ReduceMean)),
    *(_shifted(op) for op in (ReduceMax, ReduceMin)),
    prod_of_exp,
    square_of_sums,
]
