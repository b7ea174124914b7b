"""Linear layers, x @ w + c, over any axes in front.

Exporters whose layer knows matrices alone flatten the axes in front, and restore them
after the product; the product itself takes them as they are.
"""

from __future__ import annotations

from typing import Any

from ..language.operators.contraction import Gemm, MatMul
from ..language.operators.elementwise import Add, Mul
from ..language.operators.movement import Reshape, Squeeze, Unsqueeze
from ..language.pattern import Apply, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, Sizes, axis_range, eq, fixed
from .product_patterns import Product, row

BATCH = dict(r=3, x=[2, 3, 4], w=[4, 5], v=[5])


def _times(vector: Term, weight: Term) -> Apply:
    """The vector times the matrix, as a vector."""
    row_of_one = axis_range(2, 0, 1)
    product = MatMul(Unsqueeze(vector, axes=row_of_one), weight)
    return Squeeze(product, axes=row_of_one)


@rule("fusion", samples=[BATCH | dict(a=[5]), BATCH | dict(a=[])])
def linear_scaled(law: Law) -> None:
    """(x @ w + v) * a = x @ (w * a) + v * a for a number a per column"""
    product, v = Product(law), law.constant("v", 1)
    a, vector = row(law, "a", product.rank, product.weight.dim(1))
    bias = v if law.mutant("bias_unscaled") else Mul(v, vector)
    law.rewrite(
        Mul(Add(product.left, v), a),
        Add(MatMul(product.x, Mul(product.weight, vector)), bias),
    )


@rule("fusion", samples=[BATCH | dict(a=[4]), BATCH | dict(a=[])])
def linear_shifted_input(law: Law) -> None:
    """(x + a) @ w + v = x @ w + (a @ w + v) for constants a and v"""
    product, v = Product(law), law.constant("v", 1)
    a, vector = row(law, "a", product.rank, product.x.dim(product.rank - 1))
    shift = _times(vector, product.weight)
    bias = shift if law.mutant("forgotten") else Add(shift, v)
    law.rewrite(
        Add(MatMul(Add(product.x, a), product.weight), v), Add(product.left, bias)
    )


TWICE = dict(r=3, x=[2, 3, 4], w=[4, 5], u=[5, 6], v=[5], c=[6])


@rule("algebra", samples=[TWICE], when="asked", measure="flops")
def product_of_product(law: Law) -> None:
    """(x @ w) @ u = x @ (w @ u) of constant matrices w and u"""
    product, u = Product(law), law.constant("u", 2)
    both = MatMul(product.weight, u)
    right = MatMul(product.x, product.weight if law.mutant("first") else both)
    law.rewrite(MatMul(product.left, u), right)


@rule("algebra", samples=[TWICE], when="asked", measure="flops")
def linear_of_linear(law: Law) -> None:
    """(x @ w + v) @ u + c = x @ (w @ u) + (v @ u + c)"""
    product, u = Product(law), law.constant("u", 2)
    v, c = law.constant("v", 1), law.constant("c", 1)
    law.require(eq(v.dim(0), product.weight.dim(1)), "the first bias is broadcast")
    shift = _times(v, u)
    bias = shift if law.mutant("forgotten") else Add(shift, c)
    law.rewrite(
        Add(MatMul(Add(product.left, v), u), c),
        Add(MatMul(product.x, MatMul(product.weight, u)), bias),
    )


class Flattened:
    """A product with the axes in front of x as one, and what it is without that.

    x has `front` such axes, and its last `inner` axes are what is summed over.
    """

    def __init__(self, law: Law, front: int, inner: int) -> None:
        self.law, self.front = law, front
        self.x = law.tensor("x", front + inner)
        sizes = [self.x.dim(k) for k in range(front + inner)]
        self.rows, self.width = _product(sizes[:front]), _product(sizes[front:])
        self.axes = sizes[:front]
        whole = fixed([*self.axes, self.width])
        self.whole = (
            self.x if inner == 1 else Reshape(self.x, shape=Sizes(front + 1, whole))
        )
        self.matrix = Reshape(self.x, shape=Sizes(2, fixed([self.rows, self.width])))

    def restored(self, result: Term, columns: Int) -> Apply:
        """The result with its axes in front."""
        axes = list(reversed(self.axes)) if self.law.mutant("order") else self.axes
        return Reshape(result, shape=Sizes(self.front + 1, fixed([*axes, columns])))


def _product(sizes: list[Int]) -> Int:
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total


# How many axes of x are flattened, and how many are summed over; and a sample of x.
FORMS = {"rows": (2, 1), "heads": (2, 2)}
SAMPLES = {"rows": [2, 3, 4], "heads": [2, 3, 2, 2]}


def _gemm_of(name: str, form: str, bias: bool) -> Rule:
    @rule(
        "fusion",
        name=name,
        statement="Reshape(Gemm(Reshape(x), w)) = x @ w",
        samples=[dict(x=SAMPLES[form], w=[4, 5]) | (dict(c=[5]) if bias else {})],
    )
    def build(law: Law) -> None:
        flat, weight = Flattened(law, *FORMS[form]), law.constant("w", 2)
        added = law.constant("c", 1) if bias else None
        plain: dict[str, Any] = dict(alpha=1.0, beta=1.0, transA=0, transB=0)
        product = MatMul(flat.whole, weight)
        law.rewrite(
            flat.restored(Gemm(flat.matrix, weight, added, **plain), weight.dim(1)),
            Add(product, added) if added else product,
        )

    return build


def _matmul_of(name: str, form: str) -> Rule:
    @rule(
        "fusion",
        name=name,
        statement="Reshape(Reshape(x) @ y) = x @ y",
        samples=[dict(x=SAMPLES[form], y=[4, 5])],
    )
    def build(law: Law) -> None:
        flat, y = Flattened(law, *FORMS[form]), law.tensor("y", 2)
        law.rewrite(
            flat.restored(MatMul(flat.matrix, y), y.dim(1)), MatMul(flat.whole, y)
        )

    return build


RULES: list[Rule] = [
    _gemm_of("gemm_of_rows", "rows", False),
    _gemm_of("gemm_of_rows_biased", "rows", True),
    _matmul_of("matmul_of_rows", "rows"),
    _gemm_of("gemm_of_heads", "heads", False),
    _gemm_of("gemm_of_heads_biased", "heads", True),
    _matmul_of("matmul_of_heads", "heads"),
]
