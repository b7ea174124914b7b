"""Signs and quotients in their plainest spelling."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Add, Div, Mul, Neg, Sub
from .law_table import equation, number

law_of = partial(equation, family="canonical")

PLAIN = [
    law_of(
        "-(-x) = x",
        "x",
        lambda x: Neg(Neg(x)),
        lambda x: x,
        wrong={"one": Neg},
        name="neg_neg",
    ),
    law_of(
        "a + (-b) = a - b",
        "a b",
        lambda a, b: Add(a, Neg(b)),
        Sub,
        wrong={"sum": Add},
        name="add_negated",
    ),
    law_of(
        "-(x / c) = x / (-c)",
        "float x c:constant",
        lambda x, c: Neg(Div(x, c)),
        lambda x, c: Div(x, Neg(c)),
        wrong={"unsigned": Div},
        name="neg_of_quotient",
    ),
    law_of(
        "x * (-1) = -x",
        "x one:-1",
        Mul,
        lambda x, one: Neg(x),
        wrong={"none": lambda x, one: x},
        name="mul_minus_one",
        measure="flops",
    ),
    law_of(
        "0 - x = -x",
        "float x zero:0",
        lambda x, zero: Sub(zero, x),
        lambda x, zero: Neg(x),
        wrong={"none": lambda x, zero: x},
        name="zero_minus",
        measure="flops",
    ),
]

# The search weighs these: they trade a division for a multiplication, or drop both
# where the divisor is 0.
QUOTIENTS = [
    law_of(
        "(a / b) * b = a",
        "float a b",
        lambda a, b: Mul(Div(a, b), b),
        lambda a, b: a,
        wrong={"divisor": lambda a, b: Mul(a, b)},
        name="quotient_times_divisor",
        when="search",
        sample=dict(positive=["b"]),
    ),
    law_of(
        "(a * b) / b = a",
        "float a b",
        lambda a, b: Div(Mul(a, b), b),
        lambda a, b: a,
        wrong={"divisor": Div},
        name="product_over_factor",
        when="search",
        sample=dict(positive=["b"]),
    ),
    law_of(
        "(a / b) * (b / c) = a / c",
        "float a b c",
        lambda a, b, c: Mul(Div(a, b), Div(b, c)),
        lambda a, b, c: Div(a, c),
        wrong={"divisor": lambda a, b, c: Div(a, b)},
        name="chained_quotients",
        when="search",
        sample=dict(positive=["b", "c"]),
    ),
    law_of(
        "(a / c) / (b / c) = a / b",
        "float a b c",
        lambda a, b, c: Div(Div(a, c), Div(b, c)),
        lambda a, b, c: Div(a, b),
        wrong={"divisor": lambda a, b, c: Div(a, c)},
        name="quotient_of_quotients",
        when="search",
        sample=dict(positive=["b", "c"]),
    ),
    law_of(
        "(a * c) / (b * c) = a / b",
        "float a b c",
        lambda a, b, c: Div(Mul(a, c), Mul(b, c)),
        lambda a, b, c: Div(a, b),
        wrong={"divisor": lambda a, b, c: Div(a, c)},
        name="quotient_of_products",
        when="search",
        sample=dict(positive=["b", "c"]),
    ),
    law_of(
        "(a / b) / c = a / (b * c)",
        "float a b c",
        lambda a, b, c: Div(Div(a, b), c),
        lambda a, b, c: Div(a, Mul(b, c)),
        wrong={"sum": lambda a, b, c: Div(a, Add(b, c))},
        name="repeated_quotient",
        when="search",
        sample=dict(positive=["b", "c"]),
    ),
    law_of(
        "a / (b / c) = (a * c) / b",
        "float a b c",
        lambda a, b, c: Div(a, Div(b, c)),
        lambda a, b, c: Div(Mul(a, c), b),
        wrong={"swapped": lambda a, b, c: Div(Mul(a, b), c)},
        name="quotient_by_quotient",
        when="search",
        sample=dict(positive=["b", "c"]),
    ),
    law_of(
        "(a / b) * (c / d) = (a * c) / (b * d)",
        "float a b c d",
        lambda a, b, c, d: Mul(Div(a, b), Div(c, d)),
        lambda a, b, c, d: Div(Mul(a, c), Mul(b, d)),
        wrong={"swapped": lambda a, b, c, d: Div(Mul(a, b), Mul(c, d))},
        name="product_of_quotients",
        when="search",
        sample=dict(positive=["b", "d"]),
    ),
    law_of(
        "x / c = x * (1 / c)",
        "float x c:constant",
        Div,
        lambda x, c: Mul(x, Div(number(1), c)),
        wrong={"product": Mul},
        name="div_by_constant",
        when="search",
        sample=dict(c=(0.5, 3.0, -7.0)),
    ),
]

RULES = [*PLAIN, *QUOTIENTS]
