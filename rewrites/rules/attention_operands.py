"""What exporters put around attention: keys turned in batches, scales, masks."""

from __future__ import annotations

from ..language.operators.attention import Attention
from ..language.operators.elementwise import Add, Mul
from ..language.operators.movement import Reshape, Transpose
from ..language.pattern import Term
from ..language.rule import Law, Rule, rule
from ..language.terms import IntLike, Perm, Sizes, choose, eq, fixed


def swapped(rank: int, first: int, second: int) -> Perm:
    """Exchanges two axes."""

    def swap(k: object) -> object:
        other = choose(eq(k, second), first, k)  # type: ignore[arg-type]
        return choose(eq(k, first), second, other)  # type: ignore[arg-type]

    return Perm(rank, swap, swap)  # type: ignore[arg-type]


@rule("attention", samples=[dict(b=2, h=3, t=5, d=8, k=[2, 3, 5, 8])])
def keys_in_batches(law: Law) -> None:
    """Reshape(Transpose(Reshape(k, [b h, t, d])), [b, h, d, t]) = Transpose(k)

    torch's exporter transposes keys so.
    """
    b, h, t, d = (law.int(name, 0) for name in "bhtd")
    k = law.shaped("k", b, h, t, d, extended=True)
    flat = Reshape(k, shape=Sizes(3, fixed([b * h, t, d])))
    turned = Transpose(flat, perm=swapped(3, 1, 2))
    left = Reshape(turned, shape=Sizes(4, fixed([b, h, d, t])))
    axes = (1, 2) if law.mutant("other_axes") else (2, 3)
    law.rewrite(left, Transpose(k, perm=swapped(4, *axes)))


@rule("attention", samples=[dict(h=3, g=4, t=5, d=8, k=[1, 3, 4, 5, 8])])
def keys_in_batches_repeated(law: Law) -> None:
    """Reshape(Transpose(Reshape(k, [h g, t, d])), [1, h g, d, t]) = Transpose of k

    Here k is [1, h, g, t, d]: each head of keys serves g heads of queries.
    """
    h, g, t, d = (law.int(name, 0) for name in "hgtd")
    k = law.shaped("k", 1, h, g, t, d, extended=True)
    flat = Reshape(k, shape=Sizes(3, fixed([h * g, t, d])))
    turned = Transpose(flat, perm=swapped(3, 1, 2))
    left = Reshape(turned, shape=Sizes(4, fixed([1, h * g, d, t])))
    axes = (1, 2) if law.mutant("other_axes") else (2, 3)
    whole = Reshape(k, shape=Sizes(4, fixed([1, h * g, t, d])))
    law.rewrite(left, Transpose(whole, perm=swapped(4, *axes)))


def _projected(masked: bool) -> Rule:
    """Queries that are scaled while their heads are still packed."""
    sizes = dict(b=2, h=3, s=4, t=5, d=8, e=6)
    shapes = dict(x=[2, 4, 24], k=[2, 3, 5, 8], v=[2, 3, 5, 6], m=[2, 1, 4, 5])

    @rule(
        "attention",
        name="attention_projection_scaled" + "_masked" * masked,
        statement="Attention(heads of x * c, k, v, scale=s)"
        " = Attention(heads of x, k, v, scale=s c)",
        samples=[dict(sizes, **shapes, c=(2.0,), scale=0.5)],
    )
    def projected(law: Law) -> None:
        b, h, s, t, d, e = (law.int(name, 0) for name in "bhstde")
        x = law.shaped("x", b, s, h * d, kinds="float")
        k = law.shaped("k", b, h, t, d, kinds="float")
        v = law.shaped("v", b, h, t, e, kinds="float", extended=True)
        mask = law.tensor("m", 4, extended=True) if masked else None
        if mask is not None:
            fits_scores(law, mask, (b, h, s, t))
        given = law.real("scale")
        c = law.scalar("c", 3)

        def heads(x: Term) -> Term:
            packed = Reshape(x, shape=Sizes(4, fixed([b, s, h, d])))
            return Transpose(packed, perm=swapped(4, 1, 2))

        # The prover takes long to refuse this one without a mask.
        scale = given if masked and law.mutant("forgotten") else given * c.value
        other = k if not masked and law.mutant("other_queries") else heads(x)
        left = Attention(heads(Mul(x, c)), k, v, mask, scale=given, causal=0)
        law.rewrite(left, Attention(other, k, v, mask, scale=scale, causal=0))

    return projected


def fits_scores(law: Law, mask: Term, scores: tuple[IntLike, ...]) -> None:
    """Attention takes a mask that doesn't enlarge the scores."""
    for axis, size in enumerate(scores[:3]):
        fits = eq(mask.dim(axis), 1) | eq(mask.dim(axis), size)
        law.require(fits, "the mask enlarges the scores")
    law.require(eq(mask.dim(3), scores[3]), "one entry of the mask for all keys")


@rule(
    "attention",
    samples=[dict(n=6, h=3, s=4, t=4, x=[6, 3, 4, 4], m=[1, 6, 1, 4, 4])],
)
def window_mask(law: Law) -> None:
    """Reshape(Reshape(x, [1, n, h, s, t]) + m, [n, h, s, t]) = x + Reshape(m)

    The mask of shifted windows: m has one entry for each of the n windows.
    """
    sizes = [law.int(name, 0) for name in "nhst"]
    x = law.shaped("x", *sizes, extended=True)
    m = law.constant("m", 5, extended=True)
    law.require(eq(m.dim(0), 1), "the mask adds an axis")
    for axis, size in enumerate(sizes):
        fits = eq(m.dim(axis + 1), 1) | eq(m.dim(axis + 1), size)
        law.require(fits, "the mask enlarges the scores")
    shape = Sizes(4, lambda k: m.dim(k if law.active == "shifted" else k + 1))
    law.mutant("shifted")
    windows = Reshape(x, shape=Sizes(5, fixed([1, *sizes])))
    left = Reshape(Add(windows, m), shape=Sizes(4, fixed(sizes)))
    law.rewrite(left, Add(x, Reshape(m, shape=shape)))


RULES: list[Rule] = [
    keys_in_batches,
    keys_in_batches_repeated,
    window_mask,
    *(_projected(masked) for masked in (False, True)),
]
