"""Gather at known places, which is a Slice, and Gather of movements."""

from __future__ import annotations

import numpy as np

from ..language.operators.movement import Gather, Slice, Squeeze, Unsqueeze
from ..language.pattern import Var
from ..language.rule import Law, rule
from ..language.terms import Axes, Fn, Int, choose, eq, forall, integer, one_axis
from .slices import Cut, cut_along


def _index(law: Law, rank: int) -> Var:
    return law.constant("i", rank, kinds="int")


def _from_front(law: Law, i: Var, size: Int, sure: bool = False) -> Int:
    """A known place, in range; `sure`: the law says that it isn't negative."""
    found = i.element()
    law.require((found >= 0 - size) & (found < size), "a place outside the axis")
    if not sure and law.mutant("from_front_alone"):
        return found
    return choose(found < 0, found + size, found)


@rule(
    "gather", samples=[dict(r=3, x=[2, 7, 3], i=4, a=1), dict(r=2, x=[2, 7], i=-1, a=1)]
)
def unsqueeze_of_gather(law: Law) -> None:
    """Unsqueeze(Gather(x, i, a), a) = Slice(x, i to i + 1)"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    i = _index(law, 0)
    place = _from_front(law, i, x.dim(a))
    left = Unsqueeze(Gather(x, i, axis=a), axes=one_axis(r, a))
    law.rewrite(left, cut_along(x, a, place, place + 1))


@rule("gather", samples=[dict(x=[2, 1, 3], i=0, a=1)])
def gather_of_one(law: Law) -> None:
    """Gather(x, i, a) = Squeeze(x, a), i a scalar and the axis of size 1"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    i = _index(law, 0)
    law.require(eq(x.dim(a), 1), "the axis has another size than 1")
    b = choose(a > 0, a - 1, a) if law.mutant("other_axis") else a
    law.rewrite(Gather(x, i, axis=a), Squeeze(x, axes=one_axis(r, b)))


@rule(
    "gather",
    samples=[dict(r=2, x=[9, 8], i=2, a=1, begin=(0, 3), end=(9, 7), step=(1, 1))],
)
def gather_of_slice(law: Law) -> None:
    """Gather(Slice(x, from b), i, a) = Gather(x, b + i, a), where only a is cut"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    cut, i = Cut(law, r), _index(law, 0)
    inner = cut.of(x)
    law.require(cut.along(x, a), "another axis is cut too")
    place = _from_front(law, i, inner.dim(a)) + cut.begin(a)
    if law.mutant("not_shifted"):
        place = i.element()
    law.rewrite(
        Gather(inner, i, axis=a), Gather(x, law.number(place, kinds="int"), axis=a)
    )


@rule(
    "gather",
    samples=[
        dict(x=[2, 7], indices=(1, 2, 3), a=1),
        dict(x=[2, 7], indices=(0, 3, 6), a=1),
        dict(x=[2, 7], indices=(6,), a=1),
    ],
    measure="flops",  # a Slice is a view
)
def gather_range(law: Law) -> None:
    """Gather(x, [b, b + s, b + 2s, ..]) = Slice(x, from b with step s)"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    indices = law.constant("indices", 1, kinds="int")
    count, begin = indices.dim(0), indices.element(0)
    step = choose(count > 1, indices.element(1) - begin, 1)
    end = begin + (count - 1) * step + 1
    law.require((count >= 1) & (step >= 1) & (begin >= 0) & (end <= x.dim(a)))
    if not law.mutant("any_places"):
        law.require(
            forall(count, lambda k: eq(indices.element(k), begin + k * step)),
            "the places don't follow each other",
        )
    right = Slice(
        x,
        begin=Fn(r, lambda k: choose(eq(k, a), begin, 0)),
        end=Fn(r, lambda k: choose(eq(k, a), end, x.dim(k))),
        step=Fn(r, lambda k: choose(eq(k, a), step, 1)),
    )
    law.rewrite(Gather(x, indices, axis=a), right)


@rule(
    "gather",
    name="gather_of_all_4_1",
    samples=[dict(x=[2, 3], a=1, indices=np.arange(3).reshape(1, 3, 1, 1))],
)
def gather_of_all(law: Law) -> None:
    """Gather(x, [[0, 1, .., n - 1]], a) = Unsqueeze(x, a), x of n along a

    Places of four axes, all but the second of size 1.
    """
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    indices = law.constant("indices", 4, kinds="int")
    for k in (0, 2, 3):
        law.require(eq(indices.dim(k), 1), "the places form several rows")
    count = indices.dim(1)
    if not law.mutant("fewer"):
        law.require(eq(count, x.dim(a)), "not all places are taken")
    if not law.mutant("any_order"):
        law.require(
            forall(count, lambda k: eq(indices.element(0, k, 0, 0), k)),
            "the places don't count up from 0",
        )
    b = choose(a > 0, a - 1, a) if law.mutant("other_axis") else a
    kept = b + 1
    added = Axes(
        r + 3,
        lambda k: (k >= b) & (k <= b + 3) & ~eq(k, kept),
        numbering=(
            integer(3),
            lambda j: choose(j < b, j, choose(eq(j, b), kept, j + 3)),
            lambda k: choose(k < b, k, choose(eq(k, kept), b, k - 3)),
        ),
    )
    law.rewrite(Gather(x, indices, axis=a), Unsqueeze(x, axes=added))
