"""Batch and heads as one axis, which torch.bmm and torch.baddbmm ask for."""

from __future__ import annotations

from ..language.operators.contraction import MatMul
from ..language.operators.elementwise import Add, Mul
from ..language.operators.movement import Reshape, Transpose
from ..language.pattern import Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Int, IntLike, Sizes, fixed
from .attention_operands import swapped


class _Packing:
    def __init__(self, law: Law) -> None:
        self.b, self.h = law.int("b", 0), law.int("h", 0)
        law.require(self.h >= 2, "fewer than two heads")

    def pack(self, x: Term, *sizes: Int) -> Term:
        return Reshape(x, shape=Sizes(3, fixed([self.b * self.h, *sizes])))

    def unpack(self, x: Term, *sizes: IntLike) -> Term:
        return Reshape(x, shape=Sizes(4, fixed([self.b, self.h, *sizes])))


@rule(
    "packing", samples=[dict(b=2, h=3, s=4, d=5, e=6, a=[2, 3, 4, 5], v=[2, 3, 5, 6])]
)
def product_of_packed_heads(law: Law) -> None:
    """unpack(pack(a) pack(v)) = a v, where pack makes one axis of batch and heads"""
    packing = _Packing(law)
    s, d, e = (law.int(name, 0) for name in "sde")
    a = law.shaped("a", packing.b, packing.h, s, d)
    v = law.shaped("v", packing.b, packing.h, d, e)
    product = MatMul(packing.pack(a, s, d), packing.pack(v, d, e))
    right = Mul(a, v) if law.mutant("by_elements") else MatMul(a, v)
    law.rewrite(packing.unpack(product, s, e), right)


@rule(
    "packing",
    samples=[
        dict(b=2, h=3, s=4, t=5, d=6, q=[2, 3, 4, 6], k=[2, 3, 5, 6])
        | dict(y=[6, 1, 5], c=(0.5,))
    ],
    measure="order",
)
def biased_scores_of_packed_heads(law: Law) -> None:
    """pack(q) pack(k)^T * c + y = pack(q k^T * c + unpack(y))"""
    packing = _Packing(law)
    b, h = packing.b, packing.h
    s, t, d = (law.int(name, 0) for name in "std")
    q, k = law.shaped("q", b, h, s, d), law.shaped("k", b, h, t, d)
    y, c = law.shaped("y", b * h, 1, t), law.scalar("c", 3)
    turned = Transpose(packing.pack(k, t, d), perm=swapped(3, 1, 2))
    left = Add(Mul(MatMul(packing.pack(q, s, d), turned), c), y)
    product = MatMul(q, Transpose(k, perm=swapped(4, 2, 3)))
    if not law.mutant("not_scaled"):
        product = Mul(product, c)
    right = packing.pack(Add(product, packing.unpack(y, 1, t)), s, t)
    law.rewrite(left, right)


RULES: list[Rule] = [product_of_packed_heads, biased_scores_of_packed_heads]
