"""What exporters put around attention: keys turned in batches, scales, masks."""

from __future__ import annotations

from ..language.operators.elementwise import Add
from ..language.operators.movement import Reshape
from ..language.pattern import Term
from ..language.rule import Law, Rule, rule
from ..language.terms import IntLike, Perm, Sizes, choose, eq, fixed


def swapped(rank: int, first: int, second: int) -> Perm:
    """Exchanges two axes."""

    def swap(k: object) -> object:
        other = choose(eq(k, second), first, k)  # type: ignore[arg-type]
        return choose(eq(k, first), second, other)  # type: ignore[arg-type]

    return Perm(rank, swap, swap)  # type: ignore[arg-type]


def fits_scores(law: Law, mask: Term, scores: tuple[IntLike, ...]) -> None:
    """Attention takes a mask that doesn't enlarge the scores."""
    for axis, size in enumerate(scores[:3]):
        fits = eq(mask.dim(axis), 1) | eq(mask.dim(axis), size)
        law.require(fits, "the mask enlarges the scores")
    law.require(eq(mask.dim(3), scores[3]), "one entry of the mask for all keys")


@rule(
    "attention", samples=[dict(n=6, h=3, s=4, t=4, x=[6, 3, 4, 4], m=[1, 6, 1, 4, 4])]
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


RULES: list[Rule] = [window_mask]
