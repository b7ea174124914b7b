"""Operands of one operator in a better order; DNNFusion's associative laws."""

from __future__ import annotations

from functools import partial

from ..language.operators.elementwise import Add, Mul
from ..language.pattern import Operator, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import Bool, forall
from .law_table import equation

law_of = partial(equation, family="associative", when="search")


def fewer(s: Term, t: Term, m: Term, n: Term) -> Bool:
    """Whether s with t, and m with n, is less work than s with m, and t with n.

    Sizes of sums are the larger ones: that of s and t is within that of t and n, and
    another; that of m and n is within that of s and m.
    """
    within = forall(s.rank, lambda k: (s.dim(k) <= t.dim(k)) | (s.dim(k) <= n.dim(k)))
    no_less = forall(s.rank, lambda k: (n.dim(k) <= t.dim(k)) | (n.dim(k) <= s.dim(k)))
    no_more = forall(s.rank, lambda k: (n.dim(k) <= m.dim(k)) | (n.dim(k) <= s.dim(k)))
    return within & ~no_less & no_more


WORTH = "the sizes of s and t are not smaller than those of m and n"


def _small_apart(op: Operator, name: str) -> Rule:
    return law_of(
        f"{op}({op}(s, m), {op}(t, n)) = {op}({op}(s, t), {op}(m, n))",
        " s t m n",
        wrong=f"{op}({op}(s, s), {op}(m, n))",
        worthwhile=(fewer, WORTH),
        name=name,
        when="asked",
        measure="flops",
        sample=dict(s=[3], t=[3], m=[2, 3]),
    )


RULES = [_small_apart(Add, "add_small_apart"), _small_apart(Mul, "mul_small_apart")]

# Sums of the same three operands in another order are one.


def _shared(op: Operator, name: str) -> Rule:
    """Equal nodes are one anyway, with their operands in either order
    (graph_editor.py); here the two sums have no node in common.
    """

    @rule(
        "horizontal",
        name=name,
        statement=f"{op}({op}(a, b), c), {op}({op}(a, c), b) = the first, twice",
        samples=[dict(r=2, a=[2, 3], b=[2, 3], c=[3])],
    )
    def build(law: Law) -> None:
        r = law.rank()
        a, b, c = (law.operand(name, r) for name in "abc")
        first = op(op(a, b), c)
        other = op(op(a, c), a if law.mutant("repeated") else b)
        law.rewrite((first, other), (first, first))

    return build


SHARED = [_shared(Add, "add_shared")]
