"""Convolutions that take in what their operand is made of, and sums of them."""

from __future__ import annotations

from typing import Any

from ..language.operators.contraction import BatchNormalization
from ..language.operators.elementwise import Add, Div, Mul, Neg, Sqrt, Sub
from ..language.operators.movement import Pad
from ..language.pattern import Term
from ..language.rule import Law, Rule
from ..language.terms import Fn, eq, forall
from .convolution_patterns import UNPADDED, Convolution, of_both, plus


def _both_biases(law: Law, conv: Convolution) -> tuple[Term | None, Term | None]:
    """The bias of a second convolution, and the sum of the two."""
    if conv.bias is None:
        return None, None
    second = law.constant("bias2", 1)
    return second, Add(conv.bias, second)


@of_both(dict(y=[2, 4, 5, 6], bias2=[6]), kinds=["conv"])
def conv_sum_of_inputs(law: Law, conv: Convolution) -> None:
    """Conv(x, w, c) + Conv(y, w, d) = Conv(x + y, w, c + d)"""
    y = law.tensor("y", conv.rank)
    second, bias = _both_biases(law, conv)
    if not law.mutant("other_sizes"):
        law.require(
            forall(conv.rank, lambda k: eq(conv.x.dim(k), y.dim(k))),
            "the operands differ in size",
        )
    law.rewrite(
        Add(conv.left, conv(conv.weight, second, y)),
        conv(conv.weight, bias, Add(conv.x, y)),
    )


@of_both(dict(w2=[6, 2, 3, 3], bias2=[6]), kinds=["conv"])
def conv_sum_of_weights(law: Law, conv: Convolution) -> None:
    """Conv(x, w, c) + Conv(x, v, d) = Conv(x, w + v, c + d)"""
    other = law.constant("w2", conv.rank)
    second, bias = _both_biases(law, conv)
    if not law.mutant("other_sizes"):
        law.require(
            forall(conv.rank, lambda k: eq(conv.weight.dim(k), other.dim(k))),
            "the windows differ in size",
        )
    law.rewrite(
        Add(conv.left, conv(other, second)), conv(Add(conv.weight, other), bias)
    )


@of_both(dict(zero=[6]), biases=[False], measure="flops", when="asked")
def conv_zero_bias(law: Law, conv: Convolution) -> None:
    """Conv(x, w, 0) = Conv(x, w)"""
    zero = law.filled("zero", 1, 1 if law.mutant("one") else 0)
    law.rewrite(conv(conv.weight, zero), conv.left)


PADS = dict(before=(0, 0, 1, 0), after=(0, 0, 0, 2))


def _pad(law: Law, conv: Convolution, value: Term | None) -> None:
    r = conv.rank
    before, after = law.fn("before", r), law.fn("after", r)
    low, high = conv.geometry["low"], conv.geometry["high"]
    assert isinstance(low, Fn) and isinstance(high, Fn)
    law.require(
        forall(r, lambda k: (before(k) >= 0) & (after(k) >= 0)), "a Pad that cuts"
    )
    if not law.mutant("channels"):
        law.require(
            forall(r, lambda k: (k >= 2) | (eq(before(k), 0) & eq(after(k), 0))),
            "channels are padded",
        )
    padded = Pad(conv.x, value, low=before, high=after, mode="constant")
    both: dict[str, Any] = {
        "low": Fn(r, lambda k: low(k) + before(k)),
        "high": Fn(r, lambda k: high(k) + after(k)),
    }
    law.rewrite(
        conv(conv.weight, conv.bias, padded),
        conv(conv.weight, conv.bias, **both),
    )


@of_both(PADS, kinds=["conv"])
def conv_padded(law: Law, conv: Convolution) -> None:
    """Conv(Pad(x), w, c) = Conv(x, w, c) with these pads"""
    _pad(law, conv, None)


@of_both(PADS, kinds=["conv"])
def conv_zero_padded(law: Law, conv: Convolution) -> None:
    """Conv(Pad(x, 0), w, c) = Conv(x, w, c) with these pads"""
    _pad(law, conv, law.full("zero", 0, 1 if law.mutant("one") else 0))


@of_both(dict(by=[]), dict(by=[1, 1, 1]), kinds=["conv"])
def conv_scaled_input(law: Law, conv: Convolution) -> None:
    """Conv(x * a, w, c) = Conv(x, w * a, c) for a number a"""
    by = law.scalar("by", conv.rank)
    bias = conv.bias
    if bias is not None and law.mutant("bias_scaled"):
        bias = Mul(bias, by)
    weight = Add(conv.weight, by) if law.mutant("added") else Mul(conv.weight, by)
    law.rewrite(conv(conv.weight, conv.bias, Mul(conv.x, by)), conv(weight, bias))


@of_both(dict(by=[4, 1, 1]), dict(by=[]), groups=False)
def conv_scaled_channels(law: Law, conv: Convolution) -> None:
    """Conv(x * a, w, c) = Conv(x, w * a, c) for a number a per channel"""
    channels = conv.x.dim(1)
    by = conv.per_channel("by", channels)
    vector = conv.by_input(conv.vector(by, channels))
    law.rewrite(
        conv(conv.weight, conv.bias, Mul(conv.x, by)),
        conv(Mul(conv.weight, vector), conv.bias),
    )


DEPTHWISE = dict(weight=[8, 1, 3, 3], group=4, by=[4, 1, 1], bias=[8])


@of_both(UNPADDED | dict(by=[4, 1, 1]), kinds=["conv"], groups=False)
def conv_shifted_input(law: Law, conv: Convolution) -> None:
    """Conv(x + a, w, c) = Conv(x, w, c + sum(w * a)) without pads"""
    channels = conv.x.dim(1)
    by = conv.per_channel("by", channels)
    conv.without_pads()
    law.rewrite(
        conv(conv.weight, conv.bias, Add(conv.x, by)),
        conv(conv.weight, plus(conv.bias, conv.summed(conv.vector(by, channels)))),
    )


@of_both(UNPADDED | dict(by=[4, 1, 1]), kinds=["conv"], groups=False)
def conv_lowered_input(law: Law, conv: Convolution) -> None:
    """Conv(x - a, w, c) = Conv(x, w, c - sum(w * a)) without pads"""
    channels = conv.x.dim(1)
    by = conv.per_channel("by", channels)
    conv.without_pads()
    shift = Neg(conv.summed(conv.vector(by, channels)))
    law.rewrite(
        conv(conv.weight, conv.bias, Sub(conv.x, by)),
        conv(conv.weight, plus(conv.bias, shift)),
    )


INPUT_STATISTICS = dict(g=[4], b=[4], m=[4], v=(0.5, 1, 2, 3), eps=1e-3)


@of_both(UNPADDED | INPUT_STATISTICS, kinds=["conv"], groups=False)
def conv_of_batchnorm(law: Law, conv: Convolution) -> None:
    """Conv(BatchNormalization(x), w, c) = Conv(x, w * s, c + sum(w * t)), no pads"""
    g, b, m, v = (law.constant(name, 1) for name in "gbmv")
    eps = law.real("eps")
    conv.without_pads()
    scale = Div(g, Sqrt(Add(v, law.number(eps))))
    shift = Sub(b, Mul(m, scale))
    law.rewrite(
        conv(
            conv.weight,
            conv.bias,
            BatchNormalization(conv.x, g, b, m, v, epsilon=eps),
        ),
        conv(
            Mul(conv.weight, conv.by_input(scale)),
            plus(conv.bias, conv.summed(shift)),
        ),
    )


@of_both(dict(by=[4, 1, 1]), kinds=["conv"], biases=[True], groups=False, false=True)
def conv_shifted_padded_input(law: Law, conv: Convolution) -> None:
    """Conv(x + a, w, c) = Conv(x, w, c + sum(w * a)), which padding makes false"""
    channels = conv.x.dim(1)
    by = conv.per_channel("by", channels)
    law.rewrite(
        conv(conv.weight, conv.bias, Add(conv.x, by)),
        conv(conv.weight, plus(conv.bias, conv.summed(conv.vector(by, channels)))),
    )


FALSE_RULES: list[Rule] = conv_shifted_padded_input

RULES: list[Rule] = [
    *conv_sum_of_inputs,
    *conv_sum_of_weights,
    *conv_zero_bias,
    *conv_padded,
    *conv_zero_padded,
    *conv_scaled_input,
    *conv_scaled_channels,
    *conv_shifted_input,
    *conv_lowered_input,
    *conv_of_batchnorm,
]
