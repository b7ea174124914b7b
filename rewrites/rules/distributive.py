"""Common factors taken out: DNNFusion's distributive laws.

Taking out a factor saves operations unless it makes a small product large, so the
search decides, by the sizes.
"""

from __future__ import annotations

from functools import partial

from .law_table import equation

law_of = partial(equation, family="distributive", when="search")

RULES = [
    law_of(
        "a * c + b * c = (a + b) * c",
        "a b c",
        wrong="(a + c) * b",
        name="add_of_products",
    )
]
