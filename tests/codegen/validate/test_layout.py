"""Views seen through copies: the elements are those that NumPy has there."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sympy
import torch

from fairhand.codegen.validate.layout import (
    View,
    merged,
    quotient,
    row_major,
    stored_order,
    through,
)
from fairhand.codegen.validate.moves import Memory, joined
from fairhand.codegen.validate.sizes import less

_N = sympy.Symbol("n", integer=True, positive=True)


def seen(view: View, memory: np.ndarray) -> np.ndarray:
    """The elements of a view, in order."""
    at = np.array([int(view.offset)])
    for size, stride in view.dims:
        at = at[..., None] + np.arange(int(size)) * int(stride)
    return memory[at.reshape(-1)]


def drawn_view(draw: random.Random, whole: np.ndarray) -> np.ndarray:
    """A view of an array: some of it, split, in another order."""
    for _ in range(draw.randint(1, 4)):
        how, size = draw.random(), whole.size
        if how < 0.5 and whole.flags.c_contiguous:
            rows = draw.choice([d for d in range(1, size + 1) if size % d == 0])
            whole = whole.reshape(rows, size // rows)
        elif how < 0.75:
            whole = whole.transpose(draw.sample(range(whole.ndim), whole.ndim))
        else:
            axis = draw.randrange(whole.ndim)
            start = draw.randrange(whole.shape[axis])
            part = slice(start, draw.randint(start + 1, whole.shape[axis]))
            whole = whole[(slice(None),) * axis + (part,)]
    return whole


def test_what_is_seen_through_a_copy_is_what_was_copied() -> None:
    draw, followed = random.Random(0), 0
    memory = np.arange(1000)
    for _ in range(1500):
        sizes = [draw.choice([1, 2, 3, 4, 6]) for _ in range(draw.randint(1, 4))]
        strides = [draw.choice([0, 1, 2, 3, 5, 12, -1, -3]) for _ in sizes]
        space = View(tuple(zip(sizes, strides, strict=True)), 100)
        copy = seen(space, memory)
        part = drawn_view(draw, np.arange(copy.size))
        steps = [step // part.itemsize for step in part.strides]
        dims = tuple(zip(part.shape, steps, strict=True))
        found = through(View(dims, int(part.reshape(-1)[0])), space.dims)
        if found is None:
            continue
        followed += 1
        there = View(found.dims, found.offset + space.offset)
        np.testing.assert_array_equal(seen(there, memory), copy[part.reshape(-1)])
        np.testing.assert_array_equal(
            seen(there.merged, memory), copy[part.reshape(-1)]
        )
    assert followed > 900


def test_open_sizes_are_followed_where_all_of_them_allow_it() -> None:
    # [n, 12] copied from columns, whose heads are looked at
    space = ((_N, 1), (12, _N))
    heads = through(View(((_N, 12), (3, 4), (4, 1)), 0), space)
    assert heads == View(((_N, 1), (3, 4 * _N), (4, _N)), 0)
    whole = through(View(((12 * _N, 1),), 0), space)
    assert whole == View(((_N, 1), (12, _N)), 0)
    assert through(View(((_N, 5),), 0), ((_N, 5), (4, 1))) is None


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        (3, 4, True),
        (_N, _N + 1, True),
        (1, _N, True),
        (_N, 2 * _N, True),
        (2, _N, False),
        (_N, 7, False),
        (_N + 1, _N, False),
        (_N - 1, _N, True),
    ],
    ids=str,
)
def test_less_is_said_of_what_is_less_at_all_sizes(
    a: sympy.Expr, b: sympy.Expr, answer: bool
) -> None:
    assert less(a, b) == answer


def test_quotients_are_whole() -> None:
    assert quotient(12 * _N, 4) == 3 * _N
    assert quotient(12 * _N, _N) == 12
    assert quotient(_N, 2) is None
    assert quotient(7, 2) is None


def test_dimensions_of_one_step_are_one() -> None:
    assert merged(((2, 12 * _N), (_N, 12), (1, 5), (12, 1))) == ((24 * _N, 1),)
    assert merged(((_N, 12), (4, 1))) == ((_N, 12), (4, 1))


def test_the_order_of_memory_without_gaps() -> None:
    assert stored_order(((_N, 12), (3, 1), (4, 3))) == [0, 2, 1]
    assert stored_order(((_N, 13), (12, 1))) is None
    assert stored_order(((4, 0), (12, 1))) is None
    assert row_major((2, _N, 3)) == ((2, 3 * _N), (_N, 3), (3, 1))


def test_what_may_begin_in_another_piece_is_told_of_none() -> None:
    x = Memory("x", torch.float32)
    ends = View(((_N - 2, 1),), 2), View(((2, 1),), 0)
    turned = joined([(x, view) for view in ends], 0, str)
    # At a size of 2 alone these are the first two of x.
    first = View(((2, 1),), 0)
    part = turned.columns(first, str)
    assert part is not None and part.behind(first)[0] is turned
