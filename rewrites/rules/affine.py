"""Scales and shifts by constants: any two in a row are x * scale + shift."""

from __future__ import annotations

from functools import partial

from .law_table import equation
from .merging import no_larger

law_of = partial(
    equation,
    family="affine",
    operands="float x a:constant b:constant c:constant",
    worthwhile=(
        lambda x, a, b, c: no_larger(a, b) & no_larger(b, c) & no_larger(a, c),
        "the constants would get larger",
    ),
    sample=dict(a=(2.0, -0.5, 1.5), b=(0.5, 3.0, -1.25), c=(1.5, 4.0, -2.0)),
)

RULES = [
    law_of(
        "(x + b) * a + c = x * a + (b * a + c)",
        wrong="x * a + c",
        name="affine_add_mul_add",
    ),
    law_of(
        "(x - b) * a + c = x * a + (c - b * a)",
        wrong="x * a + (c + b * a)",
        name="affine_sub_mul_add",
    ),
    law_of(
        "(b - x) * a + c = x * -a + (c + b * a)",
        wrong="x * a + (c + b * a)",
        name="affine_from_mul_add",
    ),
    law_of(
        "-x * a = x * -a",
        operands="float x a:constant",
        wrong="x * a",
        name="mul_negated",
        worthwhile=None,
    ),
    law_of(
        "(x * a + b) * c = x * (a * c) + b * c",
        wrong="x * a + b * c",
        name="affine_mul_add_mul",
        worthwhile=(
            lambda x, a, b, c: no_larger(a, c) & no_larger(b, c),
            "the constants would get larger",
        ),
    ),
]
