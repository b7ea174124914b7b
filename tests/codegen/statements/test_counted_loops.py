"""Loops as TensorFlow's exporter writes them: they go on while a state counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from support.emitter_models import Emitted
from support.parsed_models import check, floats, parse

Emit = Callable[[onnx.ModelProto], Emitted]
BODY = """step
  (int64 k, bool on, int32 at, int32 many, float[n, 2] rows, float[2] sum)
  => (bool more, int32 next, int32 many, float[n, 2] rows, float[2] new, float[2] y) {
    one = Constant <value = int32 {1}> ()
    next = Add(at, one) row = Gather(rows, at) new = Add(sum, row)
    place = Cast <to = 1> (next) y = Mul(new, place)
    a = Cast <to = 1> (next) b = Cast <to = 1> (many) c = Cast <to = 1> (k)
    more = Less(a, b) }"""


def sums(count: str, body: str = BODY, go: str = "Less(none, limit)") -> str:
    """The running sums of `count` rows of x."""
    return f"""g (float[n, 2] x, int32 given) => (float[2] last, float[k, 2] ys)
    <int32 zero = {{0}}, float none = {{0}},
     float[2] h = {{0, 0}}, bool yes = {{1}}> {{
      {count}
      limit = Cast <to = 1> (count) go = {go}
      i, m, w, last, ys = Loop(, go, zero, count, x, h) <body = {body}> }}"""


def same(text: str, head: str, emitted: Emit, *counts: int) -> str:
    model = parse(text)
    found = emitted(model)
    for rows, given in itertools.product((3, 5), counts):
        feed = {"x": floats(rows, 2), "given": np.array(given, np.int32)}
        check(model, found, feed)
    assert any(head in line for line in found.body()), found.body()
    return found.text


@pytest.mark.parametrize(
    ("count", "head"),
    [
        ("count = Identity(given)", "for i in range(int(given"),
        ("count = Constant <value = int32 {3}> ()", "for i in range(3):"),
        ("all = Shape <end = 1> (x) long = Squeeze(all) count = Cast <to = 6> (long)",
         "for i in range(x.shape[0]):"),
    ],
)  # fmt: skip
def test_it_counts(count: str, head: str, emitted: Emit) -> None:
    assert "while" not in same(sums(count), head, emitted, 2)


@pytest.mark.parametrize(
    "more",
    ["Less(b, a)", "LessOrEqual(a, b)", "Less(a, a)", "Less(c, b)", "Less(a, c)"],
)
def test_it_goes_on_for_another_reason(more: str, emitted: Emit) -> None:
    body = BODY.replace("Less(a, b)", more)
    same(sums("count = Identity(given)", body), "while ", emitted, 0, 1, 2)


def test_it_begins_for_another_reason(emitted: Emit) -> None:
    """Its first iteration runs whatever the bound is."""
    same(
        sums("count = Identity(given)", go="Identity(yes)"),
        "while ",
        emitted,
        -1,
        0,
        1,
        2,
    )


def test_a_number_that_a_cast_changes_is_no_bound(emitted: Emit) -> None:
    """258 is 2 in eight bits."""
    body = BODY.replace("a = Cast <to = 1>", "a = Cast <to = 3>")
    text = sums(
        "count = Identity(given)",
        body.replace("b = Cast <to = 1>", "b = Cast <to = 3>"),
    )
    text = text.replace("limit = Cast <to = 1>", "limit = Cast <to = 3>")
    same(text.replace("float none", "int8 none"), "while ", emitted, 1, 258)


def test_a_count_in_halves_ends_where_it_can_no_more_be_told(emitted: Emit) -> None:
    """2049 is 2048 there."""
    model = parse("""g (int64 n, float[3] x) => (float[3] y)
        <int64 zero = {0}, int64 one = {1}> {
          z = Cast <to = 10> (zero) w = Cast <to = 10> (one) m = Cast <to = 10> (n)
          go = Less(z, m)
          i, y = Loop(, go, z, x) <body = step
            (int64 k, bool on, float16 at, float[3] a)
            => (bool more, float16 next, float[3] b) {
              next = Add(at, w) c = Constant <value = float {1}> () b = Add(a, c)
              more = Less(next, m) }> }""")
    check(model, emitted(model), {"n": np.array(2049), "x": floats(3)})
