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
        "x / c = x * (1 / c)",
        "float x c:constant",
        Div,
        lambda x, c: Mul(x, Div(number(1), c)),
        wrong={"product": Mul},
        name="div_by_constant",
        when="search",
        sample=dict(c=(0.5, 3.0, -7.0)),
    )
]

RULES = [*PLAIN, *QUOTIENTS]
