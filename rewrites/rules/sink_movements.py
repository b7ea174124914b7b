"""Movements sink below what computes, where they meet others and cancel."""

from __future__ import annotations

from typing import Any

from ..language.operators.elementwise import Where
from ..language.operators.movement import (
    Concat,
    Gather,
    Pad,
    Slice,
    Transpose,
    Unsqueeze,
)
from ..language.operators.reduction import (
    LogSoftmax,
    ReduceL2,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceSum,
    Softmax,
)
from ..language.pattern import Operator, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Fn, IntLike, Perm, axis_range, eq, forall, one_axis
from .movement import in_order, moved_axes
from .slices import Cut

P = (2, 0, 1)  # of the samples


def _turned(law: Law, rank: IntLike) -> tuple[Perm, Perm]:
    """A permutation, and the one that the right side has."""
    p = law.perm("p", rank)
    return p, p.inverted() if law.mutant("inverse") else p


@rule("sinks", samples=[dict(x=[2, 3, 4], p=P, f="Exp")], measure="order")
def transpose_below_unary(law: Law) -> None:
    """f(Transpose(x, p)) = Transpose(f(x), p)"""
    r = law.rank()
    x = law.tensor("x", r)
    p, q = _turned(law, r)
    f = law.pointwise("f")
    law.rewrite(f(Transpose(x, perm=p)), Transpose(f(x), perm=q))


@rule("sinks", samples=[dict(x=[2, 3, 4], y=[2, 3, 1], p=P, f="Sub")])
def transpose_below_binary(law: Law) -> None:
    """f(Transpose(x, p), Transpose(y, p)) = Transpose(f(x, y), p)"""
    r = law.rank()
    x, y = law.tensor("x", r), law.tensor("y", r)
    p, q = _turned(law, r)
    f = law.pointwise("f", 2)
    left = f(Transpose(x, perm=p), Transpose(y, perm=p))
    law.rewrite(left, Transpose(f(x, y), perm=q))


@rule("sinks", samples=[dict(x=[2, 3, 4], p=P, f="Sub")], measure="order")
def transpose_below_binary_same(law: Law) -> None:
    """f(Transpose(x, p), x') where x' is Transpose(x, p) too = Transpose(f(x, x), p)"""
    r = law.rank()
    x = law.tensor("x", r)
    p, q = _turned(law, r)
    f = law.pointwise("f", 2)
    turned = Transpose(x, perm=p)
    law.rewrite(f(turned, turned), Transpose(f(x, x), perm=q))


@rule("sinks", samples=[dict(c=[2, 3, 4], x=[2, 3, 1], y=[1, 3, 4], p=P)])
def transpose_below_where(law: Law) -> None:
    """Where of three transposed tensors = Transpose(Where of them)"""
    r = law.rank()
    c = law.tensor("c", r, kinds="bool")
    x, y = law.tensor("x", r), law.tensor("y", r)
    p, q = _turned(law, r)
    left = Where(*(Transpose(t, perm=p) for t in (c, x, y)))
    law.rewrite(left, Transpose(Where(c, x, y), perm=q))


def _with_constant(side: int, lower: bool) -> Rule:
    """A constant as the other operand; `lower`: with fewer axes than x."""

    def build(law: Law) -> None:
        r = law.rank()
        x = law.tensor("x", r)
        p = law.perm("p", r)
        rank = law.int("q", 0, r - 1) if lower else r
        c: Term = law.constant("c", rank)
        f = law.pointwise("f", 2)
        turned: list[Term] = [Transpose(x, perm=p), c]
        if lower:
            c = Unsqueeze(c, axes=axis_range(r, 0, r - rank))
        back = p if law.mutant("inverse") else p.inverted()
        straight: list[Term] = [x, Transpose(c, perm=back)]
        left, right = (
            f(*(pair[i] for i in (side, 1 - side))) for pair in (turned, straight)
        )
        law.rewrite(left, Transpose(right, perm=p))

    name = ("first", "second")[side]
    which = "vector" if lower else "constant"
    operands = "Transpose(x, p), c" if side == 0 else "c, Transpose(x, p)"
    return rule(
        "sinks",
        name=f"transpose_below_{which}_{name}",
        statement=f"f({operands}) = Transpose(f, p), c a {which} transposed back",
        samples=[
            dict(x=[2, 3, 4], c=[2, 3] if lower else [4, 2, 3], q=2, p=P, f="Sub")
        ],
        measure="order",
    )(build)


# ---- Operators along axes


def _below_softmax(op: Operator) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        x = law.tensor("x", r)
        p, a = law.perm("p", r), law.axis("a", r)
        axis = a if law.mutant("unmoved_axis") else p(a)
        left = op(Transpose(x, perm=p), axis=a)
        law.rewrite(left, Transpose(op(x, axis=axis), perm=p))

    return rule(
        "sinks",
        name=f"transpose_below_{op.name.lower()}",
        statement=f"{op}(Transpose(x, p), a) = Transpose({op}(x, p(a)), p)",
        samples=[dict(x=[2, 3, 4], p=P, a=1)],
        measure="order",
    )(build)


def _below_reduction(op: Operator) -> Rule:
    """Over one axis, which stays, with size 1."""

    def build(law: Law) -> None:
        r = law.rank(low=1)
        x = law.tensor("x", r)
        p, a = law.perm("p", r), law.axis("a", r)
        moved = one_axis(r, a if law.mutant("unmoved") else p(a))
        left = op(Transpose(x, perm=p), axes=one_axis(r, a), keepdims=1)
        law.rewrite(left, Transpose(op(x, axes=moved, keepdims=1), perm=p))

    return rule(
        "sinks",
        name=f"transpose_below_{op.name.lower()}",
        statement=f"{op}(Transpose(x, p), a) = Transpose({op}(x, p(a)), p)",
        samples=[dict(r=4, x=[2, 3, 4, 5], p=(2, 0, 3, 1), a=1)],
        measure="order",
    )(build)


def _reduction_of_transpose(op: Operator, several: bool) -> Rule:
    """The reduced axes fall away, and the rest stand as before."""

    def build(law: Law) -> None:
        r = law.rank(low=1)
        x = law.tensor("x", r)
        p = law.perm("p", r)
        if several:
            axes = law.axes("A", r)
            in_order(law, p, axes)
            moved = moved_axes(p, axes)
        else:
            a = law.axis("a", r)
            axes, moved = one_axis(r, a), one_axis(r, p(a))
            if not law.mutant("any_order"):
                stays = forall(
                    r, lambda j: eq(j, a) | eq(moved.place(p(j)), axes.place(j))
                )
                law.require(stays, "the remaining axes change their order")
        left = op(Transpose(x, perm=p), axes=axes, keepdims=0)
        law.rewrite(left, op(x, axes=moved, keepdims=0))

    sample = dict(p=(0, 2, 3, 1), A={1, 2}) if several else dict(p=(1, 0, 2, 3), a=0)
    return rule(
        "sinks",
        name=f"{op.name.lower()}_of_transpose{'_of_several' if several else ''}",
        statement=f"{op}(Transpose(x, p), A) = {op}(x, p(A)), the rest in order",
        samples=[dict(r=4, x=[2, 3, 4, 5], **sample)],
    )(build)


def _below_concat(count: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        parts = [law.tensor(f"x{j}", r) for j in range(count)]
        p, a = law.perm("p", r), law.axis("a", r)
        axis = a if law.mutant("unmoved_axis") else p(a)
        left = Concat(*(Transpose(x, perm=p) for x in parts), axis=a)
        law.rewrite(left, Transpose(Concat(*parts, axis=axis), perm=p))

    return rule(
        "sinks",
        name=f"transpose_below_concat_{count}",
        statement=f"Concat({count} transposed parts) = Transpose(Concat of the parts)",
        samples=[dict({f"x{j}": [2, j + 3, 4] for j in range(count)}, p=P, a=2)],
    )(build)


@rule(
    "sinks",
    samples=[
        dict(x=[4, 5, 6], p=P, begin=(1, 0, 2), end=(6, 4, 5), step=(2, 1, 1)),
    ],
    measure="order",
)
def transpose_below_slice(law: Law) -> None:
    """Slice(Transpose(x, p)) = Transpose(Slice(x), p), the bounds moved by p"""
    r = law.rank()
    x = law.tensor("x", r)
    p, cut = law.perm("p", r), Cut(law, r)

    def moved(f: Fn) -> Fn:
        return f if law.mutant("unmoved") else Fn(r, lambda j: f(p.inverse(j)))

    inner = Slice(x, begin=moved(cut.begin), end=moved(cut.end), step=moved(cut.step))
    law.rewrite(cut.of(Transpose(x, perm=p)), Transpose(inner, perm=p))


def _below_pad(mode: str, given: bool) -> Rule:
    def build(law: Law) -> None:
        r = law.rank()
        x = law.tensor("x", r)
        v = law.tensor("v", 0) if given else None
        p = law.perm("p", r)
        low, high = law.fn("low", r), law.fn("high", r)

        def moved(f: Fn) -> Fn:
            return f if law.mutant("unmoved") else Fn(r, lambda j: f(p.inverse(j)))

        left = Pad(Transpose(x, perm=p), v, low=low, high=high, mode=mode)
        inner = Pad(x, v, low=moved(low), high=moved(high), mode=mode)
        law.rewrite(left, Transpose(inner, perm=p))

    return rule(
        "sinks",
        name=f"transpose_below_pad_{mode}{'_by_value' if given else ''}",
        statement="Pad(Transpose(x, p)) = Transpose(Pad(x), p), the pads moved by p",
        samples=[dict(x=[4, 5, 6], p=P, low=(1, 0, 2), high=(0, 3, 1), v=0.5)],
        measure="order",
    )(build)


# ---- Other movements


@rule("sinks", samples=[dict(x=[[2, 3], [2, 5]], a=1, f="Relu")], when="search")
def concat_of_unary(law: Law) -> None:
    """Concat(f(x)..) = f(Concat(x..))

    Not always: it takes activations out of the branches, which are alike with them.
    """
    r = law.rank(low=1)
    a = law.axis("a", r)
    f = law.pointwise("f")
    parts = law.many("x", r, lambda x: f(x))
    g = law.pointwise("g") if law.mutant("other_function") else f
    law.rewrite(Concat(parts, axis=a), g(Concat(parts.map(None), axis=a)))


@rule(
    "sinks",
    samples=[dict(x=[4, 5], begin=(1, 0), end=(4, 5), step=(2, 1), f="Exp")],
    measure="flops",
)
def slice_of_unary(law: Law) -> None:
    """Slice(f(x)) = f(Slice(x)), which computes less"""
    r = law.rank()
    x = law.tensor("x", r)
    f, cut = law.pointwise("f"), Cut(law, r)
    g = law.pointwise("g") if law.mutant("other_function") else f
    law.rewrite(cut.of(f(x)), g(cut.of(x)))


@rule("sinks", samples=[dict(x=[4, 5], i=2, a=1, f="Exp")], measure="flops")
def gather_of_unary(law: Law) -> None:
    """Gather(f(x), i) = f(Gather(x, i)), i a scalar, which computes less"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    i = law.constant("i", 0, kinds="int")
    f = law.pointwise("f")
    g = law.pointwise("g") if law.mutant("other_function") else f
    law.rewrite(Gather(f(x), i, axis=a), g(Gather(x, i, axis=a)))


@rule(
    "sinks",
    samples=[dict(x=[4, 5], low=(1, 0), high=(4, 5), f="Relu")],
    measure="flops",
)
def unary_of_pad(law: Law) -> None:
    """f(Pad(x)) = Pad(f(x)) where f(0) = 0, which computes less"""
    r = law.rank()
    x = law.tensor("x", r)
    low, high = law.fn("low", r), law.fn("high", r)
    family = "unary" if law.mutant("any_function") else "zero"
    f = law.pointwise("f", family=family)
    pads: dict[str, Any] = dict(low=low, high=high, mode="constant")
    law.rewrite(f(Pad(x, None, **pads)), Pad(f(x), None, **pads))


REDUCTIONS = (ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceL2)
RULES: list[Rule] = [
    transpose_below_binary,
    transpose_below_binary_same,
    transpose_below_where,
    *(_below_concat(count) for count in (2, 3, 4)),
    concat_of_unary,
    transpose_below_unary,
    *(_with_constant(side, lower) for lower in (False, True) for side in (0, 1)),
    *(_below_softmax(op) for op in (Softmax, LogSoftmax)),
    *(_reduction_of_transpose(op, several=False) for op in REDUCTIONS),
    *(_below_reduction(op) for op in REDUCTIONS),
    _reduction_of_transpose(ReduceMean, several=True),
    transpose_below_slice,
    *(_below_pad(mode, False) for mode in ("constant", "edge", "reflect")),
    _below_pad("constant", True),
    slice_of_unary,
    gather_of_unary,
    unary_of_pad,
]
