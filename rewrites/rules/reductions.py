"""Reductions: of nothing, of each other, of what could come after them."""

from __future__ import annotations

from ..language.operators.movement import Squeeze, Transpose, Unsqueeze
from ..language.operators.pooling import GlobalAveragePool
from ..language.operators.reduction import (
    LogSoftmax,
    ReduceMax,
    ReduceMean,
    ReduceSum,
    Softmax,
)
from ..language.pattern import Operator
from ..language.rule import Law, Rule, rule
from ..language.terms import Axes, Perm, axis_range, forall

# ---- the reduced axes: kept with size 1, or not


def _of_kept(name: str, op: Operator, move: Operator, kept: int) -> Rule:
    """`kept`: whether the reduction that `move` follows keeps the axes."""
    words = ("dropped", "kept")

    @rule(
        "movement",
        name=name,
        statement=f"{move}({op}(x, axes {words[kept]}), axes)"
        f" = {op}(x, axes {words[1 - kept]})",
        samples=[dict(r=3, x=[2, 3, 4], axes={0, 2}), dict(r=2, x=[3, 4], axes={1})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, axes = law.tensor("x", r), law.axes("axes", r)
        others = law.axes("others", r) if law.mutant("other_axes") else axes
        left = move(op(x, axes=axes, keepdims=kept), axes=axes)
        law.rewrite(left, op(x, axes=others, keepdims=1 - kept))

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


def _of_transpose(name: str, op: Operator) -> Rule:
    @rule(
        "sink",
        name=name,
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


def _of_transpose_dropped(name: str, op: Operator) -> Rule:
    @rule(
        "movement",
        name=name,
        statement=f"{op}(Transpose(x, p), axes) = {op}(x, p(axes)), the axes dropped, "
        "where p keeps the order of the others",
        measure="order",
        samples=[dict(r=4, x=[2, 3, 4, 5], p=(0, 2, 3, 1), axes={1, 2})],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, p, axes = law.tensor("x", r), law.perm("p", r), law.axes("axes", r)
        if not law.mutant("any_order"):
            law.require(
                forall(
                    r - axes.count - 1, lambda k: p(axes.rest(k)) < p(axes.rest(k + 1))
                ),
                "the axes that stay change their order",
            )
        left = op(Transpose(x, perm=p), axes=axes, keepdims=0)
        law.rewrite(left, op(x, axes=_moved(axes, p), keepdims=0))

    return build


def _softmax_of_transpose(name: str, op: Operator) -> Rule:
    @rule(
        "sink",
        name=name,
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


@rule("definition", measure="flops", when="asked", samples=[dict(r=4, x=[2, 3, 4, 5])])
def mean_as_global_average_pool(law: Law) -> None:
    """ReduceMean(x, spatial axes, kept) = GlobalAveragePool(x)"""
    r = law.rank(low=3)
    x = law.tensor("x", r, kinds="float")
    spatial = axis_range(r, 1 if law.mutant("channels") else 2, r)
    law.rewrite(ReduceMean(x, axes=spatial, keepdims=1), GlobalAveragePool(x))


RULES: list[Rule] = [
    _of_kept("squeeze_sum", ReduceSum, Squeeze, 1),
    _of_kept("squeeze_mean", ReduceMean, Squeeze, 1),
    _of_kept("unsqueeze_sum", ReduceSum, Unsqueeze, 0),
    _of_kept("unsqueeze_mean", ReduceMean, Unsqueeze, 0),
    _of_transpose_dropped("mean_of_transpose_dropped", ReduceMean),
    _of_transpose_dropped("max_of_transpose_dropped", ReduceMax),
    _of_transpose("sum_of_transpose", ReduceSum),
    _of_transpose("mean_of_transpose", ReduceMean),
    _of_transpose("max_of_transpose", ReduceMax),
    _softmax_of_transpose("softmax_of_transpose", Softmax),
    _softmax_of_transpose("logsoftmax_of_transpose", LogSoftmax),
]
