"""Functions that undo or combine each other; and the whole of the algebra's rules."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import (
    Add,
    Div,
    Exp,
    Log,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Sqrt,
    Sub,
)
from . import affine, associative, distributive, merging
from .law_table import equation

law_of = partial(equation, family="algebra")

EXPONENTIALS = [
    law_of(
        "Log(Exp(x)) = x",
        "float x",
        lambda x: Log(Exp(x)),
        lambda x: x,
        wrong={"negated": Neg},
        name="log_of_exp",
    ),
    law_of(
        "Exp(a) * Exp(b) = Exp(a + b)",
        "float a b",
        lambda a, b: Mul(Exp(a), Exp(b)),
        lambda a, b: Exp(Add(a, b)),
        wrong={"product": lambda a, b: Exp(Mul(a, b))},
        name="product_of_exps",
        when="search",
    ),
    law_of(
        "Exp(a) / Exp(b) = Exp(a - b)",
        "float a b",
        lambda a, b: Div(Exp(a), Exp(b)),
        lambda a, b: Exp(Sub(a, b)),
        wrong={"sum": lambda a, b: Exp(Add(a, b))},
        name="quotient_of_exps",
        when="search",
    ),
]

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
        "Pow(Sqrt(x), 2) = x, where x >= 0",
        "float x two:2:any",
        lambda x, two: Pow(Sqrt(x), two),
        lambda x, two: x,
        wrong={"negated": lambda x, two: Neg(x)},
        name="pow_of_sqrt",
        sample=dict(positive=["x"]),
        when="search",
    ),
    law_of(
        "Sqrt(x) * Sqrt(x) = x, where x >= 0",
        "float x",
        lambda x: Mul(Sqrt(x), Sqrt(x)),
        lambda x: x,
        wrong={"negated": Neg},
        name="sqrt_times_sqrt",
        sample=dict(positive=["x"]),
        when="search",
    ),
]

RULES = [
    *EXPONENTIALS,
    *POWERS,
    *merging.RULES,
    *affine.RULES,
    *distributive.RULES,
    *associative.RULES,
]

FALSE_RULES = [*distributive.FALSE_RULES, *associative.FALSE_RULES]
