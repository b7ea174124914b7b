"""Truth values, and comparisons that exporters spell by two."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import (
    Equal,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Not,
    Or,
)
from .law_table import equation

law_of = partial(equation, family="logic")

RULES = [
    law_of(
        "Not(Not(b)) = b",
        "bool b",
        lambda b: Not(Not(b)),
        lambda b: b,
        wrong={"one": Not},
        name="not_not",
    ),
    # tf2onnx's LessEqual and GreaterEqual before opset 12.
    law_of(
        "Or(Less(a, b), Equal(a, b)) = LessOrEqual(a, b)",
        "a b",
        lambda a, b: Or(Less(a, b), Equal(a, b)),
        LessOrEqual,
        wrong={"first": Less},
        name="or_less_equal",
    ),
    law_of(
        "Or(Greater(a, b), Equal(a, b)) = GreaterOrEqual(a, b)",
        "a b",
        lambda a, b: Or(Greater(a, b), Equal(a, b)),
        GreaterOrEqual,
        wrong={"first": Greater},
        name="or_greater_equal",
    ),
]
