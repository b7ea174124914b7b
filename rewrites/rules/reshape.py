"""Reshape, Flatten, Squeeze and Unsqueeze in any mix: one Reshape, or none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..language.operators.movement import (
    DepthToSpace,
    Flatten,
    Reshape,
    SpaceToDepth,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from ..language.pattern import Apply, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Perm, eq, fixed, forall, implies, sizes_of

View = Callable[[Law, Term, str], Apply]


def _reshaped(law: Law, x: Term, name: str) -> Apply:
    return Reshape(x, shape=law.sizes(name, law.rank(f"r{name}")))


def _flattened(law: Law, x: Term, name: str) -> Apply:
    return Flatten(x, axis=law.int(name, 0, x.rank))


def _squeezed(law: Law, x: Term, name: str) -> Apply:
    return Squeeze(x, axes=law.axes(name, x.rank))


def _unsqueezed(law: Law, x: Term, name: str) -> Apply:
    return Unsqueeze(x, axes=law.new_axes(name, x.rank))


VIEWS: dict[str, View] = {
    "Reshape": _reshaped,
    "Flatten": _flattened,
    "Squeeze": _squeezed,
    "Unsqueeze": _unsqueezed,
}
# What each does to [2, 1, 6] and to what the others make of that.
INNER: dict[str, Any] = {
    "Reshape": [2, 1, 2, 3],
    "Flatten": 1,
    "Squeeze": {1},
    "Unsqueeze": {0},
}
OUTER: dict[str, Any] = {
    "Reshape": [3, 4],
    "Flatten": 1,
    "Squeeze": {1},
    "Unsqueeze": {1},
}


def _view_of_view(name: str, outer: str, inner: str) -> Rule:
    def build(law: Law) -> None:
        x = law.tensor("x", law.rank())
        first = VIEWS[inner](law, x, "s")
        left = VIEWS[outer](law, first, "t")
        wrong = law.mutant("inner_shape")
        law.rewrite(left, Reshape(x, shape=sizes_of(first if wrong else left)))

    sample = dict(r=3, x=[2, 1, 6], s=INNER[inner], t=OUTER[outer])
    if (outer, inner) == ("Squeeze", "Unsqueeze"):
        sample |= dict(s={0}, t={2})
    return rule(
        "reshape",
        name=name,
        statement=f"{outer}({inner}(x)) = Reshape(x)",
        samples=[sample],
    )(build)


VIEWS_OF_VIEWS = [
    _view_of_view("reshape_of_reshape", "Reshape", "Reshape"),
    _view_of_view("reshape_of_flatten", "Reshape", "Flatten"),
    _view_of_view("reshape_of_squeeze", "Reshape", "Squeeze"),
    _view_of_view("reshape_of_unsqueeze", "Reshape", "Unsqueeze"),
    _view_of_view("flatten_of_reshape", "Flatten", "Reshape"),
    _view_of_view("squeeze_of_reshape", "Squeeze", "Reshape"),
    _view_of_view("squeeze_of_unsqueeze", "Squeeze", "Unsqueeze"),
    _view_of_view("unsqueeze_of_reshape", "Unsqueeze", "Reshape"),
    _view_of_view("unsqueeze_of_squeeze", "Unsqueeze", "Squeeze"),
]


@rule("reshape", samples=[dict(r=2, x=[2, 3], s=[2, 3])])
def reshape_identity(law: Law) -> None:
    """Reshape(x, shape of x) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    s = law.sizes("s", r)
    if not law.mutant("any_shape"):
        law.require(forall(r, lambda k: eq(s.dim(k), x.dim(k))), "the shape is another")
    law.rewrite(Reshape(x, shape=s), x)


@rule("reshape", samples=[dict(x=[2, 3])])
def flatten_identity(law: Law) -> None:
    """Flatten(x, 1) = x, of a matrix"""
    x = law.tensor("x", 2)
    law.rewrite(Flatten(x, axis=0 if law.mutant("axis_0") else 1), x)


# ---- Transpositions that move axes of size 1 only


def _moves_ones(law: Law, x: Term, p: Perm) -> None:
    """Two axes that aren't of size 1 keep their order."""
    if law.mutant("any_order"):
        return
    law.require(
        forall(
            x.rank,
            lambda j: forall(
                x.rank,
                lambda k: implies(
                    (j < k) & ~eq(x.dim(p(j)), 1) & ~eq(x.dim(p(k)), 1), p(j) < p(k)
                ),
            ),
        ),
        "axes of other sizes than 1 change their order",
    )


@rule("reshape", samples=[dict(r=3, x=[2, 1, 6], p=(1, 0, 2), m=2, s=[3, 4])])
def reshape_transpose_ones(law: Law) -> None:
    """Reshape(Transpose(x, p), s) = Reshape(x, s), where p moves axes of size 1 only"""
    r = law.rank()
    x = law.tensor("x", r)
    p, s = law.perm("p", r), law.sizes("s", law.rank("m"))
    _moves_ones(law, x, p)
    law.rewrite(Reshape(Transpose(x, perm=p), shape=s), Reshape(x, shape=s))


@rule("reshape", samples=[dict(r=2, x=[2, 6], m=3, s=[1, 3, 4], p=(1, 2, 0))])
def transpose_reshape_ones(law: Law) -> None:
    """Transpose(Reshape(x, s), p) = Reshape(x, s by p), p moving axes of size 1 only"""
    x = law.tensor("x", law.rank())
    m = law.rank("m")
    s, p = law.sizes("s", m), law.perm("p", m)
    first = Reshape(x, shape=s)
    _moves_ones(law, first, p)
    left = Transpose(first, perm=p)
    law.rewrite(left, Reshape(x, shape=sizes_of(left)))


# ---- Blocks of an image


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


@rule("reshape", false=True)
def reshape_of_any_transpose(law: Law) -> None:
    """Reshape(Transpose(x, p), s) = Reshape(x, s)"""
    r = law.rank()
    x = law.tensor("x", r)
    p, s = law.perm("p", r), law.sizes("s", law.rank("m"))
    law.rewrite(Reshape(Transpose(x, perm=p), shape=s), Reshape(x, shape=s))


RULES: list[Rule] = [
    reshape_identity,
    flatten_identity,
    reshape_transpose_ones,
    transpose_reshape_ones,
    *VIEWS_OF_VIEWS,
    depth_to_space_crd,
    depth_to_space_dcr,
    space_to_depth,
    reshape_below_unary,
]
FALSE_RULES = [reshape_of_any_transpose]
