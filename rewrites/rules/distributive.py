"""Common factors taken out: DNNFusion's distributive laws.

Taking out a factor saves operations unless it makes a small product large, so the
search decides, by the sizes.
"""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Add, Div, Mul, Pow, Sub
from .law_table import equation, number

law_of = partial(equation, family="distributive", when="search")

RULES = [
    law_of(
        "a * c + b * c = (a + b) * c",
        "a b c",
        lambda a, b, c: Add(Mul(a, c), Mul(b, c)),
        lambda a, b, c: Mul(Add(a, b), c),
        wrong={"other_factor": lambda a, b, c: Mul(Add(a, c), b)},
        name="add_of_products",
    ),
    law_of(
        "a * c - b * c = (a - b) * c",
        "a b c",
        lambda a, b, c: Sub(Mul(a, c), Mul(b, c)),
        lambda a, b, c: Mul(Sub(a, b), c),
        wrong={"other_factor": lambda a, b, c: Mul(Sub(a, c), b)},
        name="sub_of_products",
    ),
    law_of(
        "a / c + b / c = (a + b) / c",
        "float a b c",
        lambda a, b, c: Add(Div(a, c), Div(b, c)),
        lambda a, b, c: Div(Add(a, b), c),
        wrong={"product": lambda a, b, c: Mul(Add(a, b), c)},
        name="add_of_quotients",
        sample=dict(positive=["c"]),
    ),
    law_of(
        "a / c - b / c = (a - b) / c",
        "float a b c",
        lambda a, b, c: Sub(Div(a, c), Div(b, c)),
        lambda a, b, c: Div(Sub(a, b), c),
        wrong={"product": lambda a, b, c: Mul(Sub(a, b), c)},
        name="sub_of_quotients",
        sample=dict(positive=["c"]),
    ),
    law_of(
        "a + a * b = a * (1 + b)",
        "a b",
        lambda a, b: Add(a, Mul(a, b)),
        lambda a, b: Mul(a, Add(number(1), b)),
        wrong={"two": lambda a, b: Mul(a, Add(number(2), b))},
        name="add_of_own_product",
        measure="flops",
    ),
    law_of(
        "a - a * b = a * (1 - b)",
        "a b",
        lambda a, b: Sub(a, Mul(a, b)),
        lambda a, b: Mul(a, Sub(number(1), b)),
        wrong={"two": lambda a, b: Mul(a, Sub(number(2), b))},
        name="sub_of_own_product",
        measure="flops",
    ),
    law_of(
        "a * b - a = a * (b - 1)",
        "a b",
        lambda a, b: Sub(Mul(a, b), a),
        lambda a, b: Mul(a, Sub(b, number(1))),
        wrong={"two": lambda a, b: Mul(a, Sub(b, number(2)))},
        name="own_product_minus",
        measure="flops",
    ),
    law_of(
        "a**2 + a * b = a * (a + b)",
        "float a b two:2:any",
        lambda a, b, two: Add(Pow(a, two), Mul(a, b)),
        lambda a, b, two: Mul(a, Add(a, b)),
        wrong={"other": lambda a, b, two: Mul(b, Add(a, b))},
        name="add_of_square_and_product",
    ),
    law_of(
        "a**2 - a * b = a * (a - b)",
        "float a b two:2:any",
        lambda a, b, two: Sub(Pow(a, two), Mul(a, b)),
        lambda a, b, two: Mul(a, Sub(a, b)),
        wrong={"other": lambda a, b, two: Mul(b, Sub(a, b))},
        name="sub_of_square_and_product",
    ),
    law_of(
        "a * b - a**2 = a * (b - a)",
        "float a b two:2:any",
        lambda a, b, two: Sub(Mul(a, b), Pow(a, two)),
        lambda a, b, two: Mul(a, Sub(b, a)),
        wrong={"swapped": lambda a, b, two: Mul(a, Sub(a, b))},
        name="product_minus_square",
    ),
    law_of(
        "a**2 - b**2 = (a + b) * (a - b)",
        "float a b two:2:any",
        lambda a, b, two: Sub(Pow(a, two), Pow(b, two)),
        lambda a, b, two: Mul(Add(a, b), Sub(a, b)),
        wrong={"square": lambda a, b, two: Mul(Sub(a, b), Sub(a, b))},
        name="difference_of_squares",
        measure="flops",
    ),
]

# DNNFusion's table prints this row with the factors exchanged.
FALSE_RULES = [
    law_of(
        "a * c + a * b = (a + b) * c",
        "a b c",
        lambda a, b, c: Add(Mul(a, c), Mul(a, b)),
        lambda a, b, c: Mul(Add(a, b), c),
        wrong={},
        name="factor_as_published",
        false=True,
    ),
]
