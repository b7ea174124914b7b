"""Convolutions that take in what stands before and after them."""

from __future__ import annotations

from typing import Any

from ..language.operators.contraction import BatchNormalization
from ..language.operators.elementwise import Add, Div, Mul, Neg, Sqrt, Sub
from ..language.operators.movement import Pad
from ..language.rule import Law
from ..language.terms import Fn
from .convolution_patterns import STATISTICS, Convolution, of_both, plus
from .pad import added_around


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


@of_both(dict(by=[6, 1, 1]), dict(by=[]), dict(by=[1, 6, 1, 1]), kinds=["conv"])
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


@of_both(dict(by=[6, 1, 1]), dict(by=[]), kinds=["conv"])
def conv_add(law: Law, conv: Convolution) -> None:
    """Conv(x, w, c) + a = Conv(x, w, c + a)"""
    by = conv.per_channel("by", conv.channels)
    vector = conv.vector(by, conv.channels)
    bias = plus(conv.bias, Neg(vector) if law.mutant("minus") else vector)
    law.rewrite(Add(conv.left, by), conv(conv.weight, bias))


@of_both(dict(before=(0, 0, 1, 0), after=(0, 0, 0, 2)), kinds=["conv"])
def conv_padded(law: Law, conv: Convolution) -> None:
    """Conv(Pad(x), w, c) = Conv(x, w, c) with these pads"""
    r = conv.rank
    before, after = added_around(law, r)
    low, high = conv.geometry["low"], conv.geometry["high"]
    assert isinstance(low, Fn) and isinstance(high, Fn)
    padded = Pad(conv.x, None, low=before, high=after, mode="constant")
    both: dict[str, Any] = {
        "low": Fn(r, lambda k: low(k) + before(k)),
        "high": Fn(r, lambda k: high(k) + after(k)),
    }
    law.rewrite(
        conv(conv.weight, conv.bias, padded), conv(conv.weight, conv.bias, **both)
    )
