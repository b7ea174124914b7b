"""Matrix products that take in what stands around them.

x and y may have any number of batch axes in front; what is folded into a weight is
constant, so that it is computed once.
"""

from __future__ import annotations

from ..language.operators.contraction import MatMul
from ..language.operators.elementwise import Mul
from ..language.rule import Law, rule
from .product_patterns import Product, column, row

BATCH = dict(r=3, x=[2, 3, 4], w=[4, 5])
MATRIX = dict(r=2, x=[3, 4], w=[4, 5])


@rule(
    "fusion", samples=[BATCH | dict(a=[5]), MATRIX | dict(a=[]), BATCH | dict(a=[1, 5])]
)
def matmul_scaled(law: Law) -> None:
    """(x @ w) * a = x @ (w * a) for a number a per column"""
    product = Product(law)
    a, vector = row(law, "a", product.rank, product.weight.dim(1))
    law.rewrite(Mul(product.left, a), MatMul(product.x, Mul(product.weight, vector)))


@rule("fusion", samples=[BATCH | dict(a=[4]), MATRIX | dict(a=[])])
def matmul_scaled_input(law: Law) -> None:
    """(x * a) @ w = x @ (a * w) for a number a per row of w"""
    product = Product(law)
    a, vector = row(law, "a", product.rank, product.x.dim(product.rank - 1))
    weight = Mul(product.weight, column(vector))
    law.rewrite(MatMul(Mul(product.x, a), product.weight), MatMul(product.x, weight))
