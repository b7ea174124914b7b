"""Concat and Split of any number of tensors.

Member j of a concatenation starts at offset(j), the sum of the sizes before it, and
selector(c) is the member that position c lies in. Both are functions known by what
holds of them when no size is negative; concatenations with the same sizes share them.
Sound because each fact added is a property of those sums, under that premise.
"""

from __future__ import annotations

from typing import Any

import z3

from ..kernel.questions import Questions
from ..kernel.scalars import All, Scalar
from ..kernel.smt import (
    IndexMap,
    Integer,
    both,
    choose,
    every,
    formula,
    fresh,
    fresh_function,
    implies,
    integer,
    same,
    term,
    within,
)
from ..kernel.tensors import Context, Family, Offsets, Tensor


def concat(context: Context, family: Family, axis: Integer) -> Tensor:
    """The members one after the other along the axis; their other sizes agree."""
    axis = integer(axis)
    rank, count = family.rank, family.count
    context.require(both(within(axis, rank), count >= 1), "the axis of Concat")
    context.require(agree_elsewhere(family, axis), "the sizes of Concat's inputs")
    parts = offsets(context, count, lambda j: family.dim(j, axis))

    def at(index: IndexMap) -> Scalar:
        member = parts.selector(index(axis))
        start = parts.offset(member)
        return family.at(
            member, lambda k: choose(same(k, axis), index(axis) - start, index(k))
        )

    total = parts.offset(count)
    return Tensor(rank, lambda k: choose(same(k, axis), total, family.dim(0, k)), at)


def split(
    context: Context, tensor: Tensor, axis: Integer, sizes: IndexMap, count: Integer
) -> Family:
    """`count` slices along the axis, of the given sizes, which add up to the whole."""
    axis = integer(axis)
    context.require(within(axis, tensor.rank), "the axis of Split")
    parts = offsets(context, count, sizes)
    context.require(same(parts.offset(count), tensor.dim(axis)), "the sizes of Split")

    def at(j: Integer, index: IndexMap) -> Scalar:
        start = parts.offset(j)
        return tensor.at(lambda k: choose(same(k, axis), index(axis) + start, index(k)))

    def dim(j: Integer, k: Integer) -> Integer:
        return choose(same(k, axis), sizes(j), tensor.dim(k))

    return Family(count, tensor.rank, dim, at)


def agree_elsewhere(family: Family, axis: Integer) -> Any:
    """All members have the sizes of the first, but for the axis."""

    def agree(j: Integer, k: Integer) -> Any:
        return implies(
            both(within(j, family.count), within(k, family.rank), k != axis),
            same(family.dim(j, k), family.dim(0, k)),
        )

    if isinstance(family.rank, int) and isinstance(family.count, int):
        places = [(j, k) for j in range(family.count) for k in range(family.rank)]
        return both(*(agree(j, k) for j, k in places))
    j, k = fresh("j"), fresh("k")
    trigger = term(family.dim(j, k))
    usable = all(any(z3.eq(a, x) for a in trigger.children()) for x in (j, k))
    patterns = [trigger] if usable else []
    return z3.ForAll([j, k], formula(agree(j, k)), patterns=patterns)


def offsets(context: Context, count: Integer, sizes: IndexMap) -> Offsets:
    """The offsets and selector of these sizes, shared where they are provably equal."""
    count = integer(count)
    if isinstance(count, int):
        known = [integer(sizes(j)) for j in range(count)]
        if all(isinstance(size, int) for size in known):
            return counted(known)
    questions, facts = Questions(context, 0), tuple(context.hypotheses)
    for other in context.offsets:
        if questions.same_integer(count, other.count, facts) and questions.same_index(
            sizes, other.sizes, count, facts
        ):
            return other
    found = Offsets(count, sizes, fresh_function("offset"), fresh_function("member"))
    context.offsets.append(found)
    premise = formula(both(count >= 0, All(count, lambda j: sizes(j) >= 0).formula()))
    context.require(premise, "no size is negative")
    for fact in properties(found):
        context.assume(z3.Implies(premise, formula(fact)))
    return found


def properties(parts: Offsets) -> list[Any]:
    """What holds of sums of sizes that are not negative."""
    count, sizes, offset, member = (
        parts.count,
        parts.sizes,
        parts.offset,
        parts.selector,
    )
    j, c = fresh("j"), fresh("c")
    s = member(c)
    inside = both(offset(j) <= c, c < offset(j) + sizes(j))
    only = z3.Implies(formula(both(within(j, count), inside)), s == j)
    return [
        offset(0) == 0,
        implies(count >= 1, offset(1) == sizes(0)),
        implies(count >= 1, offset(count) == offset(count - 1) + sizes(count - 1)),
        every(
            j,
            implies(
                within(j, count),
                both(offset(j) >= 0, offset(j) + sizes(j) <= offset(count)),
            ),
            offset(j),
        ),
        every(
            c,
            implies(
                within(c, offset(count)),
                both(within(s, count), offset(s) <= c, c < offset(s) + sizes(s)),
            ),
            s,
        ),
        z3.ForAll([j, c], only, patterns=[z3.MultiPattern(offset(j), s)]),
    ]


def counted(sizes: list[int]) -> Offsets:
    """Offsets of sizes that are numbers."""
    starts = [sum(sizes[:j]) for j in range(len(sizes) + 1)]

    def offset(j: Integer) -> Integer:
        result: Integer = starts[-1]
        for n in reversed(range(len(starts) - 1)):
            result = choose(same(j, n), starts[n], result)
        return result

    def member(c: Integer) -> Integer:
        result: Integer = len(sizes) - 1
        for n in reversed(range(len(sizes) - 1)):
            result = choose(c < starts[n + 1], n, result)
        return result

    return Offsets(len(sizes), lambda j: sizes[j], offset, member)
