"""Functions that undo or combine each other; and the whole of the algebra's rules."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Add, Div, Mul, Pow, Reciprocal, Sqrt
from . import affine, associative, distributive, merging
from .law_table import equation

law_of = partial(equation, family="algebra")


POWERS = [
    law_of(
        "Pow(x, 2) = x * x",
        "float x two:2:any",
        Pow,
        lambda x, two: Mul(x, x),
        wrong={"sum": lambda x, two: Add(x, x)},
        name="pow_two",
    ),
    law_of(
        "Pow(x, 1/2) = Sqrt(x)",
        "float x half:1/2:any",
        Pow,
        lambda x, half: Sqrt(x),
        wrong={"none": lambda x, half: x},
        name="pow_half",
        sample=dict(positive=["x"]),
    ),
    law_of(
        "Pow(x, -1) = Reciprocal(x)",
        "float x minus:-1:any",
        Pow,
        lambda x, minus: Reciprocal(x),
        wrong={"none": lambda x, minus: x},
        name="pow_minus_one",
        sample=dict(positive=["x"]),
    ),
    law_of(
        "1 / x = Reciprocal(x)",
        "float x one:1:any",
        lambda x, one: Div(one, x),
        lambda x, one: Reciprocal(x),
        wrong={"none": lambda x, one: x},
        name="one_divided",
        sample=dict(positive=["x"]),
    ),
]

RULES = [
    *POWERS,
    *merging.RULES,
    *affine.RULES,
    *distributive.RULES,
    *associative.RULES,
]
