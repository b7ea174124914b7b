"""What the rules about convolutions share: the pattern, and its variants.

A convolution here has constant weights and any number of spatial axes. What it takes in
is constant and the same throughout a channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial
from typing import Any

from ..language.operators.contraction import Conv, ConvTranspose, Einsum
from ..language.operators.elementwise import Add
from ..language.operators.movement import Expand, Squeeze, Unsqueeze
from ..language.operators.reduction import ReduceSum
from ..language.pattern import Apply, Term, Var
from ..language.rule import Law, Rule
from ..language.terms import Fn, Int, Sizes, axis_range, choose, eq, forall
from .law_table import Build, variant


class Convolution:
    """Conv, or with `transposed` ConvTranspose in one group, of constant weights."""

    def __init__(self, law: Law, bias: bool, transposed: bool = False) -> None:
        self.law, self.transposed = law, transposed
        self.rank = r = law.rank(low=2)
        self.x = law.tensor("x", r)
        self.weight = law.constant("weight", r)
        self.bias: Term | None = law.constant("bias", 1) if bias else None
        names = ("stride", "dilation", "low", "high", *(["extra"] * transposed))
        self.geometry: dict[str, Fn | Int | int] = {n: law.fn(n, r) for n in names}
        self.geometry["group"] = 1 if transposed else law.int("group", 1)

    def __call__(
        self, weight: Term, bias: Term | None, x: Term | None = None, **geometry: Any
    ) -> Apply:
        operator = ConvTranspose if self.transposed else Conv
        given = {**self.geometry, **geometry}
        return operator(x or self.x, weight, bias, **given)

    @cached_property
    def left(self) -> Apply:
        """The convolution, as it is matched."""
        return self(self.weight, self.bias)

    @property
    def channels(self) -> Int:
        """How many there are in the result."""
        return self.weight.dim(1 if self.transposed else 0)

    def by_output(self, vector: Term) -> Apply:
        """A vector over the result's channels, shaped to go with the weight."""
        return self._along(vector, self.transposed)

    def _along(self, vector: Term, second: bool) -> Apply:
        """A vector along the first axis of the weight or the second."""
        r = self.rank
        if not second:
            return Unsqueeze(vector, axes=axis_range(r, 1, r))
        inner = Unsqueeze(vector, axes=axis_range(r - 1, 1, r - 1))
        return Unsqueeze(inner, axes=axis_range(r, 0, 1))

    def per_channel(self, name: str, channels: Int) -> Var:
        """A constant operand that is the same throughout a channel (or everywhere)."""
        m = self.law.constant_operand(name, self.rank)
        if not self.law.mutant("varies_within_a_channel"):
            self.law.require(
                forall(
                    self.rank,
                    lambda k: eq(m.dim(k), 1) | (eq(k, 1) & eq(m.dim(k), channels)),
                ),
                "the constant varies within a channel",
            )
        return m

    def vector(self, m: Var, channels: Int) -> Apply:
        """A constant per channel as a vector."""
        shape = Sizes(self.rank, lambda k: choose(eq(k, 1), channels, 1))
        spread = Expand(m, shape=shape)
        inner = Squeeze(spread, axes=axis_range(self.rank, 2, self.rank))
        return Squeeze(inner, axes=axis_range(2, 0, 1))

    def summed(self, shift: Term) -> Apply:
        """What the convolution makes of an operand that is `shift` per channel."""
        spatial = axis_range(self.rank, 2, self.rank)
        total = ReduceSum(self.weight, axes=spatial, keepdims=0)
        return Einsum(total, shift, equation="ab,b->a")

    def without_pads(self) -> None:
        """Require that no element is taken from outside the operand."""
        low, high = self.geometry["low"], self.geometry["high"]
        assert isinstance(low, Fn) and isinstance(high, Fn)
        if not self.law.mutant("padded"):
            self.law.require(
                forall(self.rank, lambda k: eq(low(k), 0) & eq(high(k), 0)),
                "padding is 0, not the constant",
            )


def plus(a: Term | None, b: Term) -> Term:
    """a + b, where there is an a."""
    return b if a is None else Add(a, b)


SPATIAL = dict(stride=(1, 1, 2, 1), dilation=(1,) * 4)
PADDED = dict(low=(0, 0, 1, 0), high=(0, 0, 1, 1))
CONV = dict(r=4, x=[2, 4, 5, 6], weight=[6, 2, 3, 3], group=2)
TRANSPOSED = dict(r=4, x=[2, 4, 5, 6], weight=[4, 6, 3, 3], extra=(0, 0, 1, 0))
STATISTICS = dict(g=[6], b=[6], m=[6], v=(0.5, 1, 2, 3, 0.1, 1), eps=1e-3)


def of_both(
    *samples: dict[str, Any],
    kinds: Iterable[str] = ("conv", "conv_transpose"),
    biases: Iterable[bool] = (False, True),
) -> Callable[[Build[Convolution]], list[Rule]]:
    """A rule for Conv and ConvTranspose each, without and with a bias."""

    def make(function: Build[Convolution], kind: str, bias: bool) -> Rule:
        turned = kind == "conv_transpose"
        base: dict[str, Any] = TRANSPOSED if turned else CONV
        base = base | SPATIAL | PADDED | ({"bias": [6]} if bias else {})
        given, said = [base | sample for sample in samples], ("conv", kind)
        words = ("Conv(", "ConvTranspose(") if turned else ("", "")
        of = partial(Convolution, bias=bias, transposed=turned)
        return variant(function, of, given, bias, said, words)

    return lambda function: [
        make(function, kind, bias) for kind in kinds for bias in biases
    ]
