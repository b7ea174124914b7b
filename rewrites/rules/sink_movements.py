"""Movements sink below what computes, where they meet others and cancel."""

from __future__ import annotations

from ..language.operators.elementwise import Where
from ..language.operators.movement import (
    Concat,
    Pad,
    Slice,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from ..language.pattern import Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Fn, IntLike, Perm, axis_range
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


def _with_constant(name: str, side: int, lower: bool) -> Rule:
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

    which = "vector" if lower else "constant"
    operands = "Transpose(x, p), c" if side == 0 else "c, Transpose(x, p)"
    return rule(
        "sinks",
        name=name,
        statement=f"f({operands}) = Transpose(f, p), c a {which} transposed back",
        samples=[
            dict(x=[2, 3, 4], c=[2, 3] if lower else [4, 2, 3], q=2, p=P, f="Sub")
        ],
        measure="order",
    )(build)


# ---- Operators along axes


def _below_concat(name: str, count: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        parts = [law.tensor(f"x{j}", r) for j in range(count)]
        p, a = law.perm("p", r), law.axis("a", r)
        axis = a if law.mutant("unmoved_axis") else p(a)
        left = Concat(*(Transpose(x, perm=p) for x in parts), axis=a)
        law.rewrite(left, Transpose(Concat(*parts, axis=axis), perm=p))

    return rule(
        "sinks",
        name=name,
        statement=f"Concat({count} transposed parts) = Transpose(Concat of the parts)",
        samples=[dict({f"x{j}": [2, j + 3, 4] for j in range(count)}, p=P, a=2)],
    )(build)


@rule(
    "sinks",
    samples=[dict(x=[4, 5, 6], p=P, begin=(1, 0, 2), end=(6, 4, 5), step=(2, 1, 1))],
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


@rule(
    "sinks",
    samples=[dict(x=[4, 5, 6], p=P, low=(1, 0, 2), high=(0, 3, 1))],
    measure="order",
)
def transpose_below_pad(law: Law) -> None:
    """Pad(Transpose(x, p)) = Transpose(Pad(x), p), the pads moved by p"""
    r = law.rank()
    x, p = law.tensor("x", r), law.perm("p", r)
    low, high = law.fn("low", r), law.fn("high", r)

    def moved(f: Fn) -> Fn:
        return f if law.mutant("unmoved") else Fn(r, lambda j: f(p.inverse(j)))

    left = Pad(Transpose(x, perm=p), None, low=low, high=high, mode="constant")
    inner = Pad(x, None, low=moved(low), high=moved(high), mode="constant")
    law.rewrite(left, Transpose(inner, perm=p))


# ---- Other movements


@rule("sinks", samples=[dict(x=[2, 1, 3], axes=(1,), f="Neg")])
def squeeze_around_unary(law: Law) -> None:
    """Unsqueeze(f(Squeeze(x, axes)), axes) = f(x)"""
    r = law.rank()
    x, axes = law.tensor("x", r), law.axes("axes", r)
    f = law.pointwise("f")
    g = law.pointwise("g") if law.mutant("other_function") else f
    law.rewrite(Unsqueeze(f(Squeeze(x, axes=axes)), axes=axes), g(x))


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


RULES: list[Rule] = [
    transpose_below_binary,
    transpose_below_binary_same,
    transpose_below_where,
    _below_concat("transpose_below_concat_2", 2),
    _below_concat("transpose_below_concat_3", 3),
    concat_of_unary,
    transpose_below_unary,
    _with_constant("transpose_below_constant_first", 0, lower=False),
    _with_constant("transpose_below_constant_second", 1, lower=False),
    _with_constant("transpose_below_vector_first", 0, lower=True),
    _with_constant("transpose_below_vector_second", 1, lower=True),
    squeeze_around_unary,
    transpose_below_slice,
    transpose_below_pad,
    slice_of_unary,
]
