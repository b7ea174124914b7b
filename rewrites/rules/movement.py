"""Expand and Tile: two that are one, or none.

Reshapes and transposes in a row are recognised: recognition/movement_chains.py.
"""

from __future__ import annotations

from ..language.operators.movement import Expand, Tile
from ..language.rule import Law, Rule, rule
from ..language.terms import eq, forall, sizes_of


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
