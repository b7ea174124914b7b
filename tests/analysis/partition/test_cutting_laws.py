"""Laws of cutting that the kernel proves, for tensors of any rank and size.

Two parts stand for any number: a part may itself be joined of parts. What the kernel
has no words for (the groups of Reshape, attention by groups of heads) has no proof of
any rank: test_cuts.py and `fairhand check` evaluate it, case by case.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairhand.rewrites.language.operators.contraction import Gemm, MatMul
from fairhand.rewrites.language.operators.elementwise import Add
from fairhand.rewrites.language.operators.movement import Concat, Transpose
from fairhand.rewrites.language.operators.reduction import ReduceSum, Softmax
from fairhand.rewrites.language.pattern import Var
from fairhand.rewrites.language.rule import Law
from fairhand.rewrites.language.terms import Int, eq, forall, one_axis
from fairhand.rewrites.proof.prove import answer


def alike(law: Law, x: Var, y: Var, but: Int | None = None) -> None:
    """Equal sizes, along every axis or every other one."""
    law.require(
        forall(
            x.rank,
            lambda i: (
                eq(x.dim(i), y.dim(i))
                if but is None
                else (eq(i, but)) | eq(x.dim(i), y.dim(i))
            ),
        )
    )


def pointwise(law: Law) -> None:
    """f(x.., y..) = f(x, y).."""
    r = law.rank(low=1)
    a, f = law.axis("a", r), law.pointwise("f", 2)
    x, u, y, v = (law.tensor(n, r) for n in "xuyv")
    alike(law, x, y)
    alike(law, u, v)
    others = (v, y) if law.mutant("swapped") else (y, v)
    whole = f(Concat(x, u, axis=a), Concat(*others, axis=a))
    law.rewrite(whole, Concat(f(x, y), f(u, v), axis=a))


def unary(law: Law) -> None:
    """f(x..) = f(x).."""
    r = law.rank(low=1)
    a, f = law.axis("a", r), law.pointwise("f")
    parts = law.many("x", r, lambda x: f(x))
    g = law.pointwise("g") if law.mutant("other") else f
    law.rewrite(g(Concat(parts.map(None), axis=a)), Concat(parts, axis=a))


def transposed(law: Law) -> None:
    """Transpose(x..) = Transpose(x).., along where the axis goes"""
    r = law.rank(low=1)
    p, a = law.perm("p", r), law.axis("a", r)
    x, y = law.tensor("x", r), law.tensor("y", r)
    axis = a if law.mutant("unmoved") else p(a)
    whole = Transpose(Concat(x, y, axis=axis), perm=p)
    law.rewrite(whole, Concat(Transpose(x, perm=p), Transpose(y, perm=p), axis=a))


def columns(law: Law) -> None:
    """x @ (v, w) = x @ v, x @ w"""
    r = law.rank(low=2)
    x, v, w = law.tensor("x", r), law.tensor("v", 2), law.tensor("w", 2)
    axis = r - 2 if law.mutant("rows") else r - 1
    whole = MatMul(x, Concat(v, w, axis=1))
    law.rewrite(whole, Concat(MatMul(x, v), MatMul(x, w), axis=axis))


def rows(law: Law) -> None:
    """(x, y) @ (v; w) = x @ v + y @ w"""
    r = law.rank(low=2)
    x, y = law.tensor("x", r), law.tensor("y", r)
    v, w = law.tensor("v", 2), law.tensor("w", 2)
    law.require(eq(x.dim(r - 1), v.dim(0)))
    law.require(eq(y.dim(r - 1), w.dim(0)))
    one, other = MatMul(x, v), MatMul(y, w)
    sums = one if law.mutant("dropped") else Add(one, other)
    law.rewrite(MatMul(Concat(x, y, axis=r - 1), Concat(v, w, axis=0)), sums)


def batch(law: Law) -> None:
    """(x, y) @ w = x @ w, y @ w, along any axis but the last"""
    r = law.rank(low=2)
    x, y, w = law.tensor("x", r), law.tensor("y", r), law.tensor("w", 2)
    a = law.axis("a", r)
    law.require(~eq(a, r - 1))
    parts = [MatMul(x, w), MatMul(y, w)]
    whole = MatMul(Concat(x, y, axis=a), w)
    law.rewrite(whole, Concat(*(parts[::-1] if law.mutant("order") else parts), axis=a))


def gemm_columns(law: Law) -> None:
    """Gemm(x, (v; w)^T, (b, c)) = Gemm(x, v^T, b), Gemm(x, w^T, c)"""
    x, v, w = (law.tensor(n, 2) for n in "xvw")
    b, c = law.tensor("b", 1), law.tensor("c", 1)
    law.require(eq(b.dim(0), v.dim(0)))
    law.require(eq(c.dim(0), w.dim(0)))
    how = dict(alpha=1.0, beta=1.0, transA=0, transB=1)
    parts = [Gemm(x, v, b, **how), Gemm(x, w, c, **how)]
    whole = Gemm(x, Concat(v, w, axis=0), Concat(b, c, axis=0), **how)
    law.rewrite(whole, Concat(*parts, axis=0 if law.mutant("rows") else 1))


def softmax(law: Law) -> None:
    """Softmax(x..) = Softmax(x).., along another axis"""
    r = law.rank(low=1)
    x, y = law.tensor("x", r), law.tensor("y", r)
    a, b = law.axis("a", r), law.axis("b", r)
    if not law.mutant("same_axis"):
        law.require(~eq(a, b))
    whole = Softmax(Concat(x, y, axis=a), axis=b)
    law.rewrite(whole, Concat(Softmax(x, axis=b), Softmax(y, axis=b), axis=a))


def joined(law: Law) -> None:
    """Concat((x, y), (u, v)) along b = (Concat(x, u), Concat(y, v)) along a"""
    r = law.rank(low=1)
    x, y, u, v = (law.tensor(n, r) for n in "xyuv")
    a, b = law.axis("a", r), law.axis("b", r)
    law.require(~eq(a, b))
    others = [Concat(x, v, axis=b), Concat(y, u, axis=b)]
    parts = [Concat(x, u, axis=b), Concat(y, v, axis=b)]
    whole = Concat(Concat(x, y, axis=a), Concat(u, v, axis=a), axis=b)
    law.require(eq(x.dim(a), u.dim(a)))
    law.require(eq(y.dim(a), v.dim(a)))
    law.rewrite(whole, Concat(*(others if law.mutant("crossed") else parts), axis=a))


def experts(law: Law) -> None:
    """(x, y) @ (v, w) = x @ v, y @ w, along an axis ahead of both matrices"""
    r = law.rank(low=3)
    x, y, v, w = (law.tensor(n, r) for n in "xyvw")
    a = law.axis("a", r)
    law.require(~eq(a, r - 1))
    law.require(~eq(a, r - 2))
    law.require(eq(x.dim(a), v.dim(a)))
    law.require(eq(y.dim(a), w.dim(a)))
    others = (w, v) if law.mutant("crossed") else (v, w)
    parts = [MatMul(x, others[0]), MatMul(y, others[1])]
    whole = MatMul(Concat(x, y, axis=a), Concat(v, w, axis=a))
    law.rewrite(whole, Concat(*parts, axis=a))


def added(law: Law) -> None:
    """ReduceSum(x, y) = ReduceSum(x) + ReduceSum(y), along the last axis: to where a
    Transpose takes any other"""
    r = law.rank(low=1)
    x, y = law.tensor("x", r), law.tensor("y", r)
    over = dict(axes=one_axis(r, r - 1), keepdims=1)
    one, other = ReduceSum(x, **over), ReduceSum(y, **over)
    whole = ReduceSum(Concat(x, y, axis=r - 1), **over)
    law.rewrite(whole, one if law.mutant("dropped") else Add(one, other))


LAWS: list[tuple[Callable[[Law], None], str]] = [
    (unary, "other"),
    (pointwise, "swapped"),
    (transposed, "unmoved"),
    (columns, "rows"),
    (rows, "dropped"),
    (batch, "order"),
    (gemm_columns, "rows"),
    (softmax, "same_axis"),
    (joined, "crossed"),
    (experts, "crossed"),
    (added, "dropped"),
]


SLOW = {softmax, transposed}


@pytest.mark.parametrize(
    ("build", "mutant"),
    [
        pytest.param(
            *law, marks=[pytest.mark.slow] * (law[0] in SLOW), id=law[0].__name__
        )
        for law in LAWS
    ],
)
def test_the_kernel_proves_it_and_refuses_its_mutant(
    build: Callable[[Law], None], mutant: str
) -> None:
    for active in ("", mutant):
        law = Law(active)
        build(law)
        found, why = answer(law)
        assert bool(found) == (not active), why
