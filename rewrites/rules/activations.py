"""Activation functions, put together from the spellings of the exporters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ..language.operators.elementwise import (
    Abs,
    Add,
    Div,
    Erf,
    Exp,
    Gelu,
    Log,
    Mish,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Relu,
    Sigmoid,
    Softplus,
    Softsign,
    Sub,
    Swish,
    Tanh,
)
from ..language.pattern import Chain, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import PI, Real, RealLike, real
from . import piecewise
from .recompose_patterns import Left, Numbers, recompose

HALF = Fraction(1, 2)
ROOT_2 = Real("sqrt", real(2))
ROOT_HALF = Real("div", real(1), ROOT_2)
GELU_SLOPE = Real("sqrt", real(2) / PI)  # of the tanh in the approximation
GELU_CUBIC = Fraction("0.044715")


# ---- GELU: x / 2 * (1 + erf(x / sqrt(2)))


def gelu(x: Term) -> Term:
    return Gelu(x, approximate="none")


def gelu_tanh(x: Term) -> Term:
    return Gelu(x, approximate="tanh")


ERF: dict[str, Left] = {
    "div": lambda x, n: Erf(Div(x, n.about(ROOT_2))),
    "mul": lambda x, n: Erf(Mul(x, n.about(ROOT_HALF))),
}
# x times half of 1 + e, for e = erf or tanh of something.
GATED: dict[str, Callable[[Term, Term, Numbers], Term]] = {
    "half": lambda x, e, n: Chain(Mul, (x, Add(e, n(1)), n(HALF))),
    "over_2": lambda x, e, n: Div(Mul(x, Add(e, n(1))), n(2)),
    "gate_over_2": lambda x, e, n: Mul(x, Div(Add(e, n(1)), n(2))),
    "halves": lambda x, e, n: Mul(x, Add(Mul(e, n(HALF)), n(HALF))),
}


def _erf(inner: str, outer: str) -> Left:
    return lambda x, n: GATED[outer](x, ERF[inner](x, n), n)


GELU = [
    recompose(
        f"x * (1 + erf(x / sqrt(2))) / 2 = Gelu(x), with {inner} and {outer}",
        _erf(inner, outer),
        gelu,
        wrong={"tanh": gelu_tanh},
        name=f"gelu_erf_{inner}_{outer}",
    )
    for inner in ERF
    for outer in GATED
]

# sqrt(2 / pi) * (x + 0.044715 * x^3)
CUBIC: dict[str, Left] = {
    "pow": lambda x, n: Mul(
        n.about(GELU_SLOPE), Add(x, Mul(n.about(GELU_CUBIC), Pow(x, n(3))))
    ),
    "mul": lambda x, n: Mul(
        n.about(GELU_SLOPE), Add(x, Chain(Mul, (n.about(GELU_CUBIC), x, x, x)))
    ),
    "pow_mul": lambda x, n: Mul(
        n.about(GELU_SLOPE),
        Add(x, Chain(Mul, (n.about(GELU_CUBIC), x, Pow(x, n(2))))),
    ),
    "factored": lambda x, n: Chain(
        Mul,
        (x, Add(Chain(Mul, (n.about(GELU_CUBIC), x, x)), n(1)), n.about(GELU_SLOPE)),
    ),
    "factored_pow": lambda x, n: Chain(
        Mul,
        (x, Add(Mul(n.about(GELU_CUBIC), Pow(x, n(2))), n(1)), n.about(GELU_SLOPE)),
    ),
    "multiplied_out": lambda x, n: Mul(
        x,
        Add(Chain(Mul, (n.about(GELU_SLOPE * GELU_CUBIC), x, x)), n.about(GELU_SLOPE)),
    ),
}


def _tanh(inner: str, outer: str) -> Left:
    return lambda x, n: GATED[outer](x, Tanh(CUBIC[inner](x, n)), n)


GELU_TANH = [
    recompose(
        "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) / 2 = Gelu(x, tanh), "
        f"with {inner} and {outer}",
        _tanh(inner, outer),
        gelu_tanh,
        wrong={"erf": gelu},
        name=f"gelu_tanh_{inner}_{outer}",
    )
    for inner in CUBIC
    for outer in ("half", "halves")
]

CUBES: dict[str, Left] = {
    "pow": lambda x, n: Mul(n.about(GELU_CUBIC), Pow(x, n(3))),
    "mul": lambda x, n: Chain(Mul, (n.about(GELU_CUBIC), x, x, x)),
}


def _sigmoid(cube: str) -> Left:
    return lambda x, n: Mul(
        x, Sigmoid(Mul(n.about(GELU_SLOPE * 2), Add(x, CUBES[cube](x, n))))
    )


GELU_SIGMOID = [
    recompose(
        "x * sigmoid(sqrt(8 / pi) * (x + 0.044715 * x^3)) = Gelu(x, tanh), "
        f"with {cube}",
        _sigmoid(cube),
        gelu_tanh,
        wrong={"erf": gelu},
        name=f"gelu_sigmoid_{cube}",
    )
    for cube in CUBES
]

# ---- sigmoid, tanh and what they gate


def inverted(x: Term) -> Term:
    return Sigmoid(Neg(x))


SIGMOID = [
    recompose(
        "1 / (1 + exp(-x)) = Sigmoid(x), by Reciprocal",
        lambda x, n: Reciprocal(Add(Exp(Neg(x)), n(1))),
        Sigmoid,
        wrong={"inverted": inverted},
        name="sigmoid_reciprocal",
    ),
    recompose(
        "exp(x) / (exp(x) + 1) = Sigmoid(x)",
        lambda x, n: Div(Exp(x), Add(Exp(x), n(1))),
        Sigmoid,
        wrong={"inverted": inverted},
        name="sigmoid_quotient",
    ),
    recompose(
        "(1 + tanh(x / 2)) / 2 = Sigmoid(x)",
        lambda x, n: Mul(Add(Tanh(Mul(x, n(HALF))), n(1)), n(HALF)),
        Sigmoid,
        wrong={"inverted": inverted},
        name="sigmoid_tanh",
    ),
    recompose(
        "1 + tanh(x / 2) over 2 = Sigmoid(x), in halves",
        lambda x, n: Add(Mul(Tanh(Mul(x, n(HALF))), n(HALF)), n(HALF)),
        Sigmoid,
        wrong={"inverted": inverted},
        name="sigmoid_tanh_halves",
    ),
]

TANH = [
    recompose(
        "(exp(x) - exp(-x)) / (exp(x) + exp(-x)) = Tanh(x)",
        lambda x, n: Div(Sub(Exp(x), Exp(Neg(x))), Add(Exp(x), Exp(Neg(x)))),
        Tanh,
        wrong={"sigmoid": Sigmoid},
        name="tanh_quotient",
    ),
    recompose(
        "2 * sigmoid(2 * x) - 1 = Tanh(x)",
        lambda x, n: Sub(Mul(Sigmoid(Mul(x, n(2))), n(2)), n(1)),
        Tanh,
        wrong={"sigmoid": Sigmoid},
        name="tanh_sigmoid",
    ),
    recompose(
        "2 * sigmoid(2 * x) + (-1) = Tanh(x)",
        lambda x, n: Add(Mul(Sigmoid(Mul(x, n(2))), n(2)), n(-1)),
        Tanh,
        wrong={"sigmoid": Sigmoid},
        name="tanh_sigmoid_plus",
    ),
]


def swish(x: Term) -> Term:
    return Swish(x, alpha=1.0)


SWISH = [
    recompose(
        "x * sigmoid(x) = Swish(x)",
        lambda x, n: Mul(x, Sigmoid(x)),
        swish,
        wrong={"inverted": lambda x: Swish(x, alpha=-1.0)},
        name="silu",
    ),
    recompose(
        "x * tanh(softplus(x)) = Mish(x)",
        lambda x, n: Mul(x, Tanh(Softplus(x))),
        Mish,
        wrong={"swish": swish},
        name="mish",
    ),
    recompose(
        "log(1 + exp(x)) = Softplus(x)",
        lambda x, n: Log(Add(Exp(x), n(1))),
        Softplus,
        wrong={"relu": Relu},
        name="softplus",
    ),
    recompose(
        "x / (1 + |x|) = Softsign(x)",
        lambda x, n: Div(x, Add(Abs(x), n(1))),
        Softsign,
        wrong={"tanh": Tanh},
        name="softsign",
    ),
]


@rule("recompose", samples=[dict(r=2, x=[2, 3], c=(1.702,))])
def quick_gelu(law: Law) -> None:
    """x * sigmoid(c * x) = Swish(x, alpha=c)"""
    r = law.rank()
    x, c = law.tensor("x", r, kinds="float"), law.scalar("c", r)
    alpha: RealLike = 1.0 if law.mutant("silu") else c.value
    law.rewrite(Mul(x, Sigmoid(Mul(x, c))), Swish(x, alpha=alpha))


@rule("recompose", samples=[dict(r=2, x=[3], y=[2, 3]), dict(r=2, x=[2, 3], y=[])])
def over_one_plus_exp(law: Law) -> None:
    """y / (1 + exp(-x)) = y * Sigmoid(x)"""
    r = law.rank()
    x, y = law.operand("x", r, kinds="float"), law.operand("y", r)
    gate = Sigmoid(Neg(x)) if law.mutant("inverted") else Sigmoid(x)
    law.rewrite(Div(y, Add(Exp(Neg(x)), law.full("one", r, 1))), Mul(y, gate))


RULES: list[Rule] = [
    *GELU,
    *GELU_TANH,
    *GELU_SIGMOID,
    *SIGMOID,
    over_one_plus_exp,
    *TANH,
    *SWISH,
    quick_gelu,
    *piecewise.RULES,
]
