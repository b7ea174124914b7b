"""Activation functions of several operands; those of one are recognised by meaning."""

from __future__ import annotations

from functools import partial

from ..language.rule import Rule
from .law_table import equation, fits

law_of = partial(equation, family="recompose")
prelu = partial(
    law_of,
    operands="float x:tensor s:constant zero:0",
    wrong="PRelu(-x, s)",
    require=(lambda x, s, *zero: fits(s, x, x.rank), "the slope enlarges x"),
    sample=dict(s=[3]),
)
without_zero = partial(prelu, operands="float x:tensor s:constant")

RULES: list[Rule] = [
    law_of(
        "y / (1 + Exp(-x)) = y * Sigmoid(x)",
        "float x y::any one:1",
        wrong="y * Sigmoid(-x)",
        name="over_one_plus_exp",
    ),
    prelu("Where(Less(x, 0), s * x, x) = PRelu(x, s)", name="prelu_less"),
    prelu(
        "Where(GreaterOrEqual(x, 0), x, s * x) = PRelu(x, s)",
        name="prelu_greater_or_equal",
    ),
    without_zero("Relu(x) - s * Relu(-x) = PRelu(x, s)", name="prelu_relu_relu"),
    without_zero("Relu(x) + s * Relu(-x) = PRelu(x, -s)", name="prelu_relu_plus_relu"),
    without_zero("Relu(x) + s * (x - Abs(x)) = PRelu(x, s + s)", name="prelu_abs"),
]
