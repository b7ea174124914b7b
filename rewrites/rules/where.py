"""Where with a known or repeated choice."""

from __future__ import annotations

from functools import partial

from .law_table import equation

law_of = partial(equation, family="where")

RULES = [
    law_of("Where(1, x, a) = x", "x a c:1:bool", wrong="a", name="where_true"),
    law_of("Where(0, a, x) = x", "x a c:0:bool", wrong="a", name="where_false"),
    law_of(
        "Where(c, x, x) = x", "x c::bool", wrong="Where(c, x, -x)", name="where_same"
    ),
]
