"""Activation functions that are lines in pieces, and Elu."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from ..language.operators.elementwise import (
    Add,
    Clip,
    Div,
    Elu,
    Exp,
    Greater,
    GreaterOrEqual,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Less,
    LessOrEqual,
    Max,
    Min,
    Mish,
    Mul,
    Neg,
    PRelu,
    Relu,
    Sub,
    Where,
)
from ..language.pattern import Chain, Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Bool, Int, RealLike, eq, forall
from .recompose_patterns import Numbers, recompose

HALF, SIXTH = Fraction(1, 2), Fraction(1, 6)


# ---- piecewise linear


def hard_sigmoid(x: Term) -> Term:
    return HardSigmoid(x, alpha=SIXTH, beta=HALF)


def plain_hard_sigmoid(x: Term) -> Term:
    return HardSigmoid(x, alpha=Fraction(1, 5), beta=HALF)


def relu6(x: Term, n: Numbers) -> Term:
    """Clip(x + 3, 0, 6)"""
    return Clip(Add(x, n(3)), n(0), n(6))


HARD_SIGMOID = [
    recompose(
        f"Clip(x + 3, 0, 6) / 6 = HardSigmoid(x, 1/6, 1/2), with {spelled}",
        left,
        hard_sigmoid,
        wrong={"plain": plain_hard_sigmoid},
        name=f"hard_sigmoid_{spelled}",
    )
    for spelled, left in (
        ("div", lambda x, n: Div(relu6(x, n), n(6))),
        ("mul", lambda x, n: Mul(relu6(x, n), n.about(SIXTH))),
        ("div_inside", lambda x, n: Clip(Div(Add(x, n(3)), n(6)), n(0), n(1))),
        ("divided", lambda x, n: Clip(Add(Div(x, n(6)), n(HALF)), n(0), n(1))),
    )
]

HARD_SWISH = [
    recompose(
        f"x * Clip(x + 3, 0, 6) / 6 = HardSwish(x), with {spelled}",
        left,
        HardSwish,
        wrong={"mish": Mish},
        name=f"hard_swish_{spelled}",
    )
    for spelled, left in (
        ("hard_sigmoid", lambda x, n: Mul(x, hard_sigmoid(x))),
        ("div", lambda x, n: Div(Mul(x, relu6(x, n)), n(6))),
        ("mul", lambda x, n: Chain(Mul, (x, relu6(x, n), n.about(SIXTH)))),
        ("divided", lambda x, n: Mul(relu6(x, n), Div(x, n(6)))),
    )
]


@rule("recompose", samples=[dict(r=2, x=[2, 3], a=(0.2,), b=(0.4,))])
def hard_sigmoid_clip(law: Law) -> None:
    """Clip(a * x + b, 0, 1) = HardSigmoid(x, a, b)"""
    r = law.rank()
    x = law.tensor("x", r, kinds="float")
    a, b, n = law.scalar("a", r), law.scalar("b", r), Numbers(law, r)
    left = Clip(Add(Mul(a, x), b), n(0), n(1))
    beta: RealLike = HALF if law.mutant("middle") else b.value
    law.rewrite(left, HardSigmoid(x, alpha=a.value, beta=beta))


# Where x is below zero, in the four ways to ask: (condition, is it asked for below).
BELOW: dict[str, tuple[Callable[[Term, Term], Term], bool]] = {
    "less": (Less, True),
    "less_or_equal": (LessOrEqual, True),
    "greater": (Greater, False),
    "greater_or_equal": (GreaterOrEqual, False),
}


def chosen(comparison: str, x: Term, zero: Term, below: Term) -> Term:
    """x, and something else below zero."""
    ask, is_below = BELOW[comparison]
    return Where(ask(x, zero), *((below, x) if is_below else (x, below)))


def _leaky_relu_where(comparison: str) -> Rule:
    @rule(
        "recompose",
        name=f"leaky_relu_{comparison}",
        statement=f"a * x below zero, else x, by {comparison} = LeakyRelu(x, a)",
        samples=[dict(r=2, x=[2, 3], a=(0.25,))],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, a = law.tensor("x", r, kinds="float"), law.scalar("a", r)
        left = chosen(comparison, x, law.full("zero", r, 0), Mul(a, x))
        law.rewrite(left, Relu(x) if law.mutant("relu") else leaky(x, a))

    return build


def leaky(x: Term, slope: Var) -> Term:
    return LeakyRelu(x, alpha=slope.value)


@rule("recompose", samples=[dict(r=2, x=[2, 3], a=(0.25,))])
def leaky_relu_max(law: Law) -> None:
    """Max(x, a * x) = LeakyRelu(x, a), where a <= 1"""
    r = law.rank()
    x, a = law.tensor("x", r, kinds="float"), law.scalar("a", r)
    if not law.mutant("steep"):
        law.require(a.value <= 1, "the slope is above 1")
    law.rewrite(Max(x, Mul(a, x)), leaky(x, a))


def _within(slope: Term, x: Term, rank: Int) -> Bool:
    return forall(rank, lambda k: eq(slope.dim(k), 1) | eq(slope.dim(k), x.dim(k)))


Parts: TypeAlias = Callable[[Term, Term, Numbers], Term]
PRELU: dict[str, Parts] = {
    "less": lambda x, s, n: chosen("less", x, n(0), Mul(s, x)),
    "greater_or_equal": lambda x, s, n: chosen("greater_or_equal", x, n(0), Mul(s, x)),
    "greater": lambda x, s, n: chosen("greater", x, n(0), Mul(s, x)),
    "relu_min": lambda x, s, n: Add(Relu(x), Mul(s, Min(x, n(0)))),
    "relu_relu": lambda x, s, n: Sub(Relu(x), Mul(s, Relu(Neg(x)))),
}


def _prelu(spelled: str) -> Rule:
    """The slope is a constant that broadcasts into x."""

    @rule(
        "recompose",
        name=f"prelu_{spelled}",
        statement=f"s * x below zero, else x, by {spelled} = PRelu(x, s)",
        samples=[dict(r=3, x=[2, 3, 4], s=[3, 1]), dict(r=2, x=[2, 3], s=[])],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x = law.tensor("x", r, kinds="float")
        slope = law.constant_operand("s", r)
        if not law.mutant("enlarging"):
            law.require(_within(slope, x, r), "the slope enlarges x")
        right = PRelu(x, slope)
        law.rewrite(PRELU[spelled](x, slope, Numbers(law, r)), right)

    return build


def _elu(comparison: str) -> Rule:
    @rule(
        "recompose",
        name=f"elu_{comparison}",
        statement=f"a * (exp(x) - 1) below zero, else x, by {comparison} = Elu(x, a)",
        samples=[dict(r=2, x=[2, 3], a=(0.5,))],
    )
    def build(law: Law) -> None:
        r = law.rank()
        x, a = law.tensor("x", r, kinds="float"), law.scalar("a", r)
        n = Numbers(law, r)
        below = Mul(a, Sub(Exp(x), n(1)))
        alpha: RealLike = 1.0 if law.mutant("one") else a.value
        law.rewrite(chosen(comparison, x, n(0), below), Elu(x, alpha=alpha))

    return build


RULES: list[Rule] = [
    *HARD_SIGMOID,
    hard_sigmoid_clip,
    *HARD_SWISH,
    *(_leaky_relu_where(c) for c in BELOW),
    leaky_relu_max,
    *(_prelu(p) for p in PRELU),
    *(_elu(c) for c in BELOW),
]
