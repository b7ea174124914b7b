"""Scales and shifts by constants: any two in a row are x * scale + shift."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Add, Mul, Neg, Sub
from .law_table import equation
from .merging import no_larger

law_of = partial(
    equation,
    family="affine",
    sample=dict(a=(2.0, -0.5, 1.5), b=(0.5, 3.0, -1.25), c=(1.5, 4.0, -2.0)),
)
TOO_LARGE = "the constants would get larger"
SMALL = (
    lambda x, a, b, c: no_larger(a, b) & no_larger(b, c) & no_larger(a, c),
    "the shift would be larger than the constants",
)

RULES = [
    law_of(
        "(x + b) * a + c = x * a + shift",
        "float x a:constant b:constant c:constant",
        lambda x, a, b, c: Add(Mul(Add(x, b), a), c),
        lambda x, a, b, c: Add(Mul(x, a), Add(Mul(b, a), c)),
        wrong={"shift": lambda x, a, b, c: Add(Mul(x, a), c)},
        worthwhile=SMALL,
        name="affine_add_mul_add",
    ),
    law_of(
        "(x - b) * a + c = x * a + shift",
        "float x a:constant b:constant c:constant",
        lambda x, a, b, c: Add(Mul(Sub(x, b), a), c),
        lambda x, a, b, c: Add(Mul(x, a), Sub(c, Mul(b, a))),
        wrong={"sign": lambda x, a, b, c: Add(Mul(x, a), Add(c, Mul(b, a)))},
        worthwhile=SMALL,
        name="affine_sub_mul_add",
    ),
    law_of(
        "(b - x) * a + c = x * -a + shift",
        "float x a:constant b:constant c:constant",
        lambda x, a, b, c: Add(Mul(Sub(b, x), a), c),
        lambda x, a, b, c: Add(Mul(x, Neg(a)), Add(c, Mul(b, a))),
        wrong={"sign": lambda x, a, b, c: Add(Mul(x, a), Add(c, Mul(b, a)))},
        worthwhile=SMALL,
        name="affine_from_mul_add",
    ),
    law_of(
        "-x * a = x * -a",
        "float x a:constant",
        lambda x, a: Mul(Neg(x), a),
        lambda x, a: Mul(x, Neg(a)),
        wrong={"sign": Mul},
        name="mul_negated",
    ),
    law_of(
        "(x * a + b) * c = x * scale + shift",
        "float x a:constant b:constant c:constant",
        lambda x, a, b, c: Mul(Add(Mul(x, a), b), c),
        lambda x, a, b, c: Add(Mul(x, Mul(a, c)), Mul(b, c)),
        wrong={"unscaled": lambda x, a, b, c: Add(Mul(x, a), Mul(b, c))},
        worthwhile=(lambda x, a, b, c: no_larger(a, c) & no_larger(b, c), TOO_LARGE),
        name="affine_mul_add_mul",
    ),
]
