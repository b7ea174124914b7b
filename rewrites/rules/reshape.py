"""Reshapes around a transposition that move blocks of an image; one behind a function.

Reshapes and transposes in a row are recognised: recognition/movement_chains.py.
"""

from __future__ import annotations

from ..language.operators.movement import DepthToSpace, Reshape, SpaceToDepth, Transpose
from ..language.rule import Law, Rule, rule
from ..language.terms import Perm, eq, fixed


def _shuffle(name: str, mode: str, block_axes: tuple[int, int], channel: int) -> Rule:
    """Channels that hold b x b blocks become the blocks."""
    first, second = block_axes

    def build(law: Law) -> None:
        x = law.tensor("x", 4)
        s, t = law.sizes("s", 6), law.sizes("t", 4)
        b = s.dim(first)
        perm = (0, channel, 4, first, 5, second)
        if law.mutant("other_order"):
            perm = (0, channel, 4, second, 5, first)
        law.require(eq(s.dim(second), b) & (b >= 1), "blocks that aren't square")
        law.require(
            eq(s.dim(0), x.dim(0))
            & eq(x.dim(1), s.dim(channel) * b * b)
            & eq(x.dim(1) // (b * b), s.dim(channel))
            & eq(s.dim(4), x.dim(2))
            & eq(s.dim(5), x.dim(3)),
            "channels are split in another way",
        )
        law.require(
            eq(t.dim(0), x.dim(0))
            & eq(t.dim(1), s.dim(channel))
            & eq(t.dim(2), s.dim(4) * b)
            & eq(t.dim(3), s.dim(5) * b),
            "axes are joined in another way",
        )
        moved = Transpose(Reshape(x, shape=s), perm=_permutation(perm))
        law.rewrite(Reshape(moved, shape=t), DepthToSpace(x, blocksize=b, mode=mode))

    split = [2, 2, 2, 2, 3, 5]
    split[channel] = 7
    return rule(
        "reshape",
        name=name,
        statement=f"Reshape(Transpose(Reshape(x))) = DepthToSpace(x), mode {mode}",
        samples=[dict(x=[2, 28, 3, 5], s=split, t=[2, 7, 6, 10])],
    )(build)


def _permutation(axes: tuple[int, ...]) -> Perm:
    inverse = [axes.index(k) for k in range(len(axes))]
    return Perm(len(axes), fixed(axes), fixed(inverse))


@rule("reshape", samples=[dict(x=[2, 7, 6, 10], s=[2, 7, 3, 2, 5, 2], t=[2, 28, 3, 5])])
def space_to_depth(law: Law) -> None:
    """Reshape(Transpose(Reshape(x))) = SpaceToDepth(x)"""
    x = law.tensor("x", 4)
    s, t = law.sizes("s", 6), law.sizes("t", 4)
    b = s.dim(3)
    perm = (0, 5, 3, 1, 2, 4) if law.mutant("other_order") else (0, 3, 5, 1, 2, 4)
    law.require(eq(s.dim(5), b) & (b >= 1), "blocks that aren't square")
    law.require(
        eq(s.dim(0), x.dim(0))
        & eq(s.dim(1), x.dim(1))
        & eq(s.dim(2) * b, x.dim(2))
        & eq(x.dim(2) // b, s.dim(2))
        & eq(s.dim(4) * b, x.dim(3))
        & eq(x.dim(3) // b, s.dim(4)),
        "axes are split in another way",
    )
    law.require(
        eq(t.dim(0), x.dim(0))
        & eq(t.dim(1), x.dim(1) * b * b)
        & eq(t.dim(2), s.dim(2))
        & eq(t.dim(3), s.dim(4)),
        "channels are joined in another way",
    )
    moved = Transpose(Reshape(x, shape=s), perm=_permutation(perm))
    law.rewrite(Reshape(moved, shape=t), SpaceToDepth(x, blocksize=b))


depth_to_space_crd = _shuffle("depth_to_space_crd", "CRD", (2, 3), 1)
depth_to_space_dcr = _shuffle("depth_to_space_dcr", "DCR", (1, 2), 3)


@rule(
    "reshape",
    samples=[dict(r=2, x=[2, 6], m=2, s=[3, 4], f="Exp")],
    measure="order",
    when="asked",
)
def reshape_below_unary(law: Law) -> None:
    """f(Reshape(x, s)) = Reshape(f(x), s)

    Not always: it parts what an exporter wrote together, and gains nothing by itself.
    """
    x = law.tensor("x", law.rank())
    s = law.sizes("s", law.rank("m"))
    f = law.pointwise("f")
    g = law.pointwise("g") if law.mutant("other_function") else f
    law.rewrite(f(Reshape(x, shape=s)), Reshape(g(x), shape=s))


@rule("reshape", samples=[dict(r=2, x=[2, 6], m=2, s=[3, 4], n=1, t=[12], f="Exp")])
def reshape_around_unary(law: Law) -> None:
    """Reshape(f(Reshape(x, s)), t) = f(Reshape(x, t))"""
    x, f = law.tensor("x", law.rank()), law.pointwise("f")
    s, t = (law.sizes(name, law.rank(rank)) for name, rank in ("sm", "tn"))
    g = law.pointwise("g") if law.mutant("other_function") else f
    law.rewrite(Reshape(f(Reshape(x, shape=s)), shape=t), g(Reshape(x, shape=t)))
