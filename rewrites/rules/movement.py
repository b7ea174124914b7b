"""Transpose, Squeeze, Unsqueeze, Expand, Tile: two movements that are one, or none."""

from __future__ import annotations

from ..language.operators.movement import Expand, Squeeze, Tile, Transpose, Unsqueeze
from ..language.rule import Law, Rule, rule
from ..language.terms import (
    Axes,
    Perm,
    choose,
    eq,
    forall,
    implies,
    one_axis,
    sizes_of,
)

# ---- Transpose


@rule("movement", samples=[dict(r=3, x=[2, 3, 4], p=(2, 0, 1), q=(0, 2, 1))])
def transpose_transpose(law: Law) -> None:
    """Transpose(Transpose(x, p), q) = Transpose(x, p then q)"""
    r = law.rank()
    x = law.tensor("x", r)
    p, q = law.perm("p", r), law.perm("q", r)
    both = p.after(q) if law.mutant("swap") else q.after(p)
    law.rewrite(Transpose(Transpose(x, perm=p), perm=q), Transpose(x, perm=both))


@rule("movement", samples=[dict(r=3, x=[2, 0, 4], p=(0, 1, 2))])
def transpose_identity(law: Law) -> None:
    """Transpose(x, identity) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    p = law.perm("p", r)
    if not law.mutant("any_permutation"):
        law.require(forall(r, lambda k: eq(p(k), k)), "the axes move")
    law.rewrite(Transpose(x, perm=p), x)


@rule("movement", samples=[dict(r=4, x=[1, 3, 4, 2], p=(1, 0, 2), a=0, b=0)])
def squeeze_transpose_unsqueeze(law: Law) -> None:
    """Unsqueeze(Transpose(Squeeze(x, a), p), b) = Transpose(x, p around a)"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a, b = law.axis("a", r), law.axis("b", r)
    p = law.perm("p", r - 1)
    out, new = one_axis(r, a), one_axis(r, b)
    first = b if law.mutant("other_axis") else a
    around = Perm(
        r,
        lambda k: choose(eq(k, b), first, out.rest(p(new.place(k)))),
        lambda j: choose(eq(j, first), b, new.rest(p.inverse(out.place(j)))),
    )
    left = Unsqueeze(Transpose(Squeeze(x, axes=out), perm=p), axes=new)
    law.rewrite(left, Transpose(x, perm=around))


def in_order(law: Law, p: Perm, axes: Axes) -> None:
    """The axes outside the set keep their order under p."""
    if law.mutant("any_order"):
        return
    law.require(
        forall(
            axes.length - axes.count,
            lambda k: implies(k > 0, p(axes.rest(k - 1)) < p(axes.rest(k))),
        ),
        "axes of other sizes than 1 change their order",
    )


def moved_axes(p: Perm, axes: Axes) -> Axes:
    """p(A), where the axes outside A keep their order."""
    return Axes(
        axes.length,
        lambda j: axes.has(p.inverse(j)),
        numbering=(
            axes.count,
            lambda k: p(axes.rest(k)),
            lambda j: axes.place(p.inverse(j)),
        ),
    )


@rule("movement", samples=[dict(r=4, x=[2, 1, 3, 1], p=(1, 0, 3, 2), A={0, 2})])
def squeeze_transpose(law: Law) -> None:
    """Squeeze(Transpose(x, p), A) = Squeeze(x, p(A)), the other axes being in order"""
    r = law.rank()
    x = law.tensor("x", r)
    p, axes = law.perm("p", r), law.axes("A", r)
    in_order(law, p, axes)
    moved = moved_axes(p, axes)
    law.rewrite(Squeeze(Transpose(x, perm=p), axes=axes), Squeeze(x, axes=moved))


@rule("movement", samples=[dict(q=2, x=[2, 3], p=(1, 0, 3, 2), A={0, 2})])
def transpose_unsqueeze(law: Law) -> None:
    """Transpose(Unsqueeze(x, A), p) = Unsqueeze(x, p^-1(A)), x's axes being in order"""
    q = law.rank("q")
    x = law.tensor("x", q)
    axes = law.new_axes("A", q)
    p = law.perm("p", axes.length)
    in_order(law, p.inverted(), axes)
    moved = moved_axes(p.inverted(), axes)
    law.rewrite(Transpose(Unsqueeze(x, axes=axes), perm=p), Unsqueeze(x, axes=moved))


# ---- Squeeze and Unsqueeze


@rule("movement", samples=[dict(r=2, x=[2, 3], A={0, 2})])
def squeeze_unsqueeze(law: Law) -> None:
    """Squeeze(Unsqueeze(x, A), A) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    added = law.new_axes("A", r)
    removed = added
    if law.mutant("other_axes"):
        removed = law.new_axes("B", r)
    law.rewrite(Squeeze(Unsqueeze(x, axes=added), axes=removed), x)


@rule("movement", samples=[dict(r=4, x=[1, 3, 1, 2], A={0, 2})])
def unsqueeze_squeeze(law: Law) -> None:
    """Unsqueeze(Squeeze(x, A), A) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    removed = law.axes("A", r)
    added = removed
    if law.mutant("other_axes"):
        added = law.new_axes("B", r - removed.count)
    law.rewrite(Unsqueeze(Squeeze(x, axes=removed), axes=added), x)


@rule("movement", samples=[dict(r=2, x=[2, 3], A={0, 2}, B={1, 4})])
def unsqueeze_unsqueeze(law: Law) -> None:
    """Unsqueeze(Unsqueeze(x, A), B) = Unsqueeze(x, A and B)"""
    r = law.rank()
    x = law.tensor("x", r)
    a = law.new_axes("A", r)
    b = law.new_axes("B", a.length)
    both = Axes(
        b.length,
        (
            (lambda k: b.has(k) | a.has(k))
            if law.mutant("unshifted")
            else (lambda k: b.has(k) | a.has(b.place(k)))
        ),
        numbering=(
            a.count + b.count,
            lambda k: b.rest(a.rest(k)),
            lambda j: a.place(b.place(j)),
        ),
    )
    law.rewrite(Unsqueeze(Unsqueeze(x, axes=a), axes=b), Unsqueeze(x, axes=both))


@rule("movement", samples=[dict(r=5, x=[1, 2, 1, 3, 1], A={0, 2}, B={2})])
def squeeze_squeeze(law: Law) -> None:
    """Squeeze(Squeeze(x, A), B) = Squeeze(x, A and B)"""
    r = law.rank()
    x = law.tensor("x", r)
    a = law.axes("A", r)
    b = law.axes("B", r - a.count)
    both = Axes(
        r,
        (
            (lambda k: a.has(k) | b.has(k))
            if law.mutant("unshifted")
            else (lambda k: a.has(k) | b.has(a.place(k)))
        ),
        numbering=(
            a.count + b.count,
            lambda k: a.rest(b.rest(k)),
            lambda j: b.place(a.place(j)),
        ),
    )
    law.rewrite(Squeeze(Squeeze(x, axes=a), axes=b), Squeeze(x, axes=both))


# ---- Expand and Tile


@rule("movement", samples=[dict(r=2, x=[2, 3], s=[2, 3])])
def expand_identity(law: Law) -> None:
    """Expand(x, shape of x) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    s = law.sizes("s", r)
    if not law.mutant("any_shape"):
        law.require(forall(r, lambda k: eq(s.dim(k), x.dim(k))), "x is enlarged")
    law.rewrite(Expand(x, shape=s), x)


@rule("movement", samples=[dict(q=1, x=[3], m=2, s=[2, 3], r=3, t=[4, 2, 3])])
def expand_expand(law: Law) -> None:
    """Expand(Expand(x, s), t) = Expand(x, t)"""
    q, m, r = law.rank("q"), law.rank("m"), law.rank()
    x = law.tensor("x", q)
    s, t = law.sizes("s", m), law.sizes("t", r)
    right = Expand(x, shape=s if law.mutant("inner") else t)
    law.rewrite(Expand(Expand(x, shape=s), shape=t), right)


def _without_expand(name: str, side: int) -> Rule:
    """An operand that was enlarged to where the other one enlarges it anyway."""

    def build(law: Law) -> None:
        r = law.rank()
        x, y = law.tensor("x", r), law.tensor("y", r)
        s, f = law.sizes("s", r), law.pointwise("f", 2)
        if not law.mutant("enlarging"):
            law.require(
                forall(r, lambda k: eq(s.dim(k), x.dim(k)) | eq(s.dim(k), y.dim(k))),
                "the result is larger for it",
            )
        enlarged = Expand(x, shape=s)
        if side == 0:
            law.rewrite(f(enlarged, y), f(x, y))
        else:
            law.rewrite(f(y, enlarged), f(y, x))

    said = ("f(Expand(x), y) = f(x, y)", "f(y, Expand(x)) = f(y, x)")[side]
    sample = dict(r=2, x=[2, 1], s=[2, 3], y=[2, 3], f="Sub")
    statement = f"{said}, y being as large"
    return rule("movement", name=name, statement=statement, samples=[sample])(build)


expand_first = _without_expand("expand_first", 0)
expand_second = _without_expand("expand_second", 1)


# An Expand is a view: nothing is copied.
@rule("movement", samples=[dict(r=3, x=[2, 1, 3], n=(1, 4, 1))], measure="flops")
def tile_to_expand(law: Law) -> None:
    """Tile(x, n) = Expand(x, the shape of that), where axes of size 1 are repeated"""
    r = law.rank()
    x = law.tensor("x", r)
    n = law.fn("n", r)
    if not law.mutant("any_axis"):
        ones = forall(r, lambda k: eq(n(k), 1) | eq(x.dim(k), 1))
        law.require(ones, "an axis of another size than 1 is repeated")
    left = Tile(x, repeats=n)
    law.rewrite(left, Expand(x, shape=sizes_of(left)))


@rule("movement", false=True)
def expand_in_two_of_any_size(law: Law) -> None:
    """f(Expand(x), y) = f(x, y), whatever the sizes"""
    r = law.rank()
    x, y = law.tensor("x", r), law.tensor("y", r)
    f = law.pointwise("f", 2)
    law.rewrite(f(Expand(x, shape=law.sizes("s", r)), y), f(x, y))


RULES: list[Rule] = [
    transpose_transpose,
    transpose_identity,
    squeeze_transpose_unsqueeze,
    squeeze_transpose,
    transpose_unsqueeze,
    squeeze_unsqueeze,
    unsqueeze_squeeze,
    unsqueeze_unsqueeze,
    squeeze_squeeze,
    expand_identity,
    expand_expand,
    expand_first,
    expand_second,
    tile_to_expand,
]
FALSE_RULES = [expand_in_two_of_any_size]
