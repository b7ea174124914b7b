"""Movements sink below what computes, where they meet others and cancel."""

from __future__ import annotations

from ..language.operators.elementwise import PRelu, Where
from ..language.operators.movement import (
    Concat,
    Pad,
    Slice,
    Split,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from ..language.pattern import Operator, Term
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


@rule("sinks", samples=[dict(c=[2, 3, 4], x=[2, 3, 1], y=[1, 3, 4], p=P)])
def transpose_below_where(law: Law) -> None:
    """Where of three transposed tensors = Transpose(Where of them)"""
    r = law.rank()
    c = law.tensor("c", r, kinds="bool")
    x, y = law.tensor("x", r), law.tensor("y", r)
    p, q = _turned(law, r)
    left = Where(*(Transpose(t, perm=p) for t in (c, x, y)))
    law.rewrite(left, Transpose(Where(c, x, y), perm=q))


def _with_other(name: str, side: int, what: str, op: Operator | None = None) -> Rule:
    """The other operand: a "constant", a "vector" with fewer axes than x, or a "value"
    which is transposed elsewhere, too."""
    lower = what == "vector"

    def build(law: Law) -> None:
        r = law.rank()
        x = law.tensor("x", r)
        p = law.perm("p", r)
        rank = law.int("q", 0, r - 1) if lower else r
        other = law.tensor if what == "value" else law.constant
        c: Term = other("c", rank)
        f = op or law.pointwise("f", 2)
        turned: list[Term] = [Transpose(x, perm=p), c]
        if lower:
            c = Unsqueeze(c, axes=axis_range(r, 0, r - rank))
        back = p if law.mutant("inverse") else p.inverted()
        straight: list[Term] = [x, Transpose(c, perm=back)]
        left, right = (
            f(*(pair[i] for i in (side, 1 - side))) for pair in (turned, straight)
        )
        law.rewrite(left, Transpose(right, perm=p))

    operands = "Transpose(x, p), c" if side == 0 else "c, Transpose(x, p)"
    return rule(
        "sinks",
        name=name,
        statement=f"{op or 'f'}({operands}) = Transpose, p, c a {what} turned back",
        samples=[
            dict(x=[2, 3, 4], c=[2, 3] if lower else [4, 2, 3], q=2, p=P)
            | ({} if op else {"f": "Sub"})
        ],
        measure="order",
        when="layout" if what == "value" else "always",
    )(build)


# ---- Operators along axes


@rule("sinks", samples=[dict(x=[[2, 3, 4], [2, 5, 4]], p=P, a=2)])
def transpose_below_concat(law: Law) -> None:
    """Concat(Transpose(x, p)..) = Transpose(Concat(x..), p)"""
    r = law.rank(low=1)
    p, a = law.perm("p", r), law.axis("a", r)
    axis = a if law.mutant("unmoved_axis") else p(a)
    parts = law.many("x", r, lambda x: Transpose(x, perm=p))
    joined = Concat(parts.map(None), axis=axis)
    law.rewrite(Concat(parts, axis=a), Transpose(joined, perm=p))


def _below_split(count: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        x, p, a = law.tensor("x", r), law.perm("p", r), law.axis("a", r)
        sizes = law.fn("sizes", count)
        left = Split.all(Transpose(x, perm=p), count=count, axis=a, sizes=sizes)
        axis = a if law.mutant("unmoved_axis") else p(a)
        parts = Split.all(x, count=count, axis=axis, sizes=sizes)
        law.rewrite(left, [Transpose(part, perm=p) for part in parts])

    return rule(
        "sinks",
        name=f"transpose_below_split_{count}",
        statement=f"Split(Transpose(x, p)) = Transposes of Split(x), {count} parts",
        samples=[
            dict(
                x=[2, 9 + count * (count - 1) // 2, 4],
                p=P,
                a=2,
                sizes=(*range(1, count), 9),
            )
        ],
        when="layout",
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
    *map(_below_split, (2, 3, 4)),
    _with_other("transpose_below_constant_first", 0, "constant"),
    _with_other("transpose_below_constant_second", 1, "constant"),
    _with_other("transpose_below_vector_first", 0, "vector"),
    _with_other("transpose_below_vector_second", 1, "vector"),
    _with_other("transpose_below_value_first", 0, "value"),
    _with_other("transpose_below_value_second", 1, "value"),
    _with_other("transpose_below_slopes", 0, "constant", PRelu),
    _with_other("transpose_below_slope", 0, "vector", PRelu),
]
