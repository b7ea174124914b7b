"""Constants that meet in sums, products and quotients become one.

Two constants merge only if the result is no larger than one of them: an outer product
would be.
"""

from __future__ import annotations

from functools import partial

from ..language.pattern import Term
from ..language.terms import Bool, forall
from .law_table import equation


def no_larger(c: Term, d: Term) -> Bool:
    """Whether c and d, broadcast against each other, are as large as one of them."""
    smaller = forall(c.rank, lambda k: c.dim(k) <= d.dim(k))
    return smaller | forall(c.rank, lambda k: d.dim(k) <= c.dim(k))


law_of = partial(
    equation,
    family="merging",
    operands="x c:constant d:constant",
    worthwhile=(
        lambda *terms: no_larger(*terms[-2:]),
        "one constant for both would be larger",
    ),
    sample=dict(c=(2.0, -0.5, 1.5), d=(0.5, 3.0, -1.25)),
)

SUMS = [
    law_of("(x + c) + d = x + (c + d)", wrong="x + (c - d)", name="add_add"),
    law_of("(x + c) - d = x + (c - d)", wrong="x + (c + d)", name="add_sub"),
    law_of("(x - c) + d = x + (d - c)", wrong="x + (c - d)", name="sub_add"),
    law_of("(x - c) - d = x - (c + d)", wrong="x - (c - d)", name="sub_sub"),
    law_of("c - (x + d) = (c - d) - x", wrong="(c + d) - x", name="sub_of_add"),
    law_of(
        "Sum(x, y, c, d) = (x + y) + (c + d)",
        operands="x y c:constant d:constant",
        wrong="(x + y) + (c - d)",
        name="add_pairs",
    ),
]

floats = partial(law_of, operands="float x c:constant d:constant")
PRODUCTS = [
    law_of("(x * c) * d = x * (c * d)", wrong="x * (c + d)", name="mul_mul"),
    floats("(x * c) / d = x * (c / d)", wrong="x * (c * d)", name="mul_div"),
    floats("(x / c) * d = x * (d / c)", wrong="x * (c / d)", name="div_mul"),
]
