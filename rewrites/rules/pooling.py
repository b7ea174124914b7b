"""Pooling that takes in what stands around it, or changes places with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from ..language.operators.movement import Flatten, Pad, Reshape, Squeeze
from ..language.operators.pooling import (
    AveragePool,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool,
)
from ..language.operators.reduction import ReduceMax, ReduceMean
from ..language.pattern import Apply, Operator, Term
from ..language.rule import Law, Rule, rule
from ..language.terms import (
    NEGATIVE_INFINITY,
    Fn,
    Int,
    Sizes,
    axis_range,
    eq,
    fixed,
    forall,
)
from .pad import added_around


class Pool:
    """A pooling operator over any number of spatial axes."""

    def __init__(
        self, law: Law, operator: Operator, counted: int = 0, rounded: bool = True
    ) -> None:
        self.law, self.operator = law, operator
        self.rank = r = law.rank(low=2)
        self.x = law.tensor("x", r)
        self.kernel, self.stride, self.dilation = (
            law.fn(name, r) for name in ("kernel", "stride", "dilation")
        )
        self.low, self.high = law.fn("low", r), law.fn("high", r)
        self.rounding: dict[str, Int | int] = {}
        free = rounded and not counted
        self.rounding["ceil"] = law.int("ceil", 0, 1) if free else 0
        if operator is AveragePool:
            self.rounding["pads_count"] = counted

    def __call__(self, x: Term, **given: Any) -> Apply:
        windows: dict[str, Any] = {
            "kernel": self.kernel,
            "stride": self.stride,
            "dilation": self.dilation,
            "low": self.low,
            "high": self.high,
            **self.rounding,
        }
        return self.operator(x, **{**windows, **given})

    def without_pads(self) -> None:
        """Require that nothing is padded."""
        if not self.law.mutant("padded"):
            self.law.require(
                forall(self.rank, lambda k: eq(self.low(k), 0) & eq(self.high(k), 0)),
                "the operand is padded",
            )

    def over_everything(self) -> None:
        """Require one window as large as the image."""
        self.without_pads()
        self.law.require(
            forall(self.rank, lambda k: eq(self.dilation(k), 1)), "it is dilated"
        )
        x, kernel = self.x, self.kernel
        if not self.law.mutant("smaller"):
            self.law.require(
                forall(self.rank, lambda k: (k < 2) | eq(kernel(k), x.dim(k))),
                "the window is smaller than the image",
            )


POOL = dict(
    r=4,
    x=[2, 3, 6, 7],
    kernel=(1, 1, 2, 3),
    stride=(1, 1, 2, 1),
    dilation=(1,) * 4,
    low=(0,) * 4,
    high=(0,) * 4,
    ceil=0,
)
ALL = POOL | dict(kernel=(1, 1, 6, 7))


def take_pad(law: Law, pool: Pool, value: Term | None) -> None:
    """Pool(Pad(x, value)) = Pool(x) with these pads."""
    r, low, high = pool.rank, pool.low, pool.high
    before, after = added_around(law, r)
    # ONNX Runtime and PyTorch take no window that sees pads alone.
    law.require(
        forall(
            r,
            lambda k: (k < 2)
            | (low(k) + before(k) < pool.kernel(k))
            & (high(k) + after(k) < pool.kernel(k)),
        ),
        "a pad is as wide as the window",
    )
    law.rewrite(
        pool(Pad(pool.x, value, low=before, high=after, mode="constant")),
        pool(
            pool.x,
            low=Fn(r, lambda k: low(k) + before(k)),
            high=Fn(r, lambda k: high(k) + after(k)),
        ),
    )


def _padded(
    name: str, operator: Operator, value: str, number: Any = None, counted: int = 0
) -> Rule:
    """A Pad by `value`; one that gives none has 0."""
    said = f"{operator}(Pad(x{value})) = {operator}(x) with these pads"

    def build(law: Law) -> None:
        pool = Pool(law, operator, counted, rounded=False)
        given = None
        if number is not None:
            given = law.full("value", 0, 1 if law.mutant("one") else number)
        take_pad(law, pool, given)

    return rule(
        "fusion",
        name=name,
        statement=said + ", counted" * counted,
        samples=[POOL | dict(before=(0, 0, 1, 0), after=(0, 0, 0, 2))],
    )(build)


max_pool_padded = _padded("max_pool_padded", MaxPool, ", -inf", NEGATIVE_INFINITY)
average_pool_padded = _padded("average_pool_padded", AveragePool, "", counted=1)
average_pool_zero_padded = _padded(
    "average_pool_zero_padded", AveragePool, ", 0", 0, counted=1
)


@rule("definition", samples=[ALL], measure="flops")
def average_pool_of_all(law: Law) -> None:
    """AveragePool(x) = GlobalAveragePool(x) for one window over the whole image"""
    pool = Pool(law, AveragePool, counted=1)
    pool.over_everything()
    law.rewrite(pool(pool.x), GlobalAveragePool(pool.x))


@rule("definition", samples=[ALL], measure="flops")
def max_pool_of_all(law: Law) -> None:
    """MaxPool(x) = GlobalMaxPool(x) for one window over the whole image"""
    pool = Pool(law, MaxPool)
    pool.over_everything()
    law.rewrite(pool(pool.x), GlobalMaxPool(pool.x))


def _global(
    operator: Operator, reduction: Operator, view: str, low: int, rank: int
) -> Callable[[Law], None]:
    """A view of images without the axes that are reduced, which begin at `low`: 1 with
    channels last, else 2."""
    high = rank - 2 + low

    def build(law: Law) -> None:
        x = law.tensor("x", rank)
        spatial = axis_range(rank, low, high)
        if operator in (GlobalAveragePool, GlobalMaxPool):
            pooled = operator(x)
        else:
            pooled = operator(x, axes=spatial, keepdims=1)
        shape = Sizes(2, fixed([x.dim(0), x.dim(1 if low == 2 else rank - 1)]))
        left = (
            Flatten(pooled, axis=1)
            if view == "Flatten"
            else Reshape(pooled, shape=shape)
        )
        axes = axis_range(rank, low, high - 1 if law.mutant("fewer_axes") else high)
        law.rewrite(left, reduction(x, axes=axes, keepdims=0))

    return build


def _views(rank: int) -> list[Rule]:
    """The last pool of a network for images of so many axes."""
    mean, largest = (GlobalAveragePool, ReduceMean), (GlobalMaxPool, ReduceMax)
    means = ReduceMean, ReduceMean
    return [
        rule(
            "definition",
            name=f"{name}_{view.lower()}_{rank - 2}d{last.replace(' ', '_')}",
            statement=f"{view}({operators[0]}(x)) = {operators[1]}(x) over the"
            f" {rank - 2} spatial axes{last and ',' + last}",
            samples=[dict(x=[2, 3, 4, 5, 6][:rank])],
        )(_global(*operators, view, low, rank))
        for name, view, operators, low, last in (
            ("global_average_pool", "Flatten", mean, 2, ""),
            ("global_average_pool", "Reshape", mean, 2, ""),
            ("global_max_pool", "Reshape", largest, 2, ""),
            ("reduce_mean", "Reshape", means, 2, ""),
            ("reduce_mean", "Reshape", means, 1, " channels last"),
        )
        if rank < 5 or low == 2
    ]


def _squeezed(name: str, operator: Operator, reduction: Operator) -> Rule:
    def build(law: Law) -> None:
        r = law.rank(low=2)
        x = law.tensor("x", r)
        spatial = axis_range(r, 3 if law.mutant("other_axes") else 2, r)
        law.rewrite(
            Squeeze(operator(x), axes=axis_range(r, 2, r)),
            reduction(x, axes=spatial, keepdims=0),
        )

    return rule(
        "definition",
        name=name,
        statement=f"Squeeze({operator}(x)) = {reduction}(x) over the spatial axes",
        samples=[dict(r=4, x=[2, 3, 4, 5])],
    )(build)


RULES: list[Rule] = [
    _squeezed("global_average_pool_squeeze", GlobalAveragePool, ReduceMean),
    _squeezed("global_max_pool_squeeze", GlobalMaxPool, ReduceMax),
    *chain.from_iterable(map(_views, (4, 3, 5))),
]
