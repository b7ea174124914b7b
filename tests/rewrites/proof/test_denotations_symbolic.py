"""Denotations with symbolic ranks, axes and sizes: what follows from them is proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import z3
from support.symbolic_law import EPSILON, Law, gathered

from fairhand.rewrites.proof.kernel.equality import Verdict, prove_equal
from fairhand.rewrites.proof.kernel.scalars import All, Op, Scalar, Symbol
from fairhand.rewrites.proof.kernel.smt import choose, either
from fairhand.rewrites.proof.kernel.tensors import Tensor, shape
from fairhand.rewrites.proof.semantics import (
    attention,
    contraction,
    convolution,
)
from fairhand.rewrites.proof.semantics import elementwise as e
from fairhand.rewrites.proof.semantics import movement as m
from fairhand.rewrites.proof.semantics import normalization as n
from fairhand.rewrites.proof.semantics import reduction as d
from fairhand.rewrites.proof.semantics import reshape as r
from fairhand.rewrites.proof.semantics.index_maps import Axes

Sides = tuple[Tensor, Tensor]


def sigma(*x: Scalar) -> Scalar:
    """Some function."""
    return Op("sigma", *x)


def proved(build: Callable[[Law], Sides]) -> Verdict:
    law = Law()
    left, right = build(law)
    return prove_equal(left, right, law.context)


# ---- what is equal


def reshape_twice(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank())
    r1, r2 = law.rank("r1"), law.rank("r2")
    s1, s2 = law.function("s1", r1), law.function("s2", r2)
    left = r.reshape(c, r.reshape(c, x, r1, s1), r2, s2)
    return left, r.reshape(law.right(), x, r2, s2)


def reshape_and_back(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank())
    r1 = law.rank("r1")
    there = e.elementwise(c, sigma, r.reshape(c, x, r1, law.function("s1", r1)))
    back = r.reshape(c, there, x.rank, x.dim)
    return back, e.elementwise(law.right(), sigma, x)


def reshape_to_an_equal_shape(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank())
    r1 = law.rank("r1")
    s1 = law.function("s1", r1)
    c.assume(r1 == x.rank)
    c.assume(All(r1, lambda k: s1(k) == x.dim(k)))
    return r.reshape(c, x, r1, s1), x


def reshape_of_two(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank())
    y, r1 = law.tensor("y", x.rank, x.dim), law.rank("r1")
    s1 = law.function("s1", r1)
    left = e.elementwise(c, sigma, r.reshape(c, x, r1, s1), r.reshape(c, y, r1, s1))
    right = e.elementwise(law.right(), sigma, x, y)
    return left, r.reshape(c, right, r1, s1)


def split_then_merge_two(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank(low=1))
    axis = law.integer("axis", 0, x.rank - 1)
    split = r.split_axis(c, x, axis, law.integer("a"), law.integer("b"))
    return r.merge_axes(c, split, axis), x


def squeeze_a_set(law: Law) -> Sides:
    c, x, axes = law.context, law.tensor("x", law.rank()), law.axes("axes")
    return m.squeeze_set(c, m.unsqueeze_set(c, x, axes), axes), x


def unsqueeze_a_reduction(law: Law) -> Sides:
    c, x, axes = law.context, law.tensor("x", law.rank()), law.axes("axes")
    left = m.unsqueeze_set(c, d.reduce_set(c, "max", x, axes, False), axes)
    return left, d.reduce_set(law.right(), "max", x, axes)


def expand_before_adding(law: Law) -> Sides:
    c, x, y = law.context, law.tensor("x", law.rank()), law.tensor("y", law.rank())
    sizes = law.function("s", x.rank)
    fits = All(x.rank, lambda k: either(sizes(k) == y.dim(k), sizes(k) == x.dim(k)))
    c.assume(fits)
    left = e.add(c, m.expand(c, x, x.rank, sizes), y)
    return left, e.add(law.right(), x, y)


def transposed_concat(law: Law) -> Sides:
    c, rank, axis = law.context, law.rank(), law.integer("axis")
    a, b = law.tensor("a", rank), law.tensor("b", rank)
    p, inverse = law.permutation("p", rank)
    parts = [m.transpose(c, t, p, inverse) for t in (a, b)]
    left = m.concat2(c, axis, *parts)
    right = m.concat2(law.right(), p(axis), a, b)
    return left, m.transpose(c, right, p, inverse)


def gather_of_gather(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank(low=1))
    axis, f, g = law.integer("axis"), law.function("f"), law.function("g")
    n1, n2 = law.integer("n1"), law.integer("n2")
    left = gathered(c, gathered(c, x, axis, f, n1), axis, g, n2)
    return left, gathered(law.right(), x, axis, lambda j: f(g(j)), n2)


def scaled_product_of_two_ranks(law: Law) -> Sides:
    c, scale = law.context, Symbol("scale")
    a = law.tensor("a", law.rank("ra", 2))
    b = law.tensor("b", law.rank("rb", 2))
    left = e.mul(c, contraction.matmul(c, a, b), scale)
    right = law.right()
    return left, contraction.matmul(right, e.mul(right, a, scale), b)


def transposed_product(law: Law) -> Sides:
    c, rank = law.context, law.rank(low=2)
    a, b = law.tensor("a", rank), law.tensor("b", rank)
    left = contraction.swap_last(contraction.matmul(c, a, b))
    parts = contraction.swap_last(b), contraction.swap_last(a)
    return left, contraction.matmul(law.right(), *parts)


def composed_layer_normalization(law: Law, fits: bool = True) -> Sides:
    c, x = law.context, law.tensor("x", law.rank(low=1))
    axis = law.integer("axis", 0, x.rank - 1)
    sizes = (lambda k: x.dim(k + axis)) if fits else None
    names = ("scale", "bias")
    scale, bias = (law.tensor(name, x.rank - axis, sizes) for name in names)
    axes = Axes(lambda k: k >= axis)
    difference = e.sub(c, x, d.reduce_mean_set(c, x, axes))
    variance = d.reduce_mean_set(c, e.mul(c, difference, difference), axes)
    deviation = e.pointwise(c, "Sqrt", e.add(c, variance, EPSILON))
    left = e.add(c, e.mul(c, e.div(c, difference, deviation), scale), bias)
    return left, n.layer_normalization(law.right(), x, scale, bias, axis, EPSILON)


def composed_attention(law: Law, batched: bool = True) -> Sides:
    """The mask may hold minus infinity."""
    c, rank, scale = law.context, law.rank(low=3), Symbol("scale")
    batch = law.function("batch", rank)

    def operand(name: str) -> Tensor:
        own = law.function(f"n_{name}", rank)
        sizes = (lambda k: choose(k < rank - 2, batch(k), own(k))) if batched else own
        return law.tensor(name, rank, sizes)

    q, k, v = map(operand, "qkv")
    by_row = shape(q.dim(rank - 2), k.dim(rank - 2))
    mask = law.tensor("mask", 2, by_row, extended=True)
    scores = contraction.matmul(c, e.mul(c, q, scale), contraction.swap_last(k))
    weights = d.softmax(c, e.add(c, scores, mask), rank - 1)
    left = contraction.matmul(c, weights, v)
    return left, attention.attention(law.right(), q, k, v, mask, scale)


def mean_over_images(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank(low=3))
    left = d.reduce_mean_set(c, x, Axes(lambda k: k >= 2))
    return left, convolution.global_average_pool(law.right(), x)


def normalised_grouped_convolution(law: Law) -> Sides:
    c, rank, group = law.context, law.rank(low=2), law.integer("group")
    x, w = law.tensor("x", rank), law.tensor("w", rank)
    names = ("bias", "scale", "shift", "mean", "variance")
    bias, scale, shift, mean, variance = (law.vector(f, w.dim(0)) for f in names)
    window = convolution.Window(
        *(law.function(f) for f in ("stride", "by", "low", "high"))
    )
    y = convolution.conv(c, x, w, bias, window, group)
    left = n.batch_normalization(c, y, scale, shift, mean, variance, EPSILON)

    def factor(i: Any) -> Scalar:
        return scale.at(i) / Op("sqrt", variance.at(i) + EPSILON)

    weights = Tensor(rank, w.dim, lambda i: w.at(i) * factor(lambda k: i(0)))
    moved = Tensor(
        1, bias.dim, lambda i: (bias.at(i) - mean.at(i)) * factor(i) + shift.at(i)
    )
    return left, convolution.conv(law.right(), x, weights, moved, window, group)


EQUAL = [
    reshape_twice,
    reshape_and_back,
    reshape_to_an_equal_shape,
    reshape_of_two,
    split_then_merge_two,
    squeeze_a_set,
    unsqueeze_a_reduction,
    expand_before_adding,
    transposed_concat,
    gather_of_gather,
    scaled_product_of_two_ranks,
    transposed_product,
    composed_layer_normalization,
    composed_attention,
    mean_over_images,
    normalised_grouped_convolution,
]


@pytest.mark.parametrize("build", EQUAL, ids=lambda f: f.__name__)
def test_equal_for_all_ranks(build: Callable[[Law], Sides]) -> None:
    verdict = proved(build)
    assert verdict.proved, verdict.why


# ---- what is not


def reshape_of_a_transpose(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank())
    p, inverse = law.permutation("p", x.rank)
    r1 = law.rank("r1")
    s1 = law.function("s1", r1)
    moved = m.transpose(c, x, p, inverse)
    left, right = r.reshape(c, moved, r1, s1), r.reshape(c, x, r1, s1)
    return left, right


def reshape_to_another_shape(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank())
    s1 = law.function("s1", x.rank)
    return r.reshape(c, x, x.rank, s1), x


def merge_of_other_axes(law: Law) -> Sides:
    c, x = law.context, law.tensor("x", law.rank())
    low = law.integer("low", 0, x.rank - 2)
    merged = r.merge_axes(c, x, low)
    c.assume(x.dim(low) == x.dim(low + 1))
    split = r.split_axis(c, merged, low, x.dim(low), x.dim(low))
    swapped = Tensor(
        x.rank,
        split.dim,
        lambda i: split.at(
            lambda k: z3.If(k == low, i(low + 1), z3.If(k == low + 1, i(low), i(k)))
        ),
    )
    return swapped, x


def broadcast_without_condition(law: Law) -> Sides:
    c, x, y = law.context, law.tensor("x", law.rank()), law.tensor("y", law.rank())
    sizes = law.function("s", x.rank)
    left = e.add(c, m.expand(c, x, x.rank, sizes), y)
    return left, e.add(law.right(), x, y)


def indices_out_of_range(law: Law) -> Sides:
    x = law.tensor("x", law.rank(low=1))
    axis = law.integer("axis", 0, x.rank - 1)
    f, count = law.function("f"), law.integer("count", 0)
    right = gathered(law.right(), x, axis, f, count)
    return Tensor(right.rank, right.dim, right.at), right


def permutation_that_is_none(law: Law) -> Sides:
    x, p = law.tensor("x", law.rank()), law.function("p")
    right = m.transpose(law.right(), x, p, p)
    return Tensor(right.rank, right.dim, right.at), right


def scale_that_enlarges(law: Law) -> Sides:
    return composed_layer_normalization(law, fits=False)


def attention_that_broadcasts(law: Law) -> Sides:
    return composed_attention(law, batched=False)


NOT_EQUAL = {
    scale_that_enlarges: "scale and bias",
    attention_that_broadcasts: "the batch of attention",
    reshape_of_a_transpose: "not shown: the same values",
    reshape_to_another_shape: "differ",
    merge_of_other_axes: "not shown: the same values",
    broadcast_without_condition: "differ",
    indices_out_of_range: "indices",
    permutation_that_is_none: "a permutation of the axes",
}


@pytest.mark.parametrize("build", NOT_EQUAL, ids=lambda f: f.__name__)
def test_refused(build: Callable[[Law], Sides]) -> None:
    verdict = proved(build)
    assert not verdict.proved
    assert NOT_EQUAL[build] in verdict.why
