"""Activation functions of several operands; those of one are recognised by meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ..language.operators.elementwise import (
    Add,
    Div,
    Exp,
    GreaterOrEqual,
    Less,
    Mul,
    Neg,
    PRelu,
    Relu,
    Sigmoid,
    Sub,
    Where,
)
from ..language.pattern import Term
from ..language.rule import Law, Rule, rule
from ..language.terms import eq, forall


@rule("recompose", samples=[dict(r=2, x=[1, 3], y=[2, 3]), dict(r=2, x=[2, 3], y=[])])
def over_one_plus_exp(law: Law) -> None:
    """y / (1 + exp(-x)) = y * Sigmoid(x)"""
    r = law.rank()
    x, y = law.tensor("x", r, kinds="float"), law.operand("y", r)
    gate = Sigmoid(Neg(x)) if law.mutant("inverted") else Sigmoid(x)
    law.rewrite(Div(y, Add(Exp(Neg(x)), law.full("one", r, 1))), Mul(y, gate))


Parts: TypeAlias = Callable[[Term, Term, Term], Term]  # of x, s and 0


def _prelu(name: str, statement: str, parts: Parts) -> Rule:
    """s is a constant that broadcasts into x."""

    @rule(
        "recompose",
        name=name,
        statement=statement,
        samples=[dict(r=3, x=[2, 3, 4], s=[3, 1]), dict(r=2, x=[2, 3], s=[])],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x = law.tensor("x", r, kinds="float")
        slope = law.constant_operand("s", r)
        if not law.mutant("enlarging"):
            within = forall(
                r, lambda k: eq(slope.dim(k), 1) | eq(slope.dim(k), x.dim(k))
            )
            law.require(within, "the slope enlarges x")
        law.rewrite(parts(x, slope, law.full("zero", r, 0)), PRelu(x, slope))

    return build


PRELU = [
    _prelu(
        "prelu_less",
        "s * x where x < 0, else x = PRelu(x, s)",
        lambda x, s, zero: Where(Less(x, zero), Mul(s, x), x),
    ),
    _prelu(
        "prelu_greater_or_equal",
        "x where x >= 0, else s * x = PRelu(x, s)",
        lambda x, s, zero: Where(GreaterOrEqual(x, zero), x, Mul(s, x)),
    ),
    _prelu(
        "prelu_relu_relu",
        "Relu(x) - s * Relu(-x) = PRelu(x, s)",
        lambda x, s, zero: Sub(Relu(x), Mul(s, Relu(Neg(x)))),
    ),
]

RULES: list[Rule] = [over_one_plus_exp, *PRELU]
