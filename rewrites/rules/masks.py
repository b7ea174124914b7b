"""Masks of attention, as the exporters of Hugging Face models compute them."""

from __future__ import annotations

from typing import Any

from ..language.operators.attention import Attention, GatherND, Range
from ..language.operators.elementwise import Add, And, GreaterOrEqual, Where
from ..language.operators.movement import Concat, Expand, Unsqueeze
from ..language.pattern import Apply, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, Sizes, axis_range, eq, fixed, sizes_of
from .attention_operands import fits_scores
from .law_table import fits


def _counted(law: Law, name: str) -> tuple[Term, Int]:
    """0, 1, 2 .. up to a number, and that number."""
    limit = law.tensor(name, 0, kinds="int")
    zero, one = (law.full(f"{name}_{n}", 0, n, kinds="int") for n in (0, 1))
    return Range(zero, limit, one), limit.element()


def _true(law: Law, twice: bool) -> tuple[Term, Int]:
    """Counts from 0 along one axis, and says that no number is negative; its rank."""
    column, _ = _counted(law, "n")
    added = law.new_axes("A", 1)
    column, rank = Unsqueeze(column, axes=added), added.length
    if twice:
        more = law.new_axes("B", rank)
        column, rank = Unsqueeze(column, axes=more), more.length
    return GreaterOrEqual(column, law.full("zero", rank, 0, kinds="int")), rank


def _gather_of_ranges(twice: bool) -> Rule:
    """`twice`: the axes of the column numbers are added in two steps."""

    @rule(
        "masks",
        name="gather_nd_of_ranges" + "_twice" * twice,
        statement="GatherND(x, (i, j) for all i, j) = Unsqueeze(x), the places as"
        " [b, 1, 1, s, 2]",
        samples=[dict(x=[2, 3], b=2, s=3)],
    )
    def gathered(law: Law) -> None:
        x = law.tensor("x", 2)
        (rows, count), (columns, length) = _counted(law, "b"), _counted(law, "s")
        law.require(eq(count, x.dim(0)) & eq(length, x.dim(1)), "a part of x is read")
        row = Unsqueeze(rows, axes=axis_range(4, 1, 4))
        if twice:
            line = Unsqueeze(columns, axes=axis_range(3, 0, 2))
            column = Unsqueeze(line, axes=axis_range(4, 2, 3))
        else:
            column = Unsqueeze(columns, axes=axis_range(4, 0, 3))
        sizes = Sizes(4, fixed([count, 1, 1, length]))
        places = [
            Unsqueeze(Expand(y, shape=sizes), axes=axis_range(5, 4, 5))
            for y in (row, column)
        ]
        left = GatherND(x, Concat(*places, axis=4), batch_dims=0)
        axes = axis_range(4, 2, 4) if law.mutant("other_axes") else axis_range(4, 1, 3)
        law.rewrite(left, Unsqueeze(x, axes=axes))

    return gathered


# Where the numbers stand in two of the three samples' axes.
AXES: dict[bool, dict[str, Any]] = {
    False: dict(n=4, A={0, 2}),
    True: dict(n=4, A={0}, B={2}),
}


def _where_counted(twice: bool) -> Rule:
    """What is true throughout comes to stand outside, where a sum needs it no more."""

    @rule(
        "masks",
        name="where_counted_and" + "_twice" * twice,
        statement="Where(range >= 0 & y, a, b) = Where(range >= 0, Where(y, a, b), b)",
        samples=[dict(AXES[twice], y=[2, 1, 3])],
        measure="flops",
    )
    def where(law: Law) -> None:
        true, r = _true(law, twice)
        y = law.operand("y", r, kinds="bool")
        a, b = law.scalar("a", r), law.scalar("b", r)
        inner = Where(y, b, a) if law.mutant("swapped") else Where(y, a, b)
        law.rewrite(Where(And(true, y), a, b), Where(true, inner, b))

    return where


def _add_counted(twice: bool) -> Rule:
    @rule(
        "masks",
        name="add_counted_mask" + "_twice" * twice,
        statement="s + Where(range >= 0, m, o) = s + m",
        samples=[dict(AXES[twice], s=[2, 4, 3], m=[2, 1, 3])],
        measure="flops",
    )
    def add(law: Law) -> None:
        true, r = _true(law, twice)
        s, m, o = law.tensor("s", r), law.operand("m", r), law.scalar("o", r)
        mask = Where(true, o, m) if law.mutant("otherwise") else Where(true, m, o)
        if not law.mutant("enlarging"):
            law.require(fits(true, s, r), "the range enlarges the sum")
        law.rewrite(Add(s, mask), Add(s, m))

    return add


def _and_counted(twice: bool) -> Rule:
    @rule(
        "masks",
        name="counted_and" + "_twice" * twice,
        statement="range >= 0 & y = y",
        samples=[dict(AXES[twice], y=[2, 4, 3])],
    )
    def conjunction(law: Law) -> None:
        true, r = _true(law, twice)
        y = law.tensor("y", r, kinds="bool")
        if not law.mutant("enlarging"):
            law.require(fits(true, y, r), "the range enlarges y")
        law.rewrite(And(true, y), y)

    return conjunction


def _attention_of(law: Law, mask: Term, fitting: Term) -> tuple[Term, Term]:
    """Attention with a mask, and with one of other axes that fits as well."""
    b, h, s, t, d, e = (law.int(name, 0) for name in "bhstde")
    q = law.shaped("q", b, h, s, d, extended=True)
    k = law.shaped("k", b, h, t, d, extended=True)
    v = law.shaped("v", b, h, t, e, extended=True)
    scale = law.real("scale")
    fits_scores(law, fitting, (b, h, s, t))
    left, right = (
        Attention(q, k, v, m, scale=scale, causal=0) for m in (mask, fitting)
    )
    return left, right


SHAPES = dict(q=[2, 3, 4, 8], k=[2, 3, 5, 8], v=[2, 3, 5, 6], m=[2, 1, 4, 5], scale=0.5)


# A node fewer stands below an Expand.
@rule("masks", samples=[dict(SHAPES, z=[2, 3, 4, 5])], measure="order")
def attention_mask_expanded(law: Law) -> None:
    """Attention(q, k, v, Expand(m)) = Attention(q, k, v, m)"""
    m = law.tensor("m", 4, extended=True)
    expanded = Expand(m, shape=law.sizes("z", 4))
    left, right = _attention_of(law, expanded, m)
    if law.mutant("no_mask"):
        assert isinstance(right, Apply)
        _, k, v, _ = right.node.inputs
        right = Attention(k, k, v, m, **right.node.parameters)
    law.rewrite(left, right)


@rule("masks", samples=[dict(r=3, y=[2, 1, 3], yes=[1, 4, 1])], measure="flops")
def true_and_enlarging(law: Law) -> None:
    """And(true, y) = Expand(y)"""
    r = law.rank()
    y = law.operand("y", r, kinds="bool")
    yes = law.filled("yes", r, 0 if law.mutant("false") else 1, kinds="bool")
    left = And(yes, y)
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


RULES: list[Rule] = [
    *(
        make(twice)
        for make in (_gather_of_ranges, _and_counted, _where_counted, _add_counted)
        for twice in (False, True)
    ),
    true_and_enlarging,
    where_expanded_condition,
    attention_mask_expanded,
]
