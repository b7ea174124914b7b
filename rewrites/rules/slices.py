"""Slice and Split: two cuts that are one, a cut of what was joined, cuts into parts."""

from __future__ import annotations

from ..language.operators.movement import Concat, Slice, Split
from ..language.pattern import Apply, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import (
    Bool,
    Fn,
    Int,
    IntLike,
    choose,
    eq,
    first,
    fixed,
    forall,
    integer,
)


class Cut:
    """The begin, end and step of a Slice."""

    def __init__(self, law: Law, rank: IntLike, suffix: str = "") -> None:
        self.rank = rank
        self.begin, self.end, self.step = (
            law.fn(f"{name}{suffix}", rank) for name in ("begin", "end", "step")
        )

    def of(self, x: Term) -> Apply:
        """The Slice of x."""
        return Slice(x, begin=self.begin, end=self.end, step=self.step)

    def whole(self, x: Term, k: Int) -> Bool:
        """Axis k is not cut."""
        full = eq(self.begin(k), 0) & eq(self.end(k), x.dim(k))
        return full & eq(self.step(k), 1)

    def along(self, x: Term, axis: Int) -> Bool:
        """Only one axis is cut, with step 1."""
        others = forall(self.rank, lambda k: eq(k, axis) | self.whole(x, k))
        return others & eq(self.step(axis), 1)

    def axis_of(self, x: Term) -> Int:
        """The first axis that is cut."""
        return first(self.rank, lambda k: ~self.whole(x, k))


def cut_along(x: Term, axis: Int, begin: IntLike, end: IntLike) -> Apply:
    """A Slice of one axis."""
    return Slice(
        x,
        begin=Fn(x.rank, lambda k: choose(eq(k, axis), begin, 0)),
        end=Fn(x.rank, lambda k: choose(eq(k, axis), end, x.dim(k))),
        step=Fn(x.rank, lambda k: 1),
    )


@rule("slices", samples=[dict(x=[2, 3], begin=(0, 0), end=(2, 3), step=(1, 1))])
def slice_everything(law: Law) -> None:
    """Slice(x, everything) = x"""
    r = law.rank()
    x = law.tensor("x", r)
    cut = Cut(law, r)
    if not law.mutant("any_cut"):
        law.require(forall(r, lambda k: cut.whole(x, k)), "something is cut off")
    law.rewrite(cut.of(x), x)


def _at_once(law: Law, inner: Apply, one: Cut, two: Cut) -> Apply:
    """What the second cut leaves of the first one's result."""
    (x,), r = inner.node.inputs, one.rank
    assert x is not None

    def plain(k: Int) -> Bool:
        return eq(one.step(k), 1)

    if not law.mutant("any_step"):
        law.require(
            forall(r, lambda k: plain(k) | two.whole(inner, k)),
            "an axis is cut twice, first with steps",
        )
    start = 0 if law.mutant("not_shifted") else 1

    def moved(k: Int, place: Fn) -> Int:
        return one.begin(k) * start + place(k)

    return Slice(
        x,
        begin=Fn(r, lambda k: choose(plain(k), moved(k, two.begin), one.begin(k))),
        end=Fn(r, lambda k: choose(plain(k), moved(k, two.end), one.end(k))),
        step=Fn(r, lambda k: choose(plain(k), two.step(k), one.step(k))),
    )


@rule(
    "slices",
    samples=[
        dict(
            x=[9, 8, 7],
            begin1=(2, 1, 0),
            end1=(8, 8, 7),
            step1=(1, 2, 1),
            begin2=(1, 0, 1),
            end2=(5, 4, 7),
            step2=(2, 1, 3),
        )
    ],
)
def slice_slice(law: Law) -> None:
    """Slice(Slice(x)) = Slice(x), of different axes or where the first has step 1"""
    r = law.rank()
    x = law.tensor("x", r)
    one, two = Cut(law, r, "1"), Cut(law, r, "2")
    inner = one.of(x)
    law.rewrite(two.of(inner), _at_once(law, inner, one, two))


@rule(
    "horizontal",
    samples=[
        dict(
            x=[9, 8],
            begin1=(2, 0),
            end1=(8, 8),
            step1=(2, 1),
            begin2=(0, 1),
            end2=(3, 8),
            step2=(1, 2),
            begin3=(0, 0),
            end3=(3, 8),
            step3=(1, 2),
        )
    ],
)
def slices_of_slice(law: Law) -> None:
    """Slice(y), Slice(y) of y = Slice(x) = two slices of x, as above"""
    r = law.rank()
    x = law.tensor("x", r)
    one, two, three = (Cut(law, r, suffix) for suffix in "123")
    inner = one.of(x)
    right = tuple(_at_once(law, inner, one, other) for other in (two, three))
    law.rewrite((two.of(inner), three.of(inner)), right)


# ---- Slices that are the parts of a whole


def _slices_to_split(count: int) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=1)
        x = law.tensor("x", r)
        cuts = [Cut(law, r, str(j)) for j in range(count)]
        a = cuts[0].axis_of(x)
        law.require(a < integer(r), "nothing is cut")
        for cut in cuts:
            law.require(cut.along(x, a), "another axis is cut too")
        place: IntLike = 0
        for cut in () if law.mutant("gap") else cuts:
            law.require(eq(cut.begin(a), place), "the slices don't follow each other")
            place = cut.end(a)
        if not law.mutant("gap"):
            law.require(eq(place, x.dim(a)), "the slices leave something over")
        order = reversed(cuts) if law.mutant("reversed") else cuts
        sizes = fixed([cut.end(a) - cut.begin(a) for cut in order])
        parts = Split.all(x, count=count, axis=a, sizes=sizes)
        law.rewrite([cut.of(x) for cut in cuts], parts)

    ends = [0, 2, 3, 7, 9, 10, 14][: count + 1]
    sample: dict[str, object] = dict(x=[2, ends[-1]])
    for j in range(count):
        sample |= {f"begin{j}": (0, ends[j]), f"end{j}": (2, ends[j + 1])}
        sample[f"step{j}"] = (1, 1)
    return rule(
        "slices",
        name=f"slices_to_split_{count}",
        statement=f"{count} slices of x, one after the other = Split(x)",
        samples=[sample],
    )(build)


@rule("slices", samples=[dict(x=[2, 6], a=1, sizes=(1, 5))])
def concat_of_split_2(law: Law) -> None:
    """Concat(Split(x), 2 parts) = x"""
    r = law.rank(low=1)
    x, a = law.tensor("x", r), law.axis("a", r)
    parts = Split.all(x, count=2, axis=a, sizes=law.fn("sizes", 2))
    order = reversed(parts) if law.mutant("reversed") else parts
    law.rewrite(Concat(*order, axis=a), x)


@rule("slices", samples=[dict(x0=[2, 1], x1=[2, 2], a=1, sizes=(1, 2))])
def split_of_concat_2(law: Law) -> None:
    """Split(Concat(2 parts)) = the parts"""
    r = law.rank(low=1)
    parts = [law.tensor(f"x{j}", r) for j in range(2)]
    a, sizes = law.axis("a", r), law.fn("sizes", 2)
    if not law.mutant("any_sizes"):
        for j, part in enumerate(parts):
            law.require(eq(sizes(j), part.dim(a)), "the parts are others")
    joined = Concat(*parts, axis=a)
    law.rewrite(Split.all(joined, count=2, axis=a, sizes=sizes), parts)


def _slice_of_concat(name: str, place: int, whole: bool) -> Rule:
    """A cut that leaves nothing of the other part, or `whole`, that part alone."""

    def build(law: Law) -> None:
        r = law.rank(low=1)
        parts = [law.tensor(f"x{j}", r) for j in range(2)]
        a, cut = law.axis("a", r), Cut(law, r)
        part, joined = parts[place], Concat(*parts, axis=a)
        begin = parts[0].dim(a) if place else integer(0)
        end = begin + part.dim(a)
        if whole:
            all_of_it = eq(cut.begin(a), begin) & eq(cut.end(a), end)
            law.require(cut.along(joined, a) & all_of_it, "it is a part of the part")
            other = law.mutant("other")
            law.rewrite(cut.of(joined), parts[1 - place] if other else part)
            return
        shift = integer(0) if place and law.mutant("not_shifted") else begin
        if not law.mutant("elsewhere"):
            law.require(cut.begin(a) >= begin, "it begins in the part before")
            law.require(cut.end(a) <= end, "it ends in the part behind")

        def moved(at: Fn) -> Fn:
            return Fn(r, lambda k: choose(eq(k, a), at(k) - shift, at(k)))

        taken = Slice(part, begin=moved(cut.begin), end=moved(cut.end), step=cut.step)
        law.rewrite(cut.of(joined), taken)

    ends = dict(begin=(0, 4 * place), end=(2, 4 + 5 * place), step=(1, 1))
    taken = f"x{place}" if whole else f"Slice(x{place})"
    return rule(
        "slices",
        name=name,
        statement=f"Slice(Concat(x0, x1)) = {taken}",
        samples=[dict(x0=[2, 4], x1=[2, 5], a=1, **ends)],
    )(build)


@rule("slices", samples=[dict(x=[2, 3], a=1, sizes=(3,))])
def split_single(law: Law) -> None:
    """Split(x) into one part = x"""
    r = law.rank(low=1)
    x = law.tensor("x", r)
    a = law.axis("a", r)
    (part,) = Split.all(x, count=1, axis=a, sizes=law.fn("sizes", 1))
    wrong = law.mutant("half")
    law.rewrite(part, cut_along(x, a, 0, x.dim(a) // 2) if wrong else x)


RULES: list[Rule] = [
    _slice_of_concat("slice_of_first", 0, False),
    _slice_of_concat("slice_of_second", 1, False),
    _slice_of_concat("first_of_concat", 0, True),
    _slice_of_concat("second_of_concat", 1, True),
    *map(_slices_to_split, (2, 3, 4, 6)),
]
