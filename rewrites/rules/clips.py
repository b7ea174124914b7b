"""Clip and Relu as exporters spell them: by Max, Min and Where."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Clip, Less, Max, Min, Neg, Relu, Where
from ..language.rule import Law, rule
from .law_table import equation, number

law_of = partial(equation, family="clips")

CHOSEN = [
    law_of(
        "Where(Less(a, b), a, b) = Min(a, b)",
        "a b",
        lambda a, b: Where(Less(a, b), a, b),
        Min,
        wrong={"other": Max},
        name="where_less_a_b",
        family="lattice",
    ),
    law_of(
        "Where(Less(a, b), b, a) = Max(a, b)",
        "a b",
        lambda a, b: Where(Less(a, b), b, a),
        Max,
        wrong={"other": Min},
        name="where_less_b_a",
        family="lattice",
    ),
]

CLIPS = [
    law_of(
        "Min(Relu(x), b) = Clip(x, 0, b)",
        "float x:tensor b:scalar",
        lambda x, b: Min(Relu(x), b),
        lambda x, b: Clip(x, number(0), b),
        wrong={"bound": lambda x, b: Clip(x, None, b)},
        name="min_relu",
    )
]


@rule("clips", samples=[dict(r=2, x=[2, 3])])
def clip_without_bounds(law: Law) -> None:
    """Clip(x) = x"""
    x = law.tensor("x", law.rank())
    law.rewrite(Clip(x, None, None), Neg(x) if law.mutant("negated") else x)


RELUS = [
    law_of(
        "Max(x, 0) = Relu(x)",
        "float x zero:0",
        Max,
        lambda x, zero: Relu(x),
        wrong={"none": lambda x, zero: x},
        name="max_zero",
        measure="flops",
        family="rectifiers",
    ),
    law_of(
        "Relu(Relu(x)) = Relu(x)",
        "float x",
        lambda x: Relu(Relu(x)),
        Relu,
        wrong={"none": lambda x: x},
        name="relu_of_relu",
        family="rectifiers",
    ),
]

RULES = [*CHOSEN, *CLIPS, clip_without_bounds, *RELUS]
