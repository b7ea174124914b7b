"""Gather at known places, which is a Slice, and Gather of movements."""

from __future__ import annotations

import numpy as np

from ..language.operators.movement import (
    Concat,
    Gather,
    Shape,
    Slice,
    Squeeze,
    Unsqueeze,
)
from ..language.pattern import Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Axes, Fn, Int, choose, eq, forall, integer, one_axis
from .slices import Cut, cut_along


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


def _gather_of_all(rank: int, along: int) -> Rule:
    """Places of several axes, all but one of size 1."""

    def build(law: Law) -> None:
        r = law.rank(low=1)
        x = law.tensor("x", r)
        a = law.axis("a", r)
        indices = law.constant("indices", rank, kinds="int")
        for k in range(rank):
            if k != along:
                law.require(eq(indices.dim(k), 1), "the places form several rows")
        count = indices.dim(along)
        if not law.mutant("fewer"):
            law.require(eq(count, x.dim(a)), "not all places are taken")
        if not law.mutant("any_order"):
            law.require(
                forall(
                    count,
                    lambda k: eq(
                        indices.element(*(k if j == along else 0 for j in range(rank))),
                        k,
                    ),
                ),
                "the places don't count up from 0",
            )
        more = rank - 1
        b = choose(a > 0, a - 1, a) if law.mutant("other_axis") else a
        kept = b + along
        added = Axes(
            r + more,
            lambda k: (k >= b) & (k <= b + more) & ~eq(k, kept),
            numbering=(
                integer(more),
                lambda j: choose(j < b, j, choose(eq(j, b), kept, j + more)),
                lambda k: choose(k < b, k, choose(eq(k, kept), b, k - more)),
            ),
        )
        law.rewrite(Gather(x, indices, axis=a), Unsqueeze(x, axes=added))

    shape = [3 if j == along else 1 for j in range(rank)]
    return rule(
        "gather",
        name=f"gather_of_all_{rank}_{along}",
        statement="Gather(x, [[0, 1, .., n - 1]], a) = Unsqueeze(x, a), x of n along a",
        samples=[dict(x=[2, 3], a=1, indices=np.arange(3).reshape(shape))],
    )(build)


def _index(law: Law, rank: int) -> Var:
    return law.constant("i", rank, kinds="int")


def _from_front(law: Law, i: Var, size: Int, sure: bool = False) -> Int:
    """A known place, in range; `sure`: the law says that it isn't negative."""
    found = i.element()
    law.require((found >= 0 - size) & (found < size), "a place outside the axis")
    if not sure and law.mutant("from_front_alone"):
        return found
    return choose(found < 0, found + size, found)


def _gather_gather(rank: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        x = law.tensor("x", r)
        a = law.axis("a", r)
        first = law.constant("i", 1, kinds="int")
        second = law.constant("j", rank, kinds="int")
        places: Term = Gather(first, second, axis=0)
        if law.mutant("second_alone"):
            places = Gather(second, second, axis=0) if rank else second
        left = Gather(Gather(x, first, axis=a), second, axis=a)
        law.rewrite(left, Gather(x, places, axis=a))

    names = {0: "scalar", 1: "vector"}
    return rule(
        "gather",
        name=f"gather_gather_{names[rank]}",
        statement=f"Gather(Gather(x, i), j) = Gather(x, i[j]), j a {names[rank]}",
        samples=[dict(x=[2, 7], i=(3, -1, 5), j=(2, 0, -3) if rank else -2, a=1)],
    )(build)


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


@rule("gather", samples=[dict(r=2, x=[2, 3], i=0, a=1), dict(r=2, x=[2, 3], i=-1, a=1)])
def gather_of_unsqueeze(law: Law) -> None:
    """Gather(Unsqueeze(x, a), 0, a) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    a = law.axis("a", r + 1)
    i = _index(law, 0)
    b = law.axis("b", r + 1) if law.mutant("other_axis") else a
    law.rewrite(Gather(Unsqueeze(x, axes=one_axis(r + 1, a)), i, axis=b), x)


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


def _gather_of_concat(part: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        a = law.axis("a", r)
        parts = [law.tensor(f"x{j}", r) for j in range(2)]
        joined = Concat(*parts, axis=a)
        i = _index(law, 0)
        place = _from_front(law, i, joined.dim(a), sure=part == 1)
        first = parts[0].dim(a)
        inside = place < first if part == 0 else place >= first
        if not law.mutant("any_place"):
            law.require(inside, "the place is in the other part")
        own = place if part == 0 else place - first
        right = Gather(parts[part], law.number(own, kinds="int"), axis=a)
        law.rewrite(Gather(joined, i, axis=a), right)

    return rule(
        "gather",
        name=f"gather_of_concat_{part + 1}",
        statement=f"Gather(Concat(x1, x2), i) = Gather(x{part + 1}), where i is in it",
        samples=[dict(x0=[2, 3], x1=[2, 4], i=4 if part else -6, a=1)],
    )(build)


@rule("gather", samples=[dict(x=[2, 3], f="Relu")])
def shape_of_unary(law: Law) -> None:
    """Shape(f(x)) = Shape(x), f elementwise"""
    x = law.tensor("x", law.rank())
    f = law.pointwise("f")
    other = law.mutant("other_operand")
    y = law.tensor("y", law.rank("q")) if other else x
    law.rewrite(Shape(f(x)), Shape(y))


RULES: list[Rule] = [
    gather_of_one,
    gather_of_unsqueeze,
    unsqueeze_of_gather,
    gather_of_slice,
    *(_gather_of_concat(part) for part in range(2)),
    *(_gather_gather(rank) for rank in range(2)),
    gather_range,
    *(_gather_of_all(*row) for row in ((4, 3), (4, 1))),
    shape_of_unary,
]
