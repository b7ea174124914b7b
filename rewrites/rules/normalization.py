"""The scale and the bias that follow a normalisation of channels become its own.

Rows have theirs by what they compute (recognition/normalised_sums.py).
"""

from __future__ import annotations

from collections.abc import Callable

from ..language.operators.elementwise import Add, Mul
from ..language.operators.movement import Squeeze
from ..language.operators.normalization import (
    GroupNormalization,
    InstanceNormalization,
)
from ..language.pattern import Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import (
    axis_range,
    choose,
    eq,
    forall,
    one_axis,
)

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


RULES: list[Rule] = [
    _channel_norm_scale("group_norm_rescale", "group", 0),
    _channel_norm_scale("instance_norm_rescale", "instance", 0),
    _channel_norm_bias("group_norm_rebias", "group", 0),
    _channel_norm_bias("instance_norm_rebias", "instance", 0),
    _channel_norm_scale("group_norm_rescale_image", "group", 1),
    _channel_norm_scale("instance_norm_rescale_image", "instance", 1),
    _channel_norm_bias("group_norm_rebias_image", "group", 1),
    _channel_norm_bias("instance_norm_rebias_image", "instance", 1),
]
