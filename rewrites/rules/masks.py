"""Masks of attention, as the exporters of Hugging Face models compute them."""

from __future__ import annotations

from typing import Any

from ..language.operators.attention import Attention
from ..language.operators.elementwise import Add, And, Equal, Where
from ..language.operators.movement import Expand
from ..language.pattern import Term
from ..language.rule import Law, rule
from ..language.terms import IntLike, eq, sizes_of


def fits_scores(law: Law, mask: Term, scores: tuple[IntLike, ...]) -> None:
    """Attention takes a mask that doesn't enlarge the scores."""
    for axis, size in enumerate(scores[:3]):
        fits = eq(mask.dim(axis), 1) | eq(mask.dim(axis), size)
        law.require(fits, "the mask enlarges the scores")
    law.require(eq(mask.dim(3), scores[3]), "one entry of the mask for all keys")


# Where the numbers stand in two of the three samples' axes.
def _attention_of(
    law: Law, mask: Term, fitting: Term | None, **scores: Any
) -> tuple[Term, Term]:
    """Attention with a mask, and with another that fits as well, or none.

    `scores` says what queries and keys are.
    """
    b, h, s, t, d, e = (law.int(name, 0) for name in "bhstde")
    q = law.shaped("q", b, h, s, d, **scores)
    k = law.shaped("k", b, h, t, d, **scores)
    v = law.shaped("v", b, h, t, e, extended=True)
    scale = law.real("scale")
    fits_scores(law, fitting or mask, (b, h, s, t))
    left, right = (
        Attention(q, k, v, m, scale=scale, causal=0) for m in (mask, fitting)
    )
    if law.mutant("other_queries"):
        right = Attention(k, k, v, fitting, scale=scale, causal=0)
    return left, right


SHAPES = dict(q=[2, 3, 4, 8], k=[2, 3, 5, 8], v=[2, 3, 5, 6], m=[2, 1, 4, 5], scale=0.5)


@rule("masks", samples=[dict(SHAPES, m=[], z=[2, 3, 4, 5])], measure="flops")
def attention_mask_of_zeros(law: Law) -> None:
    """Attention(q, k, v, Expand(0)) = Attention(q, k, v)"""
    zero = law.filled("m", 4, 0, kinds="float")
    expanded = Expand(zero, shape=law.sizes("z", 4))
    left, right = _attention_of(law, expanded, None, kinds="float")
    law.rewrite(left, right)


@rule("masks", samples=[dict(SHAPES, zero=[], z=[2, 3, 4, 5])], measure="flops")
def attention_mask_plus_zeros(law: Law) -> None:
    """Attention(q, k, v, m + Expand(0)) = Attention(q, k, v, m)"""
    m = law.tensor("m", 4, kinds="float")
    zero = law.filled("zero", 4, 0, kinds="float")
    summed = Add(m, Expand(zero, shape=law.sizes("z", 4)))
    left, right = _attention_of(law, summed, m, kinds="float")
    law.rewrite(left, right)


# A node fewer stands below an Expand.
@rule("masks", samples=[dict(SHAPES, z=[2, 3, 4, 5])], measure="order")
def attention_mask_expanded(law: Law) -> None:
    """Attention(q, k, v, Expand(m)) = Attention(q, k, v, m)"""
    m = law.tensor("m", 4, extended=True)
    expanded = Expand(m, shape=law.sizes("z", 4))
    left, right = _attention_of(law, expanded, m, extended=True)
    law.rewrite(left, right)


@rule("masks", samples=[dict(r=3, y=[2, 1, 3], yes=[1, 4, 1])], measure="flops")
def true_and_enlarging(law: Law) -> None:
    """And(true, y) = Expand(y)"""
    r = law.rank()
    y = law.operand("y", r, kinds="bool")
    yes = law.filled("yes", r, 0 if law.mutant("false") else 1, kinds="bool")
    left = And(yes, y)
    law.rewrite(left, Expand(y, shape=sizes_of(left)))


# Of PyTorch's exporter, for `x // n`: whether x and n differ in sign.
@rule("masks", samples=[dict(r=3, y=[2, 1, 3], yes=[1, 4, 1])], measure="flops")
def equal_to_true(law: Law) -> None:
    """Equal(true, y) = Expand(y)"""
    r = law.rank()
    y = law.operand("y", r, kinds="bool")
    yes = law.filled("yes", r, 0 if law.mutant("false") else 1, kinds="bool")
    left = Equal(yes, y)
    law.rewrite(left, Expand(y, shape=sizes_of(left)))


@rule("masks", samples=[dict(q=2, r=3, c=[1, 3], z=[2, 4, 3])], measure="flops")
def where_expanded_condition(law: Law) -> None:
    """Where(Expand(c), a, b) = Expand(Where(c, a, b)), a and b having one element"""
    q, r = law.rank("q"), law.rank()
    c = law.tensor("c", q, kinds="bool")
    z = law.sizes("z", r)
    a, b = law.scalar("a", q), law.scalar("b", q)
    inner = Where(c, b, a) if law.mutant("swapped") else Where(c, a, b)
    law.rewrite(Where(Expand(c, shape=z), a, b), Expand(inner, shape=z))
