"""Normalisations, put together from their parts.

The parts are put together in steps, so that few rules cover the orders of many
exporters: first x - mean over its deviation becomes a normalisation with a scale of
ones, then the scale and the bias that follow it become its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from ..language.operators.elementwise import Add, Mul
from ..language.operators.movement import Squeeze
from ..language.operators.normalization import (
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    RMSNormalization,
)
from ..language.operators.reduction import ReduceMean
from ..language.pattern import Apply, Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import (
    Axes,
    Bool,
    Int,
    Real,
    Sizes,
    axis_range,
    choose,
    eq,
    forall,
    one_axis,
)

HALF = Fraction(1, 2)


@dataclass
class _Rows:
    """x, seen as rows: its axes from `first` on."""

    law: Law
    rank: Int
    first: Int
    x: Var

    @property
    def axes(self) -> Axes:
        return axis_range(self.rank, self.first, self.rank)

    @property
    def sizes(self) -> Sizes:
        """The shape of a row."""
        return Sizes(self.rank - self.first, lambda k: self.x.dim(self.first + k))

    def mean(self, of: Term) -> Apply:
        return ReduceMean(of, axes=self.axes, keepdims=1)

    def constant(self, name: str) -> Var:
        """A constant of exactly the shape of a row."""
        found = self.law.constant(name, self.rank - self.first)
        if not self.law.mutant(f"any_shape_of_{name}"):
            self.law.require(self.is_row(found), f"the {name} isn't as long as a row")
        return found

    def is_row(self, term: Term) -> Bool:
        return forall(
            self.rank - self.first, lambda k: eq(term.dim(k), self.sizes.dim(k))
        )

    def layer(self, scale: Term, bias: Term | None, epsilon: Real) -> Apply:
        return LayerNormalization(self.x, scale, bias, axis=self.first, epsilon=epsilon)

    def rms(self, scale: Term, epsilon: Real) -> Apply:
        return RMSNormalization(self.x, scale, axis=self.first, epsilon=epsilon)


def _rows(law: Law) -> _Rows:
    r = law.rank(low=1)
    first = law.axis("first", r)
    return _Rows(law, r, first, law.tensor("x", r, kinds="float"))


# ---- spellings of a square, and of d over the root of v


@rule(
    "recompose",
    samples=[dict(r=3, x=[2, 3, 4], first=1, ones=[3, 4], scale=[3, 4], eps=1e-5)],
)
def layer_norm_scale(law: Law) -> None:
    """LayerNormalization(x, 1) * s = LayerNormalization(x, s)"""
    rows = _rows(law)
    eps = law.real("eps")
    ones, scale = law.filled("ones", rows.rank - rows.first, 1), rows.constant("scale")
    law.rewrite(Mul(rows.layer(ones, None, eps), scale), rows.layer(scale, None, eps))


@rule(
    "recompose",
    samples=[dict(r=3, x=[2, 3, 4], first=1, scale=[3, 4], bias=[3, 4], eps=1e-3)],
)
def layer_norm_bias(law: Law) -> None:
    """LayerNormalization(x, s) + b = LayerNormalization(x, s, b)"""
    rows = _rows(law)
    eps = law.real("eps")
    scale = law.constant("scale", rows.rank - rows.first)
    bias = rows.constant("bias")
    law.rewrite(
        Add(rows.layer(scale, None, eps), bias),
        rows.layer(scale, None if law.mutant("lost") else bias, eps),
    )


@rule(
    "fusion", samples=[dict(r=2, x=[2, 4], first=1, s=[4], b=[4], factor=[4], eps=1e-3)]
)
def layer_norm_rescale(law: Law) -> None:
    """LayerNormalization(x, s, b) * c = LayerNormalization(x, s * c, b * c)"""
    rows = _rows(law)
    eps = law.real("eps")
    s, b = (law.constant(name, rows.rank - rows.first) for name in "sb")
    law.require(rows.is_row(s) & rows.is_row(b), "the scale or the bias is broadcast")
    factor = rows.constant("factor")
    bias = b if law.mutant("bias_stays") else Mul(b, factor)
    law.rewrite(
        Mul(rows.layer(s, b, eps), factor), rows.layer(Mul(s, factor), bias, eps)
    )


@rule(
    "fusion", samples=[dict(r=2, x=[2, 4], first=1, s=[4], b=[4], offset=[4], eps=1e-3)]
)
def layer_norm_rebias(law: Law) -> None:
    """LayerNormalization(x, s, b) + c = LayerNormalization(x, s, b + c)"""
    rows = _rows(law)
    eps = law.real("eps")
    s, b = (law.constant(name, rows.rank - rows.first) for name in "sb")
    law.require(rows.is_row(b), "the bias is broadcast")
    offset = rows.constant("offset")
    left = Add(rows.layer(s, b, eps), offset)
    law.rewrite(left, rows.layer(s, Add(b, offset), eps))


# ---- RMSNormalization


@rule(
    "recompose",
    samples=[dict(r=3, x=[2, 3, 4], first=2, ones=[4], scale=[4], eps=1e-6)],
)
def rms_norm_scale(law: Law) -> None:
    """RMSNormalization(x, 1) * s = RMSNormalization(x, s)"""
    rows = _rows(law)
    eps = law.real("eps")
    ones, scale = law.filled("ones", rows.rank - rows.first, 1), rows.constant("scale")
    law.rewrite(Mul(rows.rms(ones, eps), scale), rows.rms(scale, eps))


@rule("fusion", samples=[dict(r=2, x=[2, 4], first=1, s=[4], factor=[4], eps=1e-6)])
def rms_norm_rescale(law: Law) -> None:
    """RMSNormalization(x, s) * c = RMSNormalization(x, s * c)"""
    rows = _rows(law)
    eps = law.real("eps")
    s, factor = law.constant("s", rows.rank - rows.first), rows.constant("factor")
    law.require(rows.is_row(s), "the scale is broadcast")
    scale = factor if law.mutant("replaced") else Mul(s, factor)
    law.rewrite(Mul(rows.rms(s, eps), factor), rows.rms(scale, eps))


# ---- GroupNormalization and InstanceNormalization


Normal = Callable[[Term, Term, Term], Term]


def _by_channel(law: Law, x: Var, name: str, before: int) -> tuple[Var, Term]:
    """A constant [c, 1, ..], or [1, c, 1, ..], and the vector [c] of its elements."""
    rank = x.rank - 1 + before
    found = law.constant(name, rank)
    if not law.mutant(f"any_shape_of_{name}"):
        law.require(
            forall(
                rank, lambda k: eq(found.dim(k), choose(eq(k, before), x.dim(1), 1))
            ),
            f"the {name} isn't one number per channel",
        )
    row = Squeeze(found, axes=one_axis(rank, 0)) if before else found
    return found, Squeeze(row, axes=axis_range(x.rank - 1, 1, x.rank - 1))


def _channel_norm(law: Law, kind: str) -> tuple[Var, Var, Var, Normal]:
    """x, the scale and the bias of a normalisation, and that itself."""
    x = law.tensor("x", law.rank(low=3), kinds="float")
    s, b, eps = law.constant("s", 1), law.constant("b", 1), law.real("eps")
    if kind == "instance":
        return x, s, b, lambda x, s, b: InstanceNormalization(x, s, b, epsilon=eps)
    groups = law.int("groups", 1)
    return (
        x,
        s,
        b,
        lambda x, s, b: GroupNormalization(x, s, b, groups=groups, epsilon=eps),
    )


_CHANNELS = dict(r=4, x=[2, 4, 3, 2], s=[4], b=[4], groups=2, eps=1e-3)


def _channel_norm_scale(name: str, kind: str, before: int) -> Rule:
    @rule(
        "fusion",
        name=name,
        statement=f"{kind}-normalised x with scale s and bias b, times c per channel: "
        "scale s * c and bias b * c",
        samples=[{**_CHANNELS, "factor": [*[1] * before, 4, 1, 1]}],
    )
    def build(law: Law) -> None:
        x, s, b, normal = _channel_norm(law, kind)
        factor, vector = _by_channel(law, x, "factor", before)
        bias = b if law.mutant("bias_stays") else Mul(b, vector)
        law.rewrite(Mul(normal(x, s, b), factor), normal(x, Mul(s, vector), bias))

    return build


def _channel_norm_bias(name: str, kind: str, before: int) -> Rule:
    @rule(
        "fusion",
        name=name,
        statement=f"{kind}-normalised x with bias b, plus c per channel: bias b + c",
        samples=[{**_CHANNELS, "offset": [*[1] * before, 4, 1, 1]}],
    )
    def build(law: Law) -> None:
        x, s, b, normal = _channel_norm(law, kind)
        offset, vector = _by_channel(law, x, "offset", before)
        bias = b if law.mutant("bias_stays") else Add(b, vector)
        law.rewrite(Add(normal(x, s, b), offset), normal(x, s, bias))

    return build


CHANNEL_NORMS: list[Rule] = [
    _channel_norm_scale("group_norm_rescale", "group", 0),
    _channel_norm_scale("instance_norm_rescale", "instance", 0),
    _channel_norm_bias("group_norm_rebias", "group", 0),
    _channel_norm_bias("instance_norm_rebias", "instance", 0),
    _channel_norm_scale("group_norm_rescale_image", "group", 1),
    _channel_norm_scale("instance_norm_rescale_image", "instance", 1),
    _channel_norm_bias("group_norm_rebias_image", "group", 1),
    _channel_norm_bias("instance_norm_rebias_image", "instance", 1),
]


RULES: list[Rule] = [
    layer_norm_scale,
    layer_norm_bias,
    layer_norm_rescale,
    layer_norm_rebias,
    rms_norm_scale,
    rms_norm_rescale,
    *CHANNEL_NORMS,
]
