"""Pad: of nothing, twice, cut off again, and with negative pads."""

from __future__ import annotations

from ..language.operators.movement import Pad, Slice
from ..language.rule import Law, rule
from ..language.terms import Fn, Int, eq, forall
from .slices import Cut


def added_around(law: Law, rank: Int) -> tuple[Fn, Fn]:
    """The pads of an image, which nothing is cut off, before and behind it."""
    before, after = law.fn("before", rank), law.fn("after", rank)
    law.require(
        forall(rank, lambda k: (before(k) >= 0) & (after(k) >= 0)), "a Pad that cuts"
    )
    if not law.mutant("channels"):
        law.require(
            forall(rank, lambda k: (k >= 2) | (eq(before(k), 0) & eq(after(k), 0))),
            "channels are padded",
        )
    return before, after


@rule("pad", samples=[dict(x=[2, 3], low=(0, 0), high=(0, 0))])
def pad_nothing_constant(law: Law) -> None:
    """Pad(x, 0 everywhere) = x, mode constant"""
    r = law.rank()
    x = law.tensor("x", r)
    low, high = law.fn("low", r), law.fn("high", r)
    nothing = forall(r, lambda k: eq(low(k), 0) & eq(high(k), 0))
    if not law.mutant("any_pads"):
        law.require(nothing, "something is added or cut")
    law.rewrite(Pad(x, None, low=low, high=high, mode="constant"), x)


@rule(
    "pad",
    samples=[dict(x=[2, 3], low=(1, 0), high=(0, 2), low2=(2, 0), high2=(1, 1))],
)
def pad_pad(law: Law) -> None:
    """Pad(Pad(x)) = Pad(x)"""
    r = law.rank()
    x = law.tensor("x", r)
    low, high = law.fn("low", r), law.fn("high", r)
    low2, high2 = law.fn("low2", r), law.fn("high2", r)
    if not law.mutant("any_pads"):
        # What the first cuts off or fills in the second must not undo.
        law.require(
            forall(
                r,
                lambda k: (low(k) >= 0)
                & (high(k) >= 0)
                & (low2(k) >= 0)
                & (high2(k) >= 0),
            ),
            "a pad is negative",
        )
    first = Pad(x, None, low=low, high=high, mode="constant")
    left = Pad(first, None, low=low2, high=high2, mode="constant")
    high_sum = Fn(r, lambda k: high(k) + high2(k))
    low_sum = Fn(r, lambda k: low(k) + low2(k))
    if law.mutant("swap"):
        low_sum, high_sum = high_sum, low_sum
    law.rewrite(left, Pad(x, None, low=low_sum, high=high_sum, mode="constant"))


@rule(
    "pad",
    samples=[
        dict(x=[4, 5], low=(1, 2), high=(0, 1), begin=(2, 2), end=(5, 7), step=(2, 1))
    ],
)
def slice_of_pad(law: Law) -> None:
    """Slice(Pad(x)) = Slice(x), inside x"""
    r = law.rank()
    x = law.tensor("x", r)
    low, high = law.fn("low", r), law.fn("high", r)
    cut = Cut(law, r)
    if not law.mutant("any_place"):
        law.require(
            forall(
                r,
                lambda k: (cut.begin(k) >= low(k)) & (cut.end(k) <= low(k) + x.dim(k)),
            ),
            "the slice reaches into the padding",
        )
    shift = 0 if law.mutant("not_shifted") else 1
    padded = Pad(x, None, low=low, high=high, mode="constant")
    law.rewrite(
        cut.of(padded),
        Slice(
            x,
            begin=Fn(r, lambda k: cut.begin(k) - low(k) * shift),
            end=Fn(r, lambda k: cut.end(k) - low(k) * shift),
            step=cut.step,
        ),
    )
