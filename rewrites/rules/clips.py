"""Clip and Relu as exporters spell them: by Max, Min and Where."""

from __future__ import annotations

from functools import partial

from .law_table import equation

law_of = partial(equation, family="clips")

CHOSEN = [
    law_of(
        "Where(Less(a, b), a, b) = Min(a, b)",
        "a b",
        wrong="Max(a, b)",
        name="where_less_a_b",
        family="lattice",
    ),
    law_of(
        "Where(Less(a, b), b, a) = Max(a, b)",
        "a b",
        wrong="Min(a, b)",
        name="where_less_b_a",
        family="lattice",
    ),
]

CLIPS = [
    law_of(
        "Min(Relu(x), b) = Clip(x, 0, b)",
        "float x:tensor b:scalar",
        wrong="Clip(x, None, b)",
        name="min_relu",
    ),
    law_of(
        "Clip(x, None, None) = x", "x:tensor", wrong="-x", name="clip_without_bounds"
    ),
]

RELUS = [
    law_of(
        "Max(x, 0) = Relu(x)",
        "float x zero:0",
        wrong="x",
        name="max_zero",
        measure="flops",
        family="rectifiers",
    ),
    law_of(
        "Relu(Relu(x)) = Relu(x)",
        "float x",
        wrong="x",
        name="relu_of_relu",
        family="rectifiers",
    ),
]
