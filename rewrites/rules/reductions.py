"""Reductions: of nothing, of each other, of what could come after them."""

from __future__ import annotations

from ..language.operators.movement import Squeeze, Transpose
from ..language.operators.pooling import GlobalAveragePool
from ..language.operators.reduction import (
    ArgMax,
    LogSoftmax,
    ReduceMax,
    ReduceMean,
    ReduceProd,
    ReduceSum,
    Softmax,
)
from ..language.pattern import Operator
from ..language.rule import Law, Rule, rule
from ..language.terms import Axes, Perm, axis_range, eq, forall, implies, one_axis
from . import reduction_algebra
from .reduction_algebra import snake

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


@rule(
    "identity",
    samples=[dict(r=3, x=[1, 3, 1], axes={0, 2}), dict(r=2, x=[2, 3], axes=set())],
)
def prod_of_one(law: Law) -> None:
    """ReduceProd(x, axes of size 1 kept) = x"""
    r = law.rank()
    x, axes = law.tensor("x", r), law.axes("axes", r)
    if not law.mutant("any_size"):
        law.require(
            forall(x.rank, lambda k: implies(axes.has(k), eq(x.dim(k), 1))),
            "a reduced axis may have more than one element",
        )
    law.rewrite(ReduceProd(x, axes=axes, keepdims=1), x)


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
    prod_of_one,
    *map(_squeeze, (ReduceSum, ReduceMax, ReduceMean)),
    _squeeze_arg(ArgMax),
    *reduction_algebra.RULES,
    _of_transpose_dropped(ReduceMean),
    *map(_of_transpose, (ReduceSum, ReduceMax, ReduceMean)),
    *map(_softmax_of_transpose, (Softmax, LogSoftmax)),
    mean_as_global_average_pool,
]
