"""Common factors taken out, and terms that cancel.

Taking out a factor saves operations unless it makes a small product large, so the
search decides, by the sizes; with constants it always does.
"""

from __future__ import annotations

from functools import partial

from fairhand.rewrites.language.operators.elementwise import (
    Add,
    BitShift,
    Div,
    Mul,
    Neg,
    Pow,
    Sub,
)
from fairhand.rewrites.rules.law_table import equation, number

law_of = partial(equation, family="distributive")

FACTORS = [
    rule
    for op, sign in ((Add, "+"), (Sub, "-"))
    for rule in (
        law_of(
            f"a * c {sign} b * c = (a {sign} b) * c",
            "a b c",
            lambda a, b, c, op=op: op(Mul(a, c), Mul(b, c)),
            lambda a, b, c, op=op: Mul(op(a, b), c),
            wrong={"other_factor": lambda a, b, c, op=op: Mul(op(a, c), b)},
            name=f"{op}_of_products".lower(),
            when="search",
        ),
        law_of(
            f"a / c {sign} b / c = (a {sign} b) / c",
            "float a b c",
            lambda a, b, c, op=op: op(Div(a, c), Div(b, c)),
            lambda a, b, c, op=op: Div(op(a, b), c),
            wrong={"product": lambda a, b, c, op=op: Mul(op(a, b), c)},
            name=f"{op}_of_quotients".lower(),
            when="search",
            sample=dict(positive=["c"]),
        ),
        law_of(
            f"a {sign} a * b = a * (1 {sign} b)",
            "a b",
            lambda a, b, op=op: op(a, Mul(a, b)),
            lambda a, b, op=op: Mul(a, op(number(1), b)),
            wrong={"two": lambda a, b, op=op: Mul(a, op(number(2), b))},
            name=f"{op}_of_own_product".lower(),
            when="search",
            measure="flops",
        ),
        law_of(
            f"x {sign} x * c = x * (1 {sign} c)",
            "x c:constant",
            lambda x, c, op=op: op(x, Mul(x, c)),
            lambda x, c, op=op: Mul(x, op(number(1), c)),
            wrong={"two": lambda x, c, op=op: Mul(x, op(number(2), c))},
            name=f"{op}_of_own_multiple".lower(),
        ),
        law_of(
            f"a**2 {sign} a * b = a * (a {sign} b)",
            "float a b two:2:any",
            lambda a, b, two, op=op: op(Pow(a, two), Mul(a, b)),
            lambda a, b, two, op=op: Mul(a, op(a, b)),
            wrong={"other": lambda a, b, two, op=op: Mul(b, op(a, b))},
            name=f"{op}_of_square_and_product".lower(),
            when="search",
        ),
    )
] + [
    law_of(
        "a * b - a = a * (b - 1)",
        "a b",
        lambda a, b: Sub(Mul(a, b), a),
        lambda a, b: Mul(a, Sub(b, number(1))),
        wrong={"two": lambda a, b: Mul(a, Sub(b, number(2)))},
        name="own_product_minus",
        when="search",
        measure="flops",
    ),
    law_of(
        "x * c - x = x * (c - 1)",
        "x c:constant",
        lambda x, c: Sub(Mul(x, c), x),
        lambda x, c: Mul(x, Sub(c, number(1))),
        wrong={"two": lambda x, c: Mul(x, Sub(c, number(2)))},
        name="own_multiple_minus",
    ),
    law_of(
        "a * b - a**2 = a * (b - a)",
        "float a b two:2:any",
        lambda a, b, two: Sub(Mul(a, b), Pow(a, two)),
        lambda a, b, two: Mul(a, Sub(b, a)),
        wrong={"swapped": lambda a, b, two: Mul(a, Sub(a, b))},
        name="product_minus_square",
        when="search",
    ),
    law_of(
        "a**2 - b**2 = (a + b) * (a - b)",
        "float a b two:2:any",
        lambda a, b, two: Sub(Pow(a, two), Pow(b, two)),
        lambda a, b, two: Mul(Add(a, b), Sub(a, b)),
        wrong={"square": lambda a, b, two: Mul(Sub(a, b), Sub(a, b))},
        name="difference_of_squares",
        when="search",
        measure="flops",
    ),
    law_of(
        "x + x + x = x * 3",
        "x",
        lambda x: Add(Add(x, x), x),
        lambda x: Mul(x, number(3)),
        wrong={"two": lambda x: Mul(x, number(2))},
        name="add_three_times",
    ),
]

SHIFTS = [
    rule
    for op, sign in ((Add, "+"), (Sub, "-"))
    for rule in (
        law_of(
            f"(a << n) {sign} (b << n) = (a {sign} b) << n",
            "int a b n",
            lambda a, b, n, op=op: op(
                BitShift(a, n, direction="LEFT"), BitShift(b, n, direction="LEFT")
            ),
            lambda a, b, n, op=op: BitShift(op(a, b), n, direction="LEFT"),
            wrong={
                "right": lambda a, b, n, op=op: BitShift(op(a, b), n, direction="RIGHT")
            },
            name=f"{op}_of_shifts".lower(),
            sample=dict(unsigned=["a", "b", "n"]),
        ),
    )
] + [
    law_of(
        "x << 0 = x",
        "int x zero:0",
        lambda x, zero: BitShift(x, zero, direction="LEFT"),
        lambda x, zero: x,
        wrong={"double": lambda x, zero: Add(x, x)},
        name="shift_by_zero",
        sample=dict(unsigned=["x", "zero"]),
    ),
]

CANCELLED = [
    law_of(
        "(a + b) - b = a",
        "a b",
        lambda a, b: Sub(Add(a, b), b),
        lambda a, b: a,
        wrong={"negated": lambda a, b: Neg(a)},
        name="add_then_subtract",
    ),
    law_of(
        "(a - b) + b = a",
        "a b",
        lambda a, b: Add(Sub(a, b), b),
        lambda a, b: a,
        wrong={"negated": lambda a, b: Neg(a)},
        name="subtract_then_add",
    ),
    law_of(
        "a - (a - b) = b",
        "b a",
        lambda b, a: Sub(a, Sub(a, b)),
        lambda b, a: b,
        wrong={"negated": lambda b, a: Neg(b)},
        name="minus_difference",
    ),
    law_of(
        "(a - b) - a = -b",
        "float b a",
        lambda b, a: Sub(Sub(a, b), a),
        lambda b, a: Neg(b),
        wrong={"unsigned": lambda b, a: b},
        name="difference_minus",
    ),
    law_of(
        "a - (a + b) = -b",
        "float b a",
        lambda b, a: Sub(a, Add(a, b)),
        lambda b, a: Neg(b),
        wrong={"unsigned": lambda b, a: b},
        name="minus_sum",
    ),
    law_of(
        "(a + c) - (b + c) = a - b",
        "a b c",
        lambda a, b, c: Sub(Add(a, c), Add(b, c)),
        lambda a, b, c: Sub(a, b),
        wrong={"swapped": lambda a, b, c: Sub(b, a)},
        name="difference_of_sums",
    ),
    law_of(
        "(a - c) - (b - c) = a - b",
        "a b c",
        lambda a, b, c: Sub(Sub(a, c), Sub(b, c)),
        lambda a, b, c: Sub(a, b),
        wrong={"swapped": lambda a, b, c: Sub(b, a)},
        name="difference_of_differences",
    ),
    law_of(
        "(c - a) - (c - b) = b - a",
        "a b c",
        lambda a, b, c: Sub(Sub(c, a), Sub(c, b)),
        lambda a, b, c: Sub(b, a),
        wrong={"swapped": lambda a, b, c: Sub(a, b)},
        name="difference_of_rests",
    ),
    law_of(
        "(a - b) + (b - c) = a - c",
        "a b c",
        lambda a, b, c: Add(Sub(a, b), Sub(b, c)),
        lambda a, b, c: Sub(a, c),
        wrong={"swapped": lambda a, b, c: Sub(c, a)},
        name="chained_differences",
    ),
    law_of(
        "(a + b) + (c - b) = a + c",
        "a b c",
        lambda a, b, c: Add(Add(a, b), Sub(c, b)),
        lambda a, b, c: Add(a, c),
        wrong={"difference": lambda a, b, c: Sub(a, c)},
        name="sum_plus_rest",
    ),
]

RULES = [*FACTORS, *SHIFTS, *CANCELLED]

# DNNFusion's table prints this row with the factors exchanged.
