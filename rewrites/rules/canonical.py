"""Signs and quotients in their plainest spelling."""

from __future__ import annotations

from functools import partial

from .law_table import equation

law_of = partial(equation, family="canonical")
light = partial(law_of, measure="flops")

PLAIN = [
    law_of("-(-x) = x", "x", wrong="-x", name="neg_neg"),
    law_of("a + (-b) = a - b", "a b", wrong="a + b", name="add_negated"),
    light("x * (-1) = -x", "x one:-1", wrong="x", name="mul_minus_one"),
    light("0 - x = -x", "float x zero:0", wrong="x", name="zero_minus"),
]

# The search weighs these: they trade a division for a multiplication, or drop both
# where the divisor is 0.
QUOTIENTS = [
    law_of(
        "x / c = x * (1 / c)",
        "float x c:constant",
        wrong="x * c",
        name="div_by_constant",
        when="search",
        sample=dict(c=(0.5, 3.0, -7.0)),
    )
]
