"""Convolutions that take in what their result is scaled by and shifted by."""

from __future__ import annotations

from ..language.operators.contraction import BatchNormalization
from ..language.operators.elementwise import Add, Div, Mul, Neg, Sqrt, Sub
from ..language.rule import Law, Rule
from .convolution_inputs import FALSE_RULES
from .convolution_inputs import RULES as INPUT_RULES
from .convolution_patterns import STATISTICS, Convolution, of_both, plus


@of_both(STATISTICS)
def conv_batchnorm(law: Law, conv: Convolution) -> None:
    """BatchNormalization(Conv(x, w, c)) = Conv(x, w * s, (c - m) * s + b)"""
    g, b, m, v = (law.constant(name, 1) for name in "gbmv")
    eps = law.real("eps")
    left = BatchNormalization(conv.left, g, b, m, v, epsilon=eps)
    scale = Div(g, Sqrt(Add(v, law.number(eps))))
    shifted = Neg(m) if conv.bias is None else Sub(conv.bias, m)
    unscaled = law.mutant("bias_unscaled")
    bias = Add(shifted if unscaled else Mul(shifted, scale), b)
    law.rewrite(left, conv(Mul(conv.weight, conv.by_output(scale)), bias))


@of_both(dict(by=[6, 1, 1]), dict(by=[]), dict(by=[1, 6, 1, 1]))
def conv_mul(law: Law, conv: Convolution) -> None:
    """Conv(x, w, c) * a = Conv(x, w * a, c * a)"""
    by = conv.per_channel("by", conv.channels)
    vector = conv.vector(by, conv.channels)
    bias = conv.bias
    if bias is not None and not law.mutant("bias_unscaled"):
        bias = Mul(bias, vector)
    law.rewrite(
        Mul(conv.left, by), conv(Mul(conv.weight, conv.by_output(vector)), bias)
    )


@of_both(dict(by=[6, 1, 1]), dict(by=[]))
def conv_div(law: Law, conv: Convolution) -> None:
    """Conv(x, w, c) / a = Conv(x, w / a, c / a)"""
    by = conv.per_channel("by", conv.channels)
    vector = conv.vector(by, conv.channels)
    bias = None if conv.bias is None else Div(conv.bias, vector)
    scale = Mul if law.mutant("times") else Div
    law.rewrite(
        Div(conv.left, by), conv(scale(conv.weight, conv.by_output(vector)), bias)
    )


@of_both(dict(by=[6, 1, 1]), dict(by=[]))
def conv_add(law: Law, conv: Convolution) -> None:
    """Conv(x, w, c) + a = Conv(x, w, c + a)"""
    by = conv.per_channel("by", conv.channels)
    vector = conv.vector(by, conv.channels)
    bias = plus(conv.bias, Neg(vector) if law.mutant("minus") else vector)
    law.rewrite(Add(conv.left, by), conv(conv.weight, bias))


@of_both(dict(by=[6, 1, 1]), dict(by=[]))
def conv_sub(law: Law, conv: Convolution) -> None:
    """Conv(x, w, c) - a = Conv(x, w, c - a)"""
    by = conv.per_channel("by", conv.channels)
    vector = conv.vector(by, conv.channels)
    bias = plus(conv.bias, vector if law.mutant("plus") else Neg(vector))
    law.rewrite(Sub(conv.left, by), conv(conv.weight, bias))


@of_both(dict(by=[6, 1, 1]), dict(by=[]))
def conv_subtracted(law: Law, conv: Convolution) -> None:
    """a - Conv(x, w, c) = Conv(x, -w, a - c)"""
    by = conv.per_channel("by", conv.channels)
    vector = conv.vector(by, conv.channels)
    bias = vector if conv.bias is None else Sub(vector, conv.bias)
    weight = conv.weight if law.mutant("same_weight") else Neg(conv.weight)
    law.rewrite(Sub(by, conv.left), conv(weight, bias))


@of_both({})
def conv_neg(law: Law, conv: Convolution) -> None:
    """-Conv(x, w, c) = Conv(x, -w, -c)"""
    bias = None if conv.bias is None else Neg(conv.bias)
    weight = conv.weight if law.mutant("same_weight") else Neg(conv.weight)
    law.rewrite(Neg(conv.left), conv(weight, bias))


RULES: list[Rule] = [
    *conv_batchnorm,
    *conv_mul,
    *conv_div,
    *conv_add,
    *conv_sub,
    *conv_subtracted,
    *conv_neg,
    *INPUT_RULES,
]

NOT_SHIPPED = [
    (
        "152",
        "BatchNormalization(ConvTranspose(x, w, groups)) = ConvTranspose(x, w * s)",
        "true; the scale would have to be cut into groups, which no model asked for",
    ),
    (
        "174",
        "Conv(x, w) = Transpose(Transpose(x) @ w) for windows of one element",
        "true, but the prover doesn't know that what runs over one element is that one",
    ),
    (
        "175",
        "Conv(x, w, group=channels) as a depthwise convolution",
        "no rewrite: torch has no other operator for it",
    ),
    (
        "176",
        "ConvTranspose(x, w, stride=window) = a product and a Reshape",
        "true, but needs that exactly one element of each window is met",
    ),
    (
        "-",
        "Squeeze(Conv(Unsqueeze(x), w)) = Conv(x, Squeeze(w)), 1-D written as 2-D",
        "true, but the prover compares no sums over indices of other ranks",
    ),
]

__all__ = ["FALSE_RULES", "NOT_SHIPPED", "RULES"]
