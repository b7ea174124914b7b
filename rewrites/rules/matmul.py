"""Matrix products that take in what stands around them.

x and y may have any number of batch axes in front; what is folded into a weight is
constant, so that it is computed once.
"""

from __future__ import annotations

from ..language.operators.contraction import MatMul
from ..language.operators.elementwise import Add, Div, Mul, Neg, Sub
from ..language.operators.movement import Expand, Transpose
from ..language.pattern import Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, eq, forall
from .einsum import RULES as EINSUM_RULES
from .gemm import RULES as GEMM_RULES
from .linear import RULES as LINEAR_RULES
from .product_patterns import Product, column, row, swap

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


@rule("fusion", samples=[BATCH | dict(a=[5]), MATRIX | dict(a=[])])
def matmul_divided(law: Law) -> None:
    """(x @ w) / a = x @ (w / a) for a number a per column"""
    product = Product(law)
    a, vector = row(law, "a", product.rank, product.weight.dim(1))
    law.rewrite(Div(product.left, a), MatMul(product.x, Div(product.weight, vector)))


@rule("fusion", samples=[BATCH | dict(a=[4]), MATRIX | dict(a=[])])
def matmul_scaled_input(law: Law) -> None:
    """(x * a) @ w = x @ (a * w) for a number a per row of w"""
    product = Product(law)
    a, vector = row(law, "a", product.rank, product.x.dim(product.rank - 1))
    weight = Mul(product.weight, column(vector))
    law.rewrite(MatMul(Mul(product.x, a), product.weight), MatMul(product.x, weight))


@rule("fusion", samples=[BATCH | dict(a=[4]), MATRIX | dict(a=[])])
def matmul_divided_input(law: Law) -> None:
    """(x / a) @ w = x @ (w / a) for a number a per row of w"""
    product = Product(law)
    a, vector = row(law, "a", product.rank, product.x.dim(product.rank - 1))
    weight = Div(product.weight, column(vector))
    law.rewrite(MatMul(Div(product.x, a), product.weight), MatMul(product.x, weight))


@rule("fusion", samples=[BATCH])
def matmul_neg(law: Law) -> None:
    """-(x @ w) = x @ (-w)"""
    product = Product(law)
    weight = product.weight if law.mutant("same") else Neg(product.weight)
    law.rewrite(Neg(product.left), MatMul(product.x, weight))


@rule("fusion", samples=[BATCH])
def matmul_neg_input(law: Law) -> None:
    """(-x) @ w = x @ (-w)"""
    product = Product(law)
    weight = product.weight if law.mutant("same") else Neg(product.weight)
    law.rewrite(MatMul(Neg(product.x), product.weight), MatMul(product.x, weight))


TWO = dict(r=3, x=[2, 3, 4], s=3, y=[2, 4, 5])


def _two(law: Law) -> tuple[Int, Var, Var]:
    r = law.rank(low=2)
    return r, law.tensor("x", r), law.tensor("y", r)


@rule(
    "transpose",
    samples=[
        dict(r=3, x=[2, 4, 3], y=[2, 5, 4], p=(0, 2, 1), q=(0, 2, 1), o=(0, 2, 1))
    ],
)
def matmul_all_transposed(law: Law) -> None:
    """(x.T @ y.T).T = y @ x, of matrices"""
    r, x, y = _two(law)
    t = swap(r)
    inner = MatMul(Transpose(x, perm=t), Transpose(y, perm=t))
    swapped = MatMul(x, y) if law.mutant("order") else MatMul(y, x)
    law.rewrite(Transpose(inner, perm=t), swapped)


@rule("transpose", samples=[dict(r=3, x=[2, 4, 3], y=[2, 4, 5])])
def matmul_left_transposed(law: Law) -> None:
    """(x.T @ y).T = y.T @ x, of matrices"""
    r, x, y = _two(law)
    t = swap(r)
    inner = MatMul(Transpose(x, perm=t), y)
    turned = y if law.mutant("plain") else Transpose(y, perm=t)
    law.rewrite(Transpose(inner, perm=t), MatMul(turned, x))


@rule("transpose", samples=[dict(r=3, x=[2, 3, 4], y=[2, 5, 4])])
def matmul_right_transposed(law: Law) -> None:
    """(x @ y.T).T = y @ x.T, of matrices"""
    r, x, y = _two(law)
    t = swap(r)
    inner = MatMul(x, Transpose(y, perm=t))
    turned = x if law.mutant("plain") else Transpose(x, perm=t)
    law.rewrite(Transpose(inner, perm=t), MatMul(y, turned))


@rule("transpose", samples=[dict(r=4, x=[2, 3, 4, 5], y=[2, 3, 5, 6], p=(1, 0, 2, 3))])
def matmul_batch_transposed(law: Law) -> None:
    """Transpose(x, p) @ Transpose(y, p) = Transpose(x @ y, p) for batch axes"""
    r, x, y = _two(law)
    p = law.perm("p", r)
    if not law.mutant("moves_matrices"):
        law.require(
            forall(r, lambda k: (k < r - 2) | eq(p(k), k)),
            "the matrices are transposed",
        )
    law.require(
        forall(r - 2, lambda k: eq(x.dim(k), y.dim(k))), "one operand is broadcast"
    )
    left = MatMul(Transpose(x, perm=p), Transpose(y, perm=p))
    law.rewrite(left, Transpose(MatMul(x, y), perm=p))


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


@rule("algebra", samples=[dict(r=3, x=[2, 3, 4], y=[2, 4, 5], z=[2, 4, 5])])
def matmul_common_left_difference(law: Law) -> None:
    """x @ y - x @ z = x @ (y - z)"""
    r, x, y = _two(law)
    z = law.tensor("z", r)
    difference = Sub(z, y) if law.mutant("order") else Sub(y, z)
    law.rewrite(Sub(MatMul(x, y), MatMul(x, z)), MatMul(x, difference))


@rule("algebra", samples=[dict(r=3, x=[2, 3, 4], y=[2, 4, 5], z=[2, 3, 4])])
def matmul_common_right_difference(law: Law) -> None:
    """x @ y - z @ y = (x - z) @ y"""
    r, x, y = _two(law)
    z = law.tensor("z", r)
    difference = Sub(z, x) if law.mutant("order") else Sub(x, z)
    law.rewrite(Sub(MatMul(x, y), MatMul(z, y)), MatMul(difference, y))


@rule("algebra", samples=[dict(r=3, x=[2, 3, 4], y=[2, 4, 5])])
def matmul_neg_neg(law: Law) -> None:
    """(-x) @ (-y) = x @ y"""
    _, x, y = _two(law)
    second = y if law.mutant("one") else Neg(y)
    law.rewrite(MatMul(Neg(x), second), MatMul(x, y))


@rule("movement", samples=[dict(r=3, s=4, x=[2, 3, 4], y=[2, 2, 4, 5], n=[2, 2, 3, 4])])
def matmul_of_expanded(law: Law) -> None:
    """Expand(x) @ y = x @ y where y has the expanded batch"""
    r, s = law.rank(low=2), law.rank("s")
    x, y = law.tensor("x", r), law.tensor("y", s)
    law.require(r <= s)
    shape = law.sizes("n", s)
    if not law.mutant("any_batch"):
        law.require(
            forall(
                s,
                lambda k: (k >= s - 2) | eq(shape.dim(k), y.dim(k)),
            )
        )
    law.require(eq(shape.dim(s - 2), x.dim(r - 2)) & eq(shape.dim(s - 1), x.dim(r - 1)))
    law.rewrite(MatMul(Expand(x, shape=shape), y), MatMul(x, y))


@rule("movement", samples=[dict(r=3, s=4, x=[2, 4, 5], y=[2, 2, 3, 4], n=[2, 2, 4, 5])])
def matmul_by_expanded(law: Law) -> None:
    """y @ Expand(x) = y @ x where y has the expanded batch"""
    r, s = law.rank(low=2), law.rank("s")
    x, y = law.tensor("x", r), law.tensor("y", s)
    law.require(r <= s)
    shape = law.sizes("n", s)
    if not law.mutant("any_batch"):
        law.require(
            forall(
                s,
                lambda k: (k >= s - 2) | eq(shape.dim(k), y.dim(k)),
            )
        )
    law.require(eq(shape.dim(s - 2), x.dim(r - 2)) & eq(shape.dim(s - 1), x.dim(r - 1)))
    law.rewrite(MatMul(y, Expand(x, shape=shape)), MatMul(y, x))


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
    matmul_divided,
    matmul_scaled_input,
    matmul_divided_input,
    matmul_neg,
    matmul_neg_input,
    matmul_all_transposed,
    matmul_left_transposed,
    matmul_right_transposed,
    matmul_batch_transposed,
    matmul_common_left,
    matmul_common_right,
    matmul_common_left_difference,
    matmul_common_right_difference,
    matmul_neg_neg,
    matmul_of_expanded,
    matmul_by_expanded,
    matmul_right_first,
    matmul_left_first,
    *GEMM_RULES,
    *LINEAR_RULES,
    *EINSUM_RULES,
]

NOT_SHIPPED = [
    (
        "92",
        "x @ y.T as one operator",
        "ONNX has none; the emitter writes `x @ y.mT` for the two nodes",
    ),
    (
        "102",
        "x @ w = Reshape(Reshape(x) @ w)",
        "applied from right to left (matmul_of_rows): the product takes any batch",
    ),
    (
        "212",
        "Einsum(x, y, 'abcd,cde->abe') = Reshape(x) @ Reshape(w)",
        "true, but the prover doesn't join two sums into one",
    ),
    (
        "217",
        "OneHot(i) @ w = Gather(w, i)",
        "w has to be finite, and the prover doesn't collapse a sum to the term where "
        "an index that depends on data is met",
    ),
    (
        "-",
        "x @ y = x * y where the axis that is summed over has size 1",
        "true, but the prover doesn't know that what runs over one element is that one",
    ),
]
