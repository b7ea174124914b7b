"""Constants that meet in sums, products and quotients become one.

Two constants merge only if the result is no larger than one of them: an outer product
would be.
"""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Add, Div, Mul, Sub
from ..language.pattern import Chain, Term
from ..language.terms import Bool, forall
from .law_table import equation


def no_larger(c: Term, d: Term) -> Bool:
    """Whether c and d, broadcast against each other, are as large as one of them."""
    smaller = forall(c.rank, lambda k: c.dim(k) <= d.dim(k))
    return smaller | forall(c.rank, lambda k: d.dim(k) <= c.dim(k))


law_of = partial(
    equation,
    family="merging",
    worthwhile=(
        lambda *terms: no_larger(*terms[-2:]),
        "one constant for both would be larger",
    ),
    sample=dict(c=(2.0, -0.5, 1.5), d=(0.5, 3.0, -1.25)),
)

SUMS = [
    law_of(
        "(x + c) + d = x + (c + d)",
        "x c:constant d:constant",
        lambda x, c, d: Add(Add(x, c), d),
        lambda x, c, d: Add(x, Add(c, d)),
        wrong={"difference": lambda x, c, d: Add(x, Sub(c, d))},
        name="add_add",
    ),
    law_of(
        "(x + c) - d = x + (c - d)",
        "x c:constant d:constant",
        lambda x, c, d: Sub(Add(x, c), d),
        lambda x, c, d: Add(x, Sub(c, d)),
        wrong={"sum": lambda x, c, d: Add(x, Add(c, d))},
        name="add_sub",
    ),
    law_of(
        "(x - c) + d = x + (d - c)",
        "x c:constant d:constant",
        lambda x, c, d: Add(Sub(x, c), d),
        lambda x, c, d: Add(x, Sub(d, c)),
        wrong={"swapped": lambda x, c, d: Add(x, Sub(c, d))},
        name="sub_add",
    ),
    law_of(
        "(x - c) - d = x - (c + d)",
        "x c:constant d:constant",
        lambda x, c, d: Sub(Sub(x, c), d),
        lambda x, c, d: Sub(x, Add(c, d)),
        wrong={"difference": lambda x, c, d: Sub(x, Sub(c, d))},
        name="sub_sub",
    ),
    law_of(
        "c - (x + d) = (c - d) - x",
        "x c:constant d:constant",
        lambda x, c, d: Sub(c, Add(x, d)),
        lambda x, c, d: Sub(Sub(c, d), x),
        wrong={"sum": lambda x, c, d: Sub(Add(c, d), x)},
        name="sub_of_add",
    ),
    law_of(
        "(x + c) + (y + d) = (x + y) + (c + d)",
        "x y c:constant d:constant",
        lambda x, y, c, d: Chain(Add, (x, y, c, d)),
        lambda x, y, c, d: Add(Add(x, y), Add(c, d)),
        wrong={"difference": lambda x, y, c, d: Add(Add(x, y), Sub(c, d))},
        name="add_pairs",
    ),
]

PRODUCTS = [
    law_of(
        "(x * c) * d = x * (c * d)",
        "x c:constant d:constant",
        lambda x, c, d: Mul(Mul(x, c), d),
        lambda x, c, d: Mul(x, Mul(c, d)),
        wrong={"sum": lambda x, c, d: Mul(x, Add(c, d))},
        name="mul_mul",
    ),
    law_of(
        "(x * c) / d = x * (c / d)",
        "float x c:constant d:constant",
        lambda x, c, d: Div(Mul(x, c), d),
        lambda x, c, d: Mul(x, Div(c, d)),
        wrong={"product": lambda x, c, d: Mul(x, Mul(c, d))},
        name="mul_div",
    ),
    law_of(
        "(x / c) * d = x * (d / c)",
        "float x c:constant d:constant",
        lambda x, c, d: Mul(Div(x, c), d),
        lambda x, c, d: Mul(x, Div(d, c)),
        wrong={"swapped": lambda x, c, d: Mul(x, Div(c, d))},
        name="div_mul",
    ),
]

RULES = [*SUMS, *PRODUCTS]
