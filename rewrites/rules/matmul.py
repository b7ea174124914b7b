"""Matrix products that take in what stands around them.

x and y may have any number of batch axes in front; what is folded into a weight is
constant, so that it is computed once.
"""

from __future__ import annotations

from ..language.operators.contraction import MatMul
from ..language.operators.elementwise import Add, Mul, Sub
from ..language.pattern import Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Int
from .einsum import RULES as EINSUM_RULES
from .gemm import RULES as GEMM_RULES
from .linear import RULES as LINEAR_RULES
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


def _two(law: Law) -> tuple[Int, Var, Var]:
    r = law.rank(low=2)
    return r, law.tensor("x", r), law.tensor("y", r)


@rule("algebra", samples=[dict(r=3, x=[2, 3, 4], y=[2, 4, 5], z=[2, 4, 5])])
def matmul_common_left(law: Law) -> None:
    """x @ y + x @ z = x @ (y + z)"""
    r, x, y = _two(law)
    z = law.tensor("z", r)
    total = Sub(y, z) if law.mutant("difference") else Add(y, z)
    law.rewrite(Add(MatMul(x, y), MatMul(x, z)), MatMul(x, total))


@rule("algebra", samples=[dict(r=3, x=[2, 3, 4], y=[2, 4, 5], z=[2, 3, 4])])
def matmul_common_right(law: Law) -> None:
    """x @ y + z @ y = (x + z) @ y"""
    r, x, y = _two(law)
    z = law.tensor("z", r)
    total = Mul(x, z) if law.mutant("product") else Add(x, z)
    law.rewrite(Add(MatMul(x, y), MatMul(z, y)), MatMul(total, y))


@rule(
    "algebra",
    samples=[dict(r=3, x=[2, 3, 4], y=[2, 4, 5], z=[2, 5, 6])],
    when="search",
    measure="flops",
)
def matmul_right_first(law: Law) -> None:
    """(x @ y) @ z = x @ (y @ z)"""
    r, x, y = _two(law)
    z = law.tensor("z", r)
    right = MatMul(x, MatMul(z, y)) if law.mutant("order") else MatMul(x, MatMul(y, z))
    law.rewrite(MatMul(MatMul(x, y), z), right)


@rule(
    "algebra",
    samples=[dict(r=3, x=[2, 3, 4], y=[2, 4, 5], z=[2, 5, 6])],
    when="search",
    measure="flops",
)
def matmul_left_first(law: Law) -> None:
    """x @ (y @ z) = (x @ y) @ z"""
    r, x, y = _two(law)
    z = law.tensor("z", r)
    right = MatMul(MatMul(y, x), z) if law.mutant("order") else MatMul(MatMul(x, y), z)
    law.rewrite(MatMul(x, MatMul(y, z)), right)


RULES: list[Rule] = [
    matmul_scaled,
    matmul_scaled_input,
    matmul_common_left,
    matmul_common_right,
    matmul_right_first,
    matmul_left_first,
    *GEMM_RULES,
    *LINEAR_RULES,
    *EINSUM_RULES,
]
