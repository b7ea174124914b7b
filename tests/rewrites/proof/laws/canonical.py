"""Signs and quotients in their plainest spelling."""

from __future__ import annotations

from functools import partial

from fairhand.rewrites.language.operators.elementwise import (
    Add,
    Div,
    Mul,
    Neg,
    Reciprocal,
    Sub,
)
from fairhand.rewrites.rules.law_table import equation

law_of = partial(equation, family="canonical")

SIGNS = [
    law_of(
        "a - (-b) = a + b",
        "a b",
        lambda a, b: Sub(a, Neg(b)),
        Add,
        wrong={"difference": Sub},
        name="sub_negated",
    ),
    law_of(
        "-(a - b) = b - a",
        "a b",
        lambda a, b: Neg(Sub(a, b)),
        lambda a, b: Sub(b, a),
        wrong={"same": Sub},
        name="neg_of_difference",
    ),
    law_of(
        "(-a) * (-b) = a * b",
        "a b",
        lambda a, b: Mul(Neg(a), Neg(b)),
        Mul,
        wrong={"negated": lambda a, b: Mul(Neg(a), b)},
        name="mul_of_negated",
    ),
    law_of(
        "(-a) / (-b) = a / b",
        "float a b",
        lambda a, b: Div(Neg(a), Neg(b)),
        Div,
        wrong={"negated": lambda a, b: Div(Neg(a), b)},
        name="div_of_negated",
    ),
    law_of(
        "a + b * (-c) = a - b * c",
        "a b c",
        lambda a, b, c: Add(a, Mul(b, Neg(c))),
        lambda a, b, c: Sub(a, Mul(b, c)),
        wrong={"sum": lambda a, b, c: Add(a, Mul(b, c))},
        name="add_negated_product",
    ),
    law_of(
        "a - b * (-c) = a + b * c",
        "a b c",
        lambda a, b, c: Sub(a, Mul(b, Neg(c))),
        lambda a, b, c: Add(a, Mul(b, c)),
        wrong={"difference": lambda a, b, c: Sub(a, Mul(b, c))},
        name="sub_negated_product",
    ),
]

# A constant takes the sign in.
SIGNED_CONSTANTS = [
    law_of(
        "-(x * c) = x * (-c)",
        "x c:constant",
        lambda x, c: Neg(Mul(x, c)),
        lambda x, c: Mul(x, Neg(c)),
        wrong={"unsigned": Mul},
        name="neg_of_product",
    ),
    law_of(
        "(-x) * c = x * (-c)",
        "x c:constant",
        lambda x, c: Mul(Neg(x), c),
        lambda x, c: Mul(x, Neg(c)),
        wrong={"unsigned": Mul},
        name="product_of_negated",
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
        "(-x) / c = x / (-c)",
        "float x c:constant",
        lambda x, c: Div(Neg(x), c),
        lambda x, c: Div(x, Neg(c)),
        wrong={"unsigned": Div},
        name="quotient_of_negated",
    ),
    law_of(
        "-(c / x) = (-c) / x",
        "float x c:constant",
        lambda x, c: Neg(Div(c, x)),
        lambda x, c: Div(Neg(c), x),
        wrong={"unsigned": lambda x, c: Div(c, x)},
        name="neg_of_constant_quotient",
    ),
    law_of(
        "c / (-x) = (-c) / x",
        "float x c:constant",
        lambda x, c: Div(c, Neg(x)),
        lambda x, c: Div(Neg(c), x),
        wrong={"unsigned": lambda x, c: Div(c, x)},
        name="quotient_by_negated",
    ),
    law_of(
        "-(x + c) = (-c) - x",
        "x c:constant",
        lambda x, c: Neg(Add(x, c)),
        lambda x, c: Sub(Neg(c), x),
        wrong={"unsigned": lambda x, c: Sub(c, x)},
        name="neg_of_sum",
    ),
    law_of(
        "(-x) - c = (-c) - x",
        "x c:constant",
        lambda x, c: Sub(Neg(x), c),
        lambda x, c: Sub(Neg(c), x),
        wrong={"unsigned": lambda x, c: Sub(c, x)},
        name="difference_of_negated",
    ),
    law_of(
        "x / (-1) = -x",
        "float x one:-1",
        Div,
        lambda x, one: Neg(x),
        wrong={"none": lambda x, one: x},
        name="div_minus_one",
    ),
]

RECIPROCALS = [
    law_of(
        "1 / (1 / x) = x",
        "float x",
        lambda x: Reciprocal(Reciprocal(x)),
        lambda x: x,
        wrong={"one": Reciprocal},
        name="reciprocal_twice",
    ),
    law_of(
        "1 / (a / b) = b / a",
        "float a b",
        lambda a, b: Reciprocal(Div(a, b)),
        lambda a, b: Div(b, a),
        wrong={"same": Div},
        name="reciprocal_of_quotient",
    ),
    law_of(
        "a * Reciprocal(b) = a / b",
        "float a b",
        lambda a, b: Mul(a, Reciprocal(b)),
        Div,
        wrong={"product": Mul},
        name="mul_by_reciprocal",
    ),
    law_of(
        "a / Reciprocal(b) = a * b",
        "float a b",
        lambda a, b: Div(a, Reciprocal(b)),
        Mul,
        wrong={"quotient": Div},
        name="div_by_reciprocal",
    ),
    law_of(
        "a * (1 / b) = a / b",
        "float a b one:1",
        lambda a, b, one: Mul(a, Div(one, b)),
        lambda a, b, one: Div(a, b),
        wrong={"product": lambda a, b, one: Mul(a, b)},
        name="mul_by_one_over",
    ),
    law_of(
        "a / (1 / b) = a * b",
        "float a b one:1",
        lambda a, b, one: Div(a, Div(one, b)),
        lambda a, b, one: Mul(a, b),
        wrong={"quotient": lambda a, b, one: Div(a, b)},
        name="div_by_one_over",
    ),
    law_of(
        "Reciprocal(a) * Reciprocal(b) = Reciprocal(a * b)",
        "float a b",
        lambda a, b: Mul(Reciprocal(a), Reciprocal(b)),
        lambda a, b: Reciprocal(Mul(a, b)),
        wrong={"sum": lambda a, b: Reciprocal(Add(a, b))},
        name="product_of_reciprocals",
    ),
    law_of(
        "Reciprocal(x * c) = (1 / c) / x",
        "float x c:constant",
        lambda x, c: Reciprocal(Mul(x, c)),
        lambda x, c: Div(Reciprocal(c), x),
        wrong={"constant": lambda x, c: Div(c, x)},
        name="reciprocal_of_product",
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
]

RULES = [*SIGNS, *SIGNED_CONSTANTS, *RECIPROCALS, *QUOTIENTS]
