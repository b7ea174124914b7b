"""Layers side by side that become one layer.

One large product is faster than several small ones; a reader had rather see the layers
that the model was written with. So these are applied where a caller asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..language.operators.contraction import Conv, Gemm, MatMul
from ..language.operators.elementwise import Add
from ..language.operators.movement import Concat, Split
from ..language.pattern import Apply, Term, Var
from ..language.rule import Law, Rule, rule
from ..language.terms import Bool, Int, IntLike, eq, fixed, forall

LETTERS = "abc"


def _parts(x: Apply, axis: IntLike, sizes: Sequence[Int]) -> tuple[Apply, ...]:
    return Split.all(x, count=len(sizes), axis=axis, sizes=fixed(sizes))


def _joined(law: Law, parts: Sequence[Term], axis: IntLike) -> Apply:
    """The parts, one after the other; in another order in a mutant."""
    listed = parts[::-1] if law.mutant("order") else parts
    return Concat(*listed, axis=axis)


def _full_bias(law: Law, bias: Var, size: Int) -> Var:
    law.require(eq(bias.dim(0), size), "a bias is broadcast")
    return bias


def _matmuls(law: Law, count: int, bias: bool) -> None:
    r = law.rank(low=2)
    x = law.tensor("x", r)
    weights = [law.constant(f"w{n}", 2) for n in LETTERS[:count]]
    products: list[Apply] = [MatMul(x, w) for w in weights]
    merged: Apply = MatMul(x, _joined(law, weights, 1))
    sizes = [w.dim(1) for w in weights]
    if bias:
        biases = [
            _full_bias(law, law.constant(f"v{n}", 1), size)
            for n, size in zip(LETTERS, sizes, strict=False)
        ]
        products = [Add(p, v) for p, v in zip(products, biases, strict=True)]
        merged = Add(merged, Concat(*biases, axis=0))
    law.rewrite(products, _parts(merged, r - 1, sizes))


def _gemms(law: Law, count: int, bias: bool) -> None:
    x = law.tensor("x", 2)
    flag = law.int("transB", 0, 1)
    plain: dict[str, Any] = dict(alpha=1.0, beta=1.0, transA=0, transB=flag)
    weights = [law.constant(f"w{n}", 2) for n in LETTERS[:count]]
    sizes = [w.dim(1 - flag) for w in weights]
    biases: list[Var | None] = [None] * count
    whole: Apply | None = None
    if bias:
        given = [
            _full_bias(law, law.constant(f"v{n}", 1), size)
            for n, size in zip(LETTERS, sizes, strict=False)
        ]
        biases, whole = [*given], Concat(*given, axis=0)
    merged = Gemm(x, _joined(law, weights, 1 - flag), whole, **plain)
    law.rewrite(
        [Gemm(x, w, v, **plain) for w, v in zip(weights, biases, strict=True)],
        _parts(merged, 1, sizes),
    )


def _require_alike(
    law: Law, mutant: str, terms: Sequence[Term], rank: Int, but: IntLike
) -> None:
    """Require that the terms agree in size along all axes but one."""
    if law.mutant(mutant):
        return
    one = terms[0]
    for other in terms[1:]:

        def alike(k: Int, other: Term = other) -> Bool:
            return eq(k, but) | eq(other.dim(k), one.dim(k))

        law.require(forall(rank, alike), "the sizes differ")


class Convolutions:
    """Several convolutions of one geometry, in one group."""

    def __init__(self, law: Law, count: int, bias: bool) -> None:
        self.law = law
        self.rank = r = law.rank(low=2)
        names = ("stride", "dilation", "low", "high")
        self.geometry: dict[str, Any] = {n: law.fn(n, r) for n in names}
        self.geometry["group"] = 1
        self.weights = [law.constant(f"w{n}", r) for n in LETTERS[:count]]
        self.biases: list[Var | None] = [None] * count
        if bias:
            self.biases = [law.constant(f"v{n}", 1) for n in LETTERS[:count]]

    def __call__(self, x: Term, weight: Term, bias: Term | None) -> Apply:
        return Conv(x, weight, bias, **self.geometry)

    def of(self, x: Term) -> list[Apply]:
        """Each convolution of x."""
        pairs = zip(self.weights, self.biases, strict=True)
        return [self(x, w, c) for w, c in pairs]

    def same_windows(self) -> None:
        """Require weights of equal sizes but for the number of output channels."""
        _require_alike(self.law, "other_windows", self.weights, self.rank, but=0)

    def joined_biases(self) -> Apply | None:
        """The biases one after the other; None where there are none."""
        given = [c for c in self.biases if c is not None]
        return Concat(*given, axis=0) if given else None


def _convs(law: Law, count: int, bias: bool) -> None:
    conv = Convolutions(law, count, bias)
    x = law.tensor("x", conv.rank)
    conv.same_windows()
    merged = conv(x, _joined(law, conv.weights, 0), conv.joined_biases())
    law.rewrite(conv.of(x), _parts(merged, 1, [w.dim(0) for w in conv.weights]))


WINDOWS = dict(stride=(1, 1, 2, 1), dilation=(1,) * 4, low=(0, 0, 1, 0))
CONV = WINDOWS | dict(r=4, high=(0, 0, 1, 1), x=[2, 4, 5, 6])
KERNELS = dict(wa=[3, 4, 3, 3], wb=[2, 4, 3, 3], wc=[5, 4, 3, 3])
MATRICES = dict(wa=[4, 3], wb=[4, 2], wc=[4, 5])
BIASES = dict(va=[3], vb=[2], vc=[5])
Build = Callable[[Law, int, bool], None]

# What it says, the law, and a sample.
MERGES: dict[str, tuple[str, Build, dict[str, Any]]] = {
    "matmuls": (
        "x @ a, x @ b = Split(x @ Concat(a, b))",
        _matmuls,
        dict(r=3, x=[2, 3, 4]) | MATRICES,
    ),
    "gemms": (
        "Gemm(x, a), Gemm(x, b) = Split(Gemm(x, Concat(a, b)))",
        _gemms,
        dict(x=[3, 4], transB=0) | MATRICES,
    ),
    "convs": (
        "Conv(x, a), Conv(x, b) = Split(Conv(x, Concat(a, b)))",
        _convs,
        CONV | KERNELS,
    ),
}


def _merge(kind: str, count: int, bias: bool) -> Rule:
    """As in "convs_merged", or "convs_merged_3_biased"."""
    statement, function, sample = MERGES[kind]

    def build(law: Law) -> None:
        function(law, count, bias)

    return rule(
        "horizontal",
        name=f"{kind}_merged" + "_3" * (count == 3) + "_biased" * bias,
        statement=statement,
        samples=[BIASES | sample],
        when="asked",
    )(build)


# Three at once keep their order, so they come first; and those with biases are applied
# before: a product that has been merged leaves its parts' biases behind.
RULES, BIASED = (
    [_merge(kind, count, bias) for kind in MERGES for count in (3, 2)]
    for bias in (False, True)
)
