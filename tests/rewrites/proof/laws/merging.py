"""Constants that meet in sums, products and quotients become one.

Two constants merge only if the result is no larger than one of them: an outer product
would be.
"""

from __future__ import annotations

from functools import partial

from fairhand.rewrites.language.operators.elementwise import Add, Div, Mul, Sub
from fairhand.rewrites.language.pattern import Chain, Term
from fairhand.rewrites.language.terms import Bool, forall
from fairhand.rewrites.rules.law_table import equation


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
        "c - (x - d) = (c + d) - x",
        "x c:constant d:constant",
        lambda x, c, d: Sub(c, Sub(x, d)),
        lambda x, c, d: Sub(Add(c, d), x),
        wrong={"difference": lambda x, c, d: Sub(Sub(c, d), x)},
        name="sub_of_sub",
    ),
    law_of(
        "c - (d - x) = x + (c - d)",
        "x c:constant d:constant",
        lambda x, c, d: Sub(c, Sub(d, x)),
        lambda x, c, d: Add(x, Sub(c, d)),
        wrong={"sum": lambda x, c, d: Add(x, Add(c, d))},
        name="sub_of_rest",
    ),
    law_of(
        "(c - x) + d = (c + d) - x",
        "x c:constant d:constant",
        lambda x, c, d: Add(Sub(c, x), d),
        lambda x, c, d: Sub(Add(c, d), x),
        wrong={"difference": lambda x, c, d: Sub(Sub(c, d), x)},
        name="rest_add",
    ),
    law_of(
        "(c - x) - d = (c - d) - x",
        "x c:constant d:constant",
        lambda x, c, d: Sub(Sub(c, x), d),
        lambda x, c, d: Sub(Sub(c, d), x),
        wrong={"sum": lambda x, c, d: Sub(Add(c, d), x)},
        name="rest_sub",
    ),
]

PRODUCTS = [
    law_of(
        "(x / c) / d = x / (c * d)",
        "float x c:constant d:constant",
        lambda x, c, d: Div(Div(x, c), d),
        lambda x, c, d: Div(x, Mul(c, d)),
        wrong={"quotient": lambda x, c, d: Div(x, Div(c, d))},
        name="div_div",
    ),
    law_of(
        "c / (x * d) = (c / d) / x",
        "float x c:constant d:constant",
        lambda x, c, d: Div(c, Mul(x, d)),
        lambda x, c, d: Div(Div(c, d), x),
        wrong={"product": lambda x, c, d: Div(Mul(c, d), x)},
        name="div_of_mul",
    ),
    law_of(
        "c / (x / d) = (c * d) / x",
        "float x c:constant d:constant",
        lambda x, c, d: Div(c, Div(x, d)),
        lambda x, c, d: Div(Mul(c, d), x),
        wrong={"quotient": lambda x, c, d: Div(Div(c, d), x)},
        name="div_of_div",
    ),
    law_of(
        "c / (d / x) = x * (c / d)",
        "float x c:constant d:constant",
        lambda x, c, d: Div(c, Div(d, x)),
        lambda x, c, d: Mul(x, Div(c, d)),
        wrong={"swapped": lambda x, c, d: Mul(x, Div(d, c))},
        name="div_of_inverse",
    ),
    law_of(
        "(c / x) * d = (c * d) / x",
        "float x c:constant d:constant",
        lambda x, c, d: Mul(Div(c, x), d),
        lambda x, c, d: Div(Mul(c, d), x),
        wrong={"quotient": lambda x, c, d: Div(Div(c, d), x)},
        name="inverse_mul",
    ),
    law_of(
        "(c / x) / d = (c / d) / x",
        "float x c:constant d:constant",
        lambda x, c, d: Div(Div(c, x), d),
        lambda x, c, d: Div(Div(c, d), x),
        wrong={"product": lambda x, c, d: Div(Mul(c, d), x)},
        name="inverse_div",
    ),
    law_of(
        "(x * c) * (y * d) = (x * y) * (c * d)",
        "x y c:constant d:constant",
        lambda x, y, c, d: Chain(Mul, (x, y, c, d)),
        lambda x, y, c, d: Mul(Mul(x, y), Mul(c, d)),
        wrong={"sum": lambda x, y, c, d: Mul(Mul(x, y), Add(c, d))},
        name="mul_pairs",
    ),
    law_of(
        "x * c + x * d = x * (c + d)",
        "x c:constant d:constant",
        lambda x, c, d: Add(Mul(x, c), Mul(x, d)),
        lambda x, c, d: Mul(x, Add(c, d)),
        wrong={"product": lambda x, c, d: Mul(x, Mul(c, d))},
        name="sum_of_multiples",
    ),
    law_of(
        "x * c - x * d = x * (c - d)",
        "x c:constant d:constant",
        lambda x, c, d: Sub(Mul(x, c), Mul(x, d)),
        lambda x, c, d: Mul(x, Sub(c, d)),
        wrong={"sum": lambda x, c, d: Mul(x, Add(c, d))},
        name="difference_of_multiples",
    ),
]

RULES = [*SUMS, *PRODUCTS]
