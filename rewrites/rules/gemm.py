"""Gemm, alpha * x @ w + beta * c of matrices, and what it takes in."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from ..language.operators.contraction import BatchNormalization, Gemm, MatMul
from ..language.operators.elementwise import Add, Div, Mul, Neg, Sqrt, Sub
from ..language.operators.movement import Transpose, Unsqueeze
from ..language.pattern import Apply, Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, Real, axis_range, choose, eq, integer
from .law_table import Build, fits, variant
from .product_patterns import row, swap


class Layer:
    """Gemm of a matrix x and a constant matrix w, which may be stored transposed."""

    def __init__(self, law: Law, bias: bool, plain: bool = False) -> None:
        self.law = law
        self.x, self.weight = law.tensor("x", 2), law.constant("w", 2)
        self.bias: Term | None = law.constant_operand("c", 2) if bias else None
        self.alpha: Real | float = 1.0 if plain else law.real("alpha")
        self.beta: Real | float = law.real("beta") if bias and not plain else 1.0
        self.turned: dict[str, Int] = {
            "transA": law.int("transA", 0, 1),
            "transB": law.int("transB", 0, 1),
        }

    def __call__(
        self, weight: Term, bias: Term | None, x: Term | None = None, **more: Any
    ) -> Apply:
        given: dict[str, Any] = {"alpha": self.alpha, "beta": self.beta, **self.turned}
        return Gemm(x or self.x, weight, bias, **{**given, **more})

    @cached_property
    def left(self) -> Apply:
        """The product as the law finds it."""
        return self(self.weight, self.bias)

    def by_column(self, vector: Term) -> Apply:
        """A number per column of the result, shaped to go with the weight."""
        flag = self.turned["transB"]
        return Unsqueeze(vector, axes=axis_range(2, flag, flag + 1))

    @property
    def columns(self) -> Int:
        """The number of columns of the result."""
        flag = self.turned["transB"]
        return choose(eq(flag, 0), self.weight.dim(1), self.weight.dim(0))


PLAIN = dict(x=[3, 4], w=[4, 5], alpha=1.0, beta=1.0, transA=0, transB=0)
ODD = dict(x=[4, 3], w=[5, 4], alpha=0.5, beta=2.0, transA=1, transB=1)
BIAS = dict(c=[5])


def with_and_without_bias(
    *samples: dict[str, Any], plain: bool = False
) -> Callable[[Build[Layer]], list[Rule]]:
    """A rule for Gemm without and with c; `plain` where alpha and beta are 1."""
    biased = [sample | BIAS for sample in samples]
    return lambda function: [
        variant(function, lambda law: Layer(law, False, plain), samples, False),
        variant(function, lambda law: Layer(law, True, plain), biased, True),
    ]


@with_and_without_bias(PLAIN | dict(a=[5]), ODD | dict(a=[]))
def gemm_scaled(law: Law, gemm: Layer) -> None:
    """Gemm(x, w, c) * a = Gemm(x, w * a, c * a) for a number a per column"""
    a, vector = row(law, "a", integer(2), gemm.columns)
    bias = gemm.bias
    if bias is not None and not law.mutant("bias_unscaled"):
        bias = Mul(bias, vector)
    weight = Mul(gemm.weight, gemm.by_column(vector))
    law.rewrite(Mul(gemm.left, a), gemm(weight, bias))


def _fitting(law: Law, result: Term) -> Var:
    """A constant operand that doesn't enlarge the result."""
    a = law.constant_operand("a", 2)
    if not law.mutant("enlarging"):
        law.require(fits(a, result, integer(2)), "the constant enlarges the result")
    return a


SHIFTS = [PLAIN | dict(a=[5]), PLAIN | dict(a=[3, 1]), PLAIN | dict(a=[])]


@with_and_without_bias(*SHIFTS, plain=True)
def gemm_added(law: Law, gemm: Layer) -> None:
    """Gemm(x, w, c) + a = Gemm(x, w, c + a) where a doesn't enlarge the result"""
    a = _fitting(law, gemm.left)
    bias = a if gemm.bias is None else Add(gemm.bias, a)
    law.rewrite(Add(gemm.left, a), gemm(gemm.weight, bias))


STATISTICS = dict(g=[5], b=[5], m=[5], v=(0.5, 1, 2, 3, 0.1), eps=1e-3)


@with_and_without_bias(PLAIN | STATISTICS, plain=True)
def gemm_batchnorm(law: Law, gemm: Layer) -> None:
    """BatchNormalization(Gemm(x, w, c)) = Gemm(x, w * s, (c - m) * s + b)"""
    g, b, m, v = (law.constant(name, 1) for name in "gbmv")
    eps = law.real("eps")
    scale = Div(g, Sqrt(Add(v, law.number(eps))))
    shifted = Neg(m) if gemm.bias is None else Sub(gemm.bias, m)
    unscaled = law.mutant("bias_unscaled")
    bias = Add(shifted if unscaled else Mul(shifted, scale), b)
    law.rewrite(
        BatchNormalization(gemm.left, g, b, m, v, epsilon=eps),
        gemm(Mul(gemm.weight, gemm.by_column(scale)), bias),
    )


@rule(
    "fusion",
    samples=[
        dict(x=[3, 4], y=[5, 4], c=[5], alpha=1.0, beta=1.0, transA=0, transB=0),
        dict(x=[3, 4], y=[4, 5], c=[5], alpha=1.0, beta=1.0, transA=0, transB=1),
    ],
)
def gemm_transposed_weight(law: Law) -> None:
    """Gemm(x, y.T, c) = Gemm(x, y, c) with transB the other way"""
    x, y, c = law.tensor("x", 2), law.tensor("y", 2), law.operand("c", 2)
    flag = law.int("transB", 0, 1)
    factors: dict[str, Any] = {n: law.real(n) for n in ("alpha", "beta")}
    factors["transA"] = law.int("transA", 0, 1)
    turned = Transpose(y, perm=swap(integer(2)))
    other = flag if law.mutant("same") else 1 - flag
    law.rewrite(
        Gemm(x, turned, c, transB=flag, **factors),
        Gemm(x, y, c, transB=other, **factors),
    )


@rule(
    "fusion", samples=[dict(x=[3, 4], w=[4, 5], a=[5]), dict(x=[3, 4], w=[4, 5], a=[])]
)
def matmul_add(law: Law) -> None:
    """x @ w + a = Gemm(x, w, a) of matrices where a doesn't enlarge the result"""
    x, w = law.tensor("x", 2), law.constant("w", 2)
    left = MatMul(x, w)
    a = _fitting(law, left)
    right = Gemm(x, w, a, alpha=1.0, beta=1.0, transA=0, transB=0)
    law.rewrite(Add(left, a), right)


@rule("fusion", samples=[dict(x=[3, 4], w=[4, 5]) | STATISTICS])
def matmul_batchnorm(law: Law) -> None:
    """BatchNormalization(x @ w) = Gemm(x, w * s, b - m * s) of matrices"""
    x, w = law.tensor("x", 2), law.constant("w", 2)
    g, b, m, v = (law.constant(name, 1) for name in "gbmv")
    eps = law.real("eps")
    scale = Div(g, Sqrt(Add(v, law.number(eps))))
    bias = b if law.mutant("mean_forgotten") else Sub(b, Mul(m, scale))
    law.rewrite(
        BatchNormalization(MatMul(x, w), g, b, m, v, epsilon=eps),
        Gemm(x, Mul(w, scale), bias, alpha=1.0, beta=1.0, transA=0, transB=0),
    )
