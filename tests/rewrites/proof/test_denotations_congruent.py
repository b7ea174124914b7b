"""Every denotation is a function of its operands: equal ones give equal results.

Each is built twice from the same symbols, which has to be proved equal, and once from
another tensor, which has to be refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.symbolic_law import EPSILON, Law

import fairhand.rewrites.proof.goal  # noqa: F401  it registers meanings
from fairhand.rewrites.proof.kernel.equality import prove_equal
from fairhand.rewrites.proof.kernel.scalars import FromInt
from fairhand.rewrites.proof.kernel.tensors import Tensor, shape
from fairhand.rewrites.proof.semantics import (
    attention,
    contraction,
    convolution,
    gather,
)
from fairhand.rewrites.proof.semantics import elementwise as e
from fairhand.rewrites.proof.semantics import movement as m
from fairhand.rewrites.proof.semantics import normalization as n
from fairhand.rewrites.proof.semantics import reduction as d
from fairhand.rewrites.proof.semantics import reshape as r
from fairhand.rewrites.proof.semantics.index_maps import Axes, one_axis
from fairhand.rewrites.proof.semantics.table import MEANINGS

# From a law and a tensor; other symbols are the same each time.
Build = Callable[[Law, Tensor], Any]


def window(law: Law) -> convolution.Window:
    return convolution.Window(
        *(law.function(f) for f in ("stride", "by", "low", "high"))
    )


def other(law: Law, x: Tensor) -> Tensor:
    return law.tensor("other", x.rank)


def channels(law: Law, x: Tensor, count: int = 2) -> list[Tensor]:
    return [law.vector(f"v{j}", x.dim(1)) for j in range(count)]


def axis(law: Law) -> Any:
    return law.integer("axis")


def group(law: Law) -> Any:
    return law.integer("group")


def einsum(law: Law, x: Tensor) -> Tensor:
    return contraction.einsum(law.context, x, other(law, x), "abcd", "cbef", "adfe")


def gather_index(law: Law, x: Tensor) -> Tensor:
    f = law.function("f")
    sizes = shape(law.integer("m"), law.integer("n"))
    return gather.gather_index(
        law.context, x, axis(law), 2, sizes, lambda j: f(j(0) + j(1))
    )


def attended(law: Law, x: Tensor) -> Tensor:
    k, v = law.tensor("k", x.rank), law.tensor("v", x.rank)
    return attention.attention(law.context, x, k, v, group=group(law), is_causal=True)


# Of a symbolic rank.
BUILDS: dict[str, Build] = {
    "argmax": lambda law, x: d.argmax(law.context, x, axis(law)),
    "argmax, no axis": lambda law, x: d.argmax(law.context, x, axis(law), False),
    "attention": attended,
    "average_pool": lambda law, x: convolution.average_pool(
        law.context, x, law.function("kernel"), window(law)
    ),
    "average_pool with pads": lambda law, x: convolution.average_pool(
        law.context, x, law.function("kernel"), window(law), True
    ),
    "cast": lambda law, x: MEANINGS["Cast"](
        law.context, x, source="FLOAT", to="FLOAT16"
    ),
    "clip": lambda law, x: e.clip(law.context, x, -1, 1),
    "conv": lambda law, x: convolution.conv(
        law.context, x, other(law, x), None, window(law), group(law)
    ),
    "conv_transpose": lambda law, x: convolution.conv_transpose(
        law.context, x, other(law, x), None, window(law), group=group(law)
    ),
    "cumsum": lambda law, x: d.cumsum(law.context, x, axis(law), True, True),
    "elu": lambda law, x: e.elu(law.context, x),
    "flatten": lambda law, x: MEANINGS["Flatten"](law.context, x, axis(law)),
    "gather_index": gather_index,
    "gelu": lambda law, x: e.gelu(law.context, x),
    "global_max_pool": lambda law, x: convolution.global_max_pool(law.context, x),
    "group_normalization": lambda law, x: n.group_normalization(
        law.context, x, *channels(law, x), group(law), EPSILON
    ),
    "hard_swish": lambda law, x: e.hard_swish(law.context, x),
    "instance_normalization": lambda law, x: n.instance_normalization(
        law.context, x, *channels(law, x), EPSILON
    ),
    "log_softmax": lambda law, x: d.log_softmax(law.context, x, axis(law)),
    "max_pool": lambda law, x: convolution.max_pool(
        law.context, x, law.function("kernel"), window(law)
    ),
    "mish": lambda law, x: e.mish(law.context, x),
    "pad": lambda law, x: m.pad(
        law.context, x, law.function("low"), law.function("high"), 1
    ),
    "pad by reflecting": lambda law, x: m.pad(
        law.context, x, law.function("low"), law.function("high"), mode="reflect"
    ),
    "reduce_by": lambda law, x: d.reduce_by(
        law.context, "ReduceL2", x, Axes(lambda k: k > axis(law))
    ),
    "reduce_mean": lambda law, x: d.reduce_mean(law.context, x, axis(law), False),
    "rms_normalization": lambda law, x: n.rms_normalization(
        law.context, x, e.scalar(FromInt(2)), axis(law), EPSILON
    ),
    "scatter_nd": lambda law, x: gather.scatter_nd(
        law.context, x, law.tensor("places", 2), law.tensor("updates", 1)
    ),
    "scatter_rows": lambda law, x: gather.scatter_rows(
        law.context,
        other(law, x),
        x,
        *law.permutation("p", other(law, x).dim(0)),
    ),
    "slice": lambda law, x: m.slice(
        law.context, x, *(law.function(f) for f in ("begin", "end", "step"))
    ),
    "softmax": lambda law, x: d.softmax(law.context, x, axis(law)),
    "swish": lambda law, x: e.swish(law.context, x, 2),
    "tile": lambda law, x: m.tile(law.context, x, law.function("repeats")),
    "trilu": lambda law, x: e.trilu(law.context, x),
    "where": lambda law, x: e.where(law.context, other(law, x), x, 0),
}

# Of a known rank.
FIXED: dict[str, tuple[int, Build]] = {
    "depth_to_space": (
        4,
        lambda law, x: r.depth_to_space(law.context, x, law.integer("block")),
    ),
    "space_to_depth": (
        4,
        lambda law, x: r.space_to_depth(law.context, x, law.integer("block")),
    ),
    "einsum": (4, einsum),
    "gemm": (
        2,
        lambda law, x: contraction.gemm(
            law.context, x, other(law, x), law.vector("c", 1), 2, 3, True, True
        ),
    ),
    "reshape": (
        2,
        lambda law, x: r.reshape(law.context, x, 3, law.function("s", 3)),
    ),
    "squeeze": (
        3,
        lambda law, x: m.squeeze_set(law.context, x, one_axis(axis(law))),
    ),
}
CASES = {**{name: (None, build) for name, build in BUILDS.items()}, **FIXED}


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_its_operands(name: str) -> None:
    rank, build = CASES[name]
    law = Law()
    rank = law.rank(low=2) if rank is None else rank
    x = law.tensor("x", rank)
    y = law.tensor("y", rank, x.dim)
    once, again, of_another = build(law, x), build(law, x), build(law, y)
    verdict = prove_equal(once, again, law.context)
    assert verdict.proved and verdict.level == "struct", verdict.why
    assert not prove_equal(once, of_another, law.context).proved
