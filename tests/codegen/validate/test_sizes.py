"""Sizes in one way of writing: the same numbers, and one text for equal ones."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Max, Min, Mod

import fairhand
from fairhand.codegen.validate.sizes import in_words, less, normal

_N = sympy.Symbol("n", integer=True, positive=True)
_M = sympy.Symbol("m", integer=True, positive=True)
_DATA = sympy.Symbol("u", integer=True)
_KEPT = _N - Max(0, _N - 3)  # of n, what a window of three holds


def drawn(draw: random.Random, depth: int) -> sympy.Expr:
    if not depth or draw.random() < 0.2:
        return draw.choice([_N, _M, _N, sympy.Integer(draw.randint(-4, 9))])
    a, b = drawn(draw, depth - 1), drawn(draw, depth - 1)
    kinds = (Max, Min, sympy.Add, lambda x, y: x - y, lambda x, y: 2 * x + y)
    if draw.random() < 0.2:
        return FloorDiv(a, sympy.Integer(draw.randint(2, 5)))
    return draw.choice([*kinds, sympy.Mul])(a, b)


def test_what_is_said_of_sizes_is_true_of_numbers() -> None:
    draw, said = random.Random(0), 0
    for _ in range(150):
        one, other = drawn(draw, 3), drawn(draw, 3)
        same, below = normal(one), less(one, other)
        said += below
        for n in (2, 3, 4, 7, 11):
            for m in (2, 3, 5, 12):
                at = {_N: n, _M: m}
                assert one.subs(at) == same.subs(at), (one, same)
                assert not below or one.subs(at) < other.subs(at), (one, other)
    assert said > 15


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Max(0, _N), _N),
        (Max(0, _KEPT), Min(_N, 3)),
        (Max(0, _KEPT - Max(0, _KEPT - 2) + 1), sympy.Integer(3)),
        (_N - Min(_N, _M), Max(0, _N - _M)),
        (FloorDiv(_N - 1, 8) + 1, FloorDiv(_N + 7, 8)),
        (Max(1, FloorDiv(_N + 7, 8) * _M), FloorDiv(_N + 7, 8) * _M),
        (Max(0, FloorDiv(_N * _M, _M + 1)), FloorDiv(_N * _M, _M + 1)),
    ],
    ids=str,
)
def test_equal_sizes_are_written_alike(one: sympy.Expr, other: sympy.Expr) -> None:
    assert normal(one) == normal(other)


def test_what_data_decide_may_be_any_number() -> None:
    assert not less(-1, _DATA)
    assert normal(Max(0, _DATA)) != _DATA
    assert less(-1, Max(0, _DATA))


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (sympy.Eq(Mod(96 * _N * _M, 672), 0), "m*n is a multiple of 7"),
        (sympy.Ne(Mod(2 * _N + 4, 6), 0), "n + 2 is no multiple of 3"),
        (sympy.Ne(336 * FloorDiv(_N * _M, 7), 0), "m*n >= 7"),
        (sympy.Eq(FloorDiv(_N, 7), 2), "(n//7) = 2"),
        (_N * 2 <= _M, "2*n <= m"),
    ],
)
def test_conditions_in_words(condition: sympy.Basic, words: str) -> None:
    assert in_words(condition) == words


FRAMES = """
    <ir_version: 8, opset_import: ["" : 17]>
    frames (float[batch, 1, samples] x) => (float[steps, batch, 3] y) {
        c = Conv <strides = [4]> (x, w)
        s = Squeeze (c, last)
        t = Softmax <axis = 1> (s)
        u = Unsqueeze (t, first)
        d, y, z = LSTM <hidden_size = 3> (u, i, r)
    }"""


def test_an_open_size_that_has_to_be_one_is_one(tmp_path: Path) -> None:
    """Of a sound of 8 to 11 samples one frame is left, whose axis goes."""
    model, draw = onnx.parser.parse_model(FRAMES), np.random.default_rng(0)
    for name, shape in {"w": (4, 1, 8), "i": (1, 12, 4), "r": (1, 12, 3)}.items():
        array = draw.standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    for name, axis in {"first": 0, "last": -1}.items():
        array = np.array([axis], np.int64)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    emission = fairhand.compile(model, tmp_path / "net", cache=False).report["emission"]
    assert emission["validated"] and emission["sizes"] == "all", emission
    assert "((samples//4)) - 1 = 1" in emission["where"]
