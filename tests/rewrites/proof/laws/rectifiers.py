"""Abs, Relu and their relatives, which treat positive and negative apart."""

from __future__ import annotations

from functools import partial

from fairhand.rewrites.language.operators.elementwise import (
    Abs,
    Add,
    Elu,
    Exp,
    Greater,
    GreaterOrEqual,
    LeakyRelu,
    Less,
    LessOrEqual,
    Max,
    Min,
    Mul,
    Neg,
    PRelu,
    Relu,
    Sigmoid,
    Sign,
    Sub,
    Where,
)
from fairhand.rewrites.rules.law_table import equation, number

law_of = partial(equation, family="rectifiers")

ABS = [
    law_of(
        "Abs(Abs(x)) = Abs(x)",
        "x",
        lambda x: Abs(Abs(x)),
        Abs,
        wrong={"none": lambda x: x},
        name="abs_abs",
    ),
    law_of(
        "Abs(-x) = Abs(x)",
        "x",
        lambda x: Abs(Neg(x)),
        Abs,
        wrong={"none": lambda x: x},
        name="abs_neg",
    ),
    law_of(
        "Max(x, -x) = Abs(x)",
        "float x",
        lambda x: Max(x, Neg(x)),
        Abs,
        wrong={"none": lambda x: x},
        name="max_of_opposite",
    ),
    law_of(
        "Relu(x) + Relu(-x) = Abs(x)",
        "float x",
        lambda x: Add(Relu(x), Relu(Neg(x))),
        Abs,
        wrong={"none": lambda x: x},
        name="relu_plus_relu_of_opposite",
    ),
    law_of(
        "Relu(x) - Relu(-x) = x",
        "float x",
        lambda x: Sub(Relu(x), Relu(Neg(x))),
        lambda x: x,
        wrong={"negated": Neg},
        name="relu_minus_relu_of_opposite",
    ),
    *(
        law_of(
            f"Abs({inner}(x)) = {inner}(x)",
            "float x",
            lambda x, inner=inner: Abs(inner(x)),
            inner,
            wrong={"abs": Abs},
            name=f"abs_of_{inner}".lower(),
        )
        for inner in (Relu, Exp, Sigmoid)
    ),
    law_of(
        "Sign(Sign(x)) = Sign(x)",
        "float x",
        lambda x: Sign(Sign(x)),
        Sign,
        wrong={"none": lambda x: x},
        name="sign_sign",
    ),
]

# Where(x < 0, -x, x) = Abs(x)
ABS_CHOSEN = [
    law_of(
        f"Where({comparison}(x, 0), {'-x, x' if negative else 'x, -x'}) = Abs(x)",
        "float x zero:0",
        lambda x, zero, comparison=comparison, negative=negative: Where(
            comparison(x, zero), *((Neg(x), x) if negative else (x, Neg(x)))
        ),
        lambda x, zero: Abs(x),
        wrong={"none": lambda x, zero: x},
        name=f"where_{comparison}_zero_is_abs".lower(),
    )
    for comparison, negative in (
        (Less, True),
        (LessOrEqual, True),
        (Greater, False),
        (GreaterOrEqual, False),
    )
]

RELU = [
    law_of(
        "x - Relu(x) = Min(x, 0)",
        "float x",
        lambda x: Sub(x, Relu(x)),
        lambda x: Min(x, number(0)),
        wrong={"maximum": lambda x: Max(x, number(0))},
        name="minus_relu",
    ),
    law_of(
        "-Relu(-x) = Min(x, 0)",
        "float x",
        lambda x: Neg(Relu(Neg(x))),
        lambda x: Min(x, number(0)),
        wrong={"maximum": lambda x: Max(x, number(0))},
        name="neg_relu_neg",
    ),
    law_of(
        "Relu(Max(x, k)) = Max(x, Max(k, 0))",
        "float x k:scalar",
        lambda x, k: Relu(Max(x, k)),
        lambda x, k: Max(x, Relu(k)),
        wrong={"bound": Max},
        name="relu_max",
    ),
    law_of(
        "Max(Relu(x), k) = Max(x, Max(k, 0))",
        "float x k:scalar",
        lambda x, k: Max(Relu(x), k),
        lambda x, k: Max(x, Relu(k)),
        wrong={"bound": Max},
        name="max_relu",
    ),
    law_of(
        "Max(Relu(a), Relu(b)) = Relu(Max(a, b))",
        "float a b",
        lambda a, b: Max(Relu(a), Relu(b)),
        lambda a, b: Relu(Max(a, b)),
        wrong={"minimum": lambda a, b: Relu(Min(a, b))},
        name="max_of_relus",
    ),
    law_of(
        "Min(Relu(a), Relu(b)) = Relu(Min(a, b))",
        "float a b",
        lambda a, b: Min(Relu(a), Relu(b)),
        lambda a, b: Relu(Min(a, b)),
        wrong={"maximum": lambda a, b: Relu(Max(a, b))},
        name="min_of_relus",
    ),
]


# What leaves numbers that aren't negative alone changes nothing after these.
UNCHANGED = [
    rule
    for inner in (Relu, Abs, Exp, Sigmoid)
    for rule in (
        law_of(
            f"Relu({inner}(x)) = {inner}(x)",
            "float x",
            lambda x, inner=inner: Relu(inner(x)),
            inner,
            wrong={"none": lambda x: x},
            name=f"relu_of_{inner}".lower(),
        ),
        law_of(
            f"LeakyRelu({inner}(x)) = {inner}(x)",
            "float x alpha:real",
            lambda x, alpha, inner=inner: LeakyRelu(inner(x), alpha=alpha),
            lambda x, alpha, inner=inner: inner(x),
            wrong={"none": lambda x, alpha: x},
            name=f"leakyrelu_of_{inner}".lower(),
        ),
        law_of(
            f"Elu({inner}(x)) = {inner}(x)",
            "float x alpha:real",
            lambda x, alpha, inner=inner: Elu(inner(x), alpha=alpha),
            lambda x, alpha, inner=inner: inner(x),
            wrong={"none": lambda x, alpha: x},
            name=f"elu_of_{inner}".lower(),
        ),
        law_of(
            f"PRelu({inner}(x), slope) = {inner}(x)",
            "float x slope:constant",
            lambda x, slope, inner=inner: PRelu(inner(x), slope),
            lambda x, slope, inner=inner: inner(x),
            wrong={"none": lambda x, slope: x},
            name=f"prelu_of_{inner}".lower(),
            contained=["slope"],
        ),
    )
]

LEAKY = [
    law_of(
        "Relu(LeakyRelu(x, alpha)) = Relu(x), where alpha >= 0",
        "float x alpha:real",
        lambda x, alpha: Relu(LeakyRelu(x, alpha=alpha)),
        lambda x, alpha: Relu(x),
        wrong={"none": lambda x, alpha: x},
        require=(lambda x, alpha: alpha >= 0, "the slope is negative"),
        name="relu_of_leakyrelu",
    ),
    law_of(
        "LeakyRelu(LeakyRelu(x, a), b) = LeakyRelu(x, a * b), where a >= 0",
        "float x a:real b:real",
        lambda x, a, b: LeakyRelu(LeakyRelu(x, alpha=a), alpha=b),
        lambda x, a, b: LeakyRelu(x, alpha=a * b),
        wrong={"sum": lambda x, a, b: LeakyRelu(x, alpha=a + b)},
        require=(lambda x, a, b: a >= 0, "the slope is negative"),
        name="leakyrelu_of_leakyrelu",
    ),
    law_of(
        "LeakyRelu(x, 0) = Relu(x)",
        "float x",
        lambda x: LeakyRelu(x, alpha=0.0),
        Relu,
        wrong={"none": lambda x: x},
        name="leakyrelu_flat",
        measure="flops",
    ),
    law_of(
        "LeakyRelu(x, 1) = x",
        "float x",
        lambda x: LeakyRelu(x, alpha=1.0),
        lambda x: x,
        wrong={"relu": Relu},
        name="leakyrelu_straight",
    ),
    law_of(
        "PRelu(x, 0) = Relu(x)",
        "float x zero:0",
        PRelu,
        lambda x, zero: Relu(x),
        wrong={"none": lambda x, zero: x},
        name="prelu_flat",
        contained=["zero"],
        measure="flops",
    ),
    law_of(
        "PRelu(x, 1) = x",
        "float x one:1",
        PRelu,
        lambda x, one: x,
        wrong={"relu": lambda x, one: Relu(x)},
        name="prelu_straight",
        contained=["one"],
    ),
    law_of(
        "PRelu(x, k) = LeakyRelu(x, k)",
        "float x k:scalar",
        PRelu,
        lambda x, k: LeakyRelu(x, alpha=k.value),
        wrong={"relu": lambda x, k: Relu(x)},
        name="prelu_of_one_slope",
        measure="flops",
    ),
]

PRODUCTS = [
    law_of(
        "Abs(x) * Abs(x) = x * x",
        "float x",
        lambda x: Mul(Abs(x), Abs(x)),
        lambda x: Mul(x, x),
        wrong={"abs": lambda x: Mul(x, Abs(x))},
        name="square_of_abs",
    ),
    law_of(
        "Abs(x * x) = x * x",
        "float x",
        lambda x: Abs(Mul(x, x)),
        lambda x: Mul(x, x),
        wrong={"negated": lambda x: Neg(Mul(x, x))},
        name="abs_of_square",
    ),
    law_of(
        "Relu(x * x) = x * x",
        "float x",
        lambda x: Relu(Mul(x, x)),
        lambda x: Mul(x, x),
        wrong={"negated": lambda x: Neg(Mul(x, x))},
        name="relu_of_square",
    ),
    law_of(
        "Relu(Relu(a) * Relu(b)) = Relu(a) * Relu(b)",
        "float a b",
        lambda a, b: Relu(Mul(Relu(a), Relu(b))),
        lambda a, b: Mul(Relu(a), Relu(b)),
        wrong={"inside": lambda a, b: Relu(Mul(a, b))},
        name="relu_of_product_of_relus",
    ),
    law_of(
        "Sign(x) * Abs(x) = x",
        "float x",
        lambda x: Mul(Sign(x), Abs(x)),
        lambda x: x,
        wrong={"abs": Abs},
        name="sign_times_abs",
    ),
    law_of(
        "Sign(x) * x = Abs(x)",
        "float x",
        lambda x: Mul(Sign(x), x),
        Abs,
        wrong={"none": lambda x: x},
        name="sign_times_own",
    ),
]

RULES = [*ABS, *ABS_CHOSEN, *RELU, *UNCHANGED, *LEAKY, *PRODUCTS]
