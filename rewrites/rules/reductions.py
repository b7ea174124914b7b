"""Reductions: of nothing, of each other, of what could come after them."""

from __future__ import annotations

from ..language.operators.movement import Squeeze, Transpose, Unsqueeze
from ..language.operators.pooling import GlobalAveragePool
from ..language.operators.reduction import (
    ArgMax,
    ArgMin,
    LogSoftmax,
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
    Softmax,
)
from ..language.pattern import Operator, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Axes, Perm, axis_range, eq, forall, implies, one_axis
from . import reduction_algebra
from .reduction_algebra import snake

# Of one element these are that element.
PLAIN = (ReduceSum, ReduceProd, ReduceMax, ReduceMin, ReduceMean)
ALL = (
    *PLAIN,
    *(ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum, ReduceLogSumExp),
)


# ---- the reduced axes: kept with size 1, or not


def _squeeze(op: Operator) -> Rule:
    @rule(
        "movement",
        name=f"squeeze_{snake(op)}",
        statement=f"Squeeze({op}(x, axes kept), axes) = {op}(x, axes dropped)",
        samples=[dict(r=3, x=[2, 3, 4], axes={0, 2}), dict(r=2, x=[3, 4], axes={1})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r), law.axes("axes", r)
        others = law.axes("others", r) if law.mutant("other_axes") else axes
        left = Squeeze(op(x, axes=axes, keepdims=1), axes=axes)
        law.rewrite(left, op(x, axes=others, keepdims=0))

    return build


def _unsqueeze(op: Operator) -> Rule:
    @rule(
        "movement",
        name=f"unsqueeze_{snake(op)}",
        statement=f"Unsqueeze({op}(x, axes dropped), axes) = {op}(x, axes kept)",
        samples=[dict(r=3, x=[2, 3, 4], axes={0, 2}), dict(r=2, x=[3, 4], axes={1})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r), law.axes("axes", r)
        others = law.axes("others", r) if law.mutant("other_axes") else axes
        left = Unsqueeze(op(x, axes=axes, keepdims=0), axes=axes)
        law.rewrite(left, op(x, axes=others, keepdims=1))

    return build


def _squeeze_arg(op: Operator) -> Rule:
    @rule(
        "movement",
        name=f"squeeze_{op}".lower(),
        statement=f"Squeeze({op}(x, axis kept), axis) = {op}(x, axis dropped)",
        samples=[dict(r=3, x=[2, 3, 4], a=1, select=0)],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axis, select = law.tensor("x", r), law.axis("a", r), law.word("select")
        other = law.axis("b", r) if law.mutant("other_axis") else axis
        kept = op(x, axis=axis, keepdims=1, select_last_index=select)
        left = Squeeze(kept, axes=one_axis(r, axis))
        law.rewrite(left, op(x, axis=other, keepdims=0, select_last_index=select))

    return build


def _unsqueeze_arg(op: Operator) -> Rule:
    @rule(
        "movement",
        name=f"unsqueeze_{op}".lower(),
        statement=f"Unsqueeze({op}(x, axis dropped), axis) = {op}(x, axis kept)",
        samples=[dict(r=3, x=[2, 3, 4], a=1, select=0)],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axis, select = law.tensor("x", r), law.axis("a", r), law.word("select")
        other = law.axis("b", r) if law.mutant("other_axis") else axis
        dropped = op(x, axis=axis, keepdims=0, select_last_index=select)
        left = Unsqueeze(dropped, axes=one_axis(r, axis))
        law.rewrite(left, op(x, axis=other, keepdims=1, select_last_index=select))

    return build


# ---- over axes of size 1, or none


def _single(law: Law, x: Term, axes: Axes) -> None:
    if not law.mutant("any_size"):
        law.require(
            forall(x.rank, lambda k: implies(axes.has(k), eq(x.dim(k), 1))),
            "a reduced axis may have more than one element",
        )


def _of_one(op: Operator) -> Rule:
    @rule(
        "identity",
        name=f"{snake(op)}_of_one",
        statement=f"{op}(x, axes of size 1 kept) = x",
        samples=[
            dict(r=3, x=[1, 3, 1], axes={0, 2}),
            *([dict(r=2, x=[2, 3], axes=set())] if op in PLAIN else []),
        ],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r), law.axes("axes", r)
        _single(law, x, axes)
        law.rewrite(op(x, axes=axes, keepdims=1), x)

    return build


def _of_one_dropped(op: Operator) -> Rule:
    @rule(
        "identity",
        name=f"{snake(op)}_of_one_dropped",
        statement=f"{op}(x, axes of size 1 dropped) = Squeeze(x, axes)",
        samples=[dict(r=3, x=[1, 3, 1], axes={0, 2}), dict(r=2, x=[3, 1], axes={1})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r), law.axes("axes", r)
        _single(law, x, axes)
        law.rewrite(op(x, axes=axes, keepdims=0), Squeeze(x, axes=axes))

    return build


# ---- across a permutation of the axes


def _moved(axes: Axes, p: Perm) -> Axes:
    """Where the axes of Transpose(x, p) stand in x."""
    return Axes(
        axes.length,
        lambda k: axes.has(p.inverse(k)),
        numbering=(
            axes.count,
            lambda k: p(axes.rest(k)),
            lambda k: axes.place(p.inverse(k)),
        ),
    )


def _of_transpose(op: Operator) -> Rule:
    @rule(
        "sink",
        name=f"{snake(op)}_of_transpose",
        statement=f"{op}(Transpose(x, p), axes) = Transpose({op}(x, p(axes)), p)",
        measure="order",
        samples=[dict(r=3, x=[2, 3, 4], p=(2, 0, 1), axes={0, 1})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, p, axes = law.tensor("x", r), law.perm("p", r), law.axes("axes", r)
        moved = axes if law.mutant("unmoved") else _moved(axes, p)
        left = op(Transpose(x, perm=p), axes=axes, keepdims=1)
        law.rewrite(left, Transpose(op(x, axes=moved, keepdims=1), perm=p))

    return build


def _of_transpose_dropped(op: Operator) -> Rule:
    @rule(
        "movement",
        name=f"{snake(op)}_of_transpose_dropped",
        statement=f"{op}(Transpose(x, p), axes) = {op}(x, p(axes)), the axes dropped, "
        "where p keeps the order of the others",
        samples=[dict(r=4, x=[2, 3, 4, 5], p=(0, 2, 3, 1), axes={1, 2})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, p, axes = law.tensor("x", r), law.perm("p", r), law.axes("axes", r)
        if not law.mutant("any_order"):
            law.require(
                forall(
                    r - axes.count - 1,
                    lambda k: p(axes.rest(k)) < p(axes.rest(k + 1)),
                ),
                "the axes that stay change their order",
            )
        left = op(Transpose(x, perm=p), axes=axes, keepdims=0)
        law.rewrite(left, op(x, axes=_moved(axes, p), keepdims=0))

    return build


def _softmax_of_transpose(op: Operator) -> Rule:
    @rule(
        "sink",
        name=f"{op}_of_transpose".lower(),
        statement=f"{op}(Transpose(x, p), a) = Transpose({op}(x, p(a)), p)",
        measure="order",
        samples=[dict(r=3, x=[2, 3, 4], p=(2, 0, 1), a=0)],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, p, axis = law.tensor("x", r), law.perm("p", r), law.axis("a", r)
        moved = axis if law.mutant("unmoved") else p(axis)
        left = op(Transpose(x, perm=p), axis=axis)
        law.rewrite(left, Transpose(op(x, axis=moved), perm=p))

    return build


@rule(
    "definition",
    measure="flops",
    when="asked",
    samples=[dict(r=4, x=[2, 3, 4, 5])],
)
def mean_as_global_average_pool(law: Law) -> None:
    """ReduceMean(x, spatial axes, kept) = GlobalAveragePool(x)"""
    r = law.rank(low=3)
    x = law.tensor("x", r, kinds="float")
    spatial = axis_range(r, 1 if law.mutant("channels") else 2, r)
    law.rewrite(ReduceMean(x, axes=spatial, keepdims=1), GlobalAveragePool(x))


RULES: list[Rule] = [
    *(_of_one(op) for op in (*PLAIN, ReduceLogSumExp)),
    *(_of_one_dropped(op) for op in PLAIN),
    *(_squeeze(op) for op in ALL),
    *(_unsqueeze(op) for op in ALL),
    *(make(op) for make in (_squeeze_arg, _unsqueeze_arg) for op in (ArgMax, ArgMin)),
    *reduction_algebra.RULES,
    *(_of_transpose_dropped(op) for op in PLAIN),
    *(_of_transpose(op) for op in PLAIN),
    *(_softmax_of_transpose(op) for op in (Softmax, LogSoftmax)),
    mean_as_global_average_pool,
]

NOT_SHIPPED = [
    (
        "60 rsum_shift",
        "ReduceSum(x << s) = ReduceSum(x) << s",
        "true modulo 2^w, but ONNX shifts unsigned integers alone and ONNX Runtime "
        "adds up none, so that no model has it",
    ),
    (
        "66 rmax_relu",
        "ReduceMax(f(x)) = f(ReduceMax(x)) for monotone f",
        "true, but the prover doesn't know that a maximum is one of the elements",
    ),
    (
        "67 rsum_rsum, 68 rmax_rmax",
        "ReduceSum(ReduceSum(x, a), b) = ReduceSum(x, a and b), and Max, Min, Prod",
        "true, but the prover doesn't join sums over two sets of axes into one",
    ),
    (
        "70 rsum_reshape",
        "ReduceSum(Reshape(x)) = ReduceSum(x) where the reduced axes stay whole",
        "true, but no exporter writes it and the view is free in PyTorch",
    ),
    (
        "71 rsum_broadcast",
        "ReduceSum(Expand(x, n along a), a) = n * ReduceSum(x, a)",
        "true, but no exporter writes it",
    ),
    (
        "72 rsum_concat",
        "ReduceSum(Concat(x, y)) = ReduceSum(x) + ReduceSum(y) along the axis",
        "true, but three operators instead of two, and as many additions",
    ),
]
