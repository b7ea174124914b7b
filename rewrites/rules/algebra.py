"""Functions that undo or combine each other, and the distributive law."""

from __future__ import annotations

from functools import partial

from .law_table import equation

law_of = partial(equation, family="algebra")
of_positive = partial(law_of, wrong="x", sample=dict(positive=["x"]))

POWERS = [
    law_of("Pow(x, 2) = x * x", "float x two:2:any", wrong="x + x", name="pow_two"),
    of_positive("Pow(x, 1/2) = Sqrt(x)", "float x half:1/2:any", name="pow_half"),
    of_positive(
        "Pow(x, -1) = Reciprocal(x)", "float x minus:-1:any", name="pow_minus_one"
    ),
    of_positive("1 / x = Reciprocal(x)", "float x one:1:any", name="one_divided"),
]

# DNNFusion's distributive law. Taking out a factor saves operations unless it makes a
# small product large, so the search decides, by the sizes.
SUM_OF_PRODUCTS = law_of(
    "a * c + b * c = (a + b) * c",
    "a b c",
    wrong="(a + c) * b",
    name="add_of_products",
    family="distributive",
    when="search",
)
