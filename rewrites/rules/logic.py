"""Truth values, and comparisons that exporters spell by two."""

from __future__ import annotations

from functools import partial

from .law_table import equation

law_of = partial(equation, family="logic")

RULES = [
    law_of("Not(Not(b)) = b", "bool b", wrong="Not(b)", name="not_not"),
    # tf2onnx's LessEqual and GreaterEqual before opset 12.
    law_of(
        "Or(Less(a, b), Equal(a, b)) = LessOrEqual(a, b)",
        "a b",
        wrong="Less(a, b)",
        name="or_less_equal",
    ),
    law_of(
        "Or(Greater(a, b), Equal(a, b)) = GreaterOrEqual(a, b)",
        "a b",
        wrong="Greater(a, b)",
        name="or_greater_equal",
    ),
]
