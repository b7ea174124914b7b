"""GroupNormalization, and what InstanceNormalization and it take in."""

from __future__ import annotations

from collections.abc import Callable

from ..language.operators.elementwise import Add, Mul
from ..language.operators.movement import Reshape, Squeeze
from ..language.operators.normalization import GroupNormalization, InstanceNormalization
from ..language.pattern import Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Sizes, axis_range, choose, eq, forall, integer, sizes_of

# ---- GroupNormalization and InstanceNormalization


def _group_norm(rank: int) -> Rule:
    @rule(
        "recompose",
        name=f"group_norm_{rank - 2}d",
        statement="InstanceNormalization of groups = GroupNormalization(x, 1, 0), "
        f"for images of {rank} axes",
        samples=[
            dict(
                x=[2, 6, 3, 2, 2][:rank], s=_GROUPS[rank], ones=[2], zeros=[2], eps=1e-3
            )
        ],
    )
    def build(law: Law) -> None:
        x, s = law.tensor("x", rank, kinds="float"), law.sizes("s", 3)
        groups, eps = s.dim(1), law.real("eps")
        image = integer(1)
        for k in range(1, rank):
            image = image * x.dim(k)
        law.require(eq(s.dim(0), x.dim(0)), "the images are mixed")
        law.require((groups >= 1) & eq(groups * s.dim(2), image), "no groups")
        ones, zeros = law.filled("ones", 1, 1), law.filled("zeros", 1, 0)
        rows = InstanceNormalization(Reshape(x, shape=s), ones, zeros, epsilon=eps)
        channels = Sizes(1, lambda k: x.dim(1))
        bias = law.number(1 if law.mutant("biased") else 0, channels)
        right = GroupNormalization(
            x, law.number(1, channels), bias, groups=groups, epsilon=eps
        )
        law.rewrite(Reshape(rows, shape=sizes_of(x)), right)

    return build


_GROUPS = {3: [2, 2, 9], 4: [2, 2, 18], 5: [2, 2, 36]}

Normal = Callable[[Term, Term, Term], Term]


def _by_channel(law: Law, x: Var, name: str) -> tuple[Var, Term]:
    """A constant [c, 1, ..], and the vector [c] of its elements."""
    found = law.constant(name, x.rank - 1)
    if not law.mutant(f"any_shape_of_{name}"):
        law.require(
            forall(
                x.rank - 1,
                lambda k: eq(found.dim(k), choose(eq(k, 0), x.dim(1), 1)),
            ),
            f"the {name} isn't one number per channel",
        )
    return found, Squeeze(found, axes=axis_range(x.rank - 1, 1, x.rank - 1))


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


def _channel_norm_scale(kind: str) -> Rule:
    @rule(
        "fusion",
        name=f"{kind}_norm_rescale",
        statement=f"{kind}-normalised x with scale s and bias b, times c per channel: "
        "scale s * c and bias b * c",
        samples=[{**_CHANNELS, "factor": [4, 1, 1]}],
    )
    def build(law: Law) -> None:
        x, s, b, normal = _channel_norm(law, kind)
        factor, vector = _by_channel(law, x, "factor")
        bias = b if law.mutant("bias_stays") else Mul(b, vector)
        law.rewrite(Mul(normal(x, s, b), factor), normal(x, Mul(s, vector), bias))

    return build


def _channel_norm_bias(kind: str) -> Rule:
    @rule(
        "fusion",
        name=f"{kind}_norm_rebias",
        statement=f"{kind}-normalised x with bias b, plus c per channel: bias b + c",
        samples=[{**_CHANNELS, "offset": [4, 1, 1]}],
    )
    def build(law: Law) -> None:
        x, s, b, normal = _channel_norm(law, kind)
        offset, vector = _by_channel(law, x, "offset")
        bias = b if law.mutant("bias_stays") else Add(b, vector)
        law.rewrite(Add(normal(x, s, b), offset), normal(x, s, bias))

    return build


RULES: list[Rule] = [
    *(_group_norm(rank) for rank in (3, 4, 5)),
    *(_channel_norm_scale(kind) for kind in ("group", "instance")),
    *(_channel_norm_bias(kind) for kind in ("group", "instance")),
]
