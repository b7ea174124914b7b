"""Rows of movements become shorter ones that put each element where they did."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

HEAD = '<ir_version: 10, opset_import: ["": 20]> g'


def rewritten(text: str) -> tuple[onnx.ModelProto, onnx.ModelProto, list[str]]:
    """The network as it is written and as it becomes, and what is left of it."""
    before = onnx.parser.parse_model(f"{HEAD} {text}")
    model = load(before).model
    simplify(model)
    return before, ir.to_proto(model), [node.op_type for node in model.graph]


def assert_alike(before: onnx.ModelProto, after: onnx.ModelProto, *shape: int) -> None:
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    left, right = (
        ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (before, after)
    )
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_heads_that_are_put_together_and_taken_apart(batch: int) -> None:
    """As torch's exporter writes keys: of open sizes, by two ways at once."""
    steps = """
        n = Shape <start = 0, end = 1> (x) t = Shape <start = 2, end = 3> (x)
        all = Constant <value = int64[1] {-1}> ()
        eight = Constant <value = int64[1] {8}> ()
        four = Constant <value = int64[1] {4}> ()
        s = Concat <axis = 0> (all, t, eight) a = Reshape(x, s)
        b = Transpose <perm = [0, 2, 1]> (a)
        u = Concat <axis = 0> (n, four, eight, t) c = Reshape(b, u)
        d = Transpose <perm = [0, 1, 3, 2]> (c) y = Neg(d)"""
    before, after, left = rewritten(
        f"(float[n,4,t,8] x) => (float[n,4,t,8] y) {{ {steps} }}"
    )
    assert left == ["Neg"]
    assert_alike(before, after, batch, 4, 5, 8)


def test_heads_are_taken_apart_before_they_are_moved() -> None:
    """As keys are, so that attention finds view and permute above its operand."""
    steps = """
        s = Constant <value = int64[4] {1, 5, 4, 8}> () a = Reshape(x, s)
        b = Transpose <perm = [0, 2, 1, 3]> (a)
        t = Constant <value = int64[3] {4, 5, 8}> () c = Reshape(b, t)
        y = Transpose <perm = [0, 2, 1]> (c)"""
    before, after, left = rewritten(
        f"(float[1,5,32] x) => (float[4,8,5] y) {{ {steps} }}"
    )
    assert left == ["Reshape", "Transpose"]
    assert_alike(before, after, 1, 5, 32)


def test_axes_that_are_added_in_turn_are_added_at_once() -> None:
    """Also where two go on with the same ones, as the rows and columns of a mask."""
    before, after, left = rewritten("""
        (float[3] x) => (float[1,1,3,3] y)
        <int64[2] ahead = {0, 1}, int64[1] third = {2}, int64[1] last = {-1}> {
            a = Unsqueeze(x, ahead) r = Unsqueeze(a, last) c = Unsqueeze(a, third)
            y = Sub(c, r) }""")
    assert left == ["Unsqueeze", "Unsqueeze", "Sub"]
    assert_alike(before, after, 3)


def test_a_row_that_begins_with_what_was_just_made() -> None:
    """A head's batch goes through four movements behind an attention of three axes."""
    *_, left = rewritten("""
        (float[2,3,4,8] x, float[2,1,1,4] mask) => (float[2,4,24] y)
        <int64[3] six = {6, 4, 8}, int64[4] apart = {2, 3, 4, 4},
         int64[3] scores = {6, 4, 4}, int64[3] together = {4, 2, 24}> {
            a = Reshape(x, six) t = Transpose<perm = [0, 2, 1]>(a) p = MatMul(a, t)
            r = Reshape(p, apart) s = Add(r, mask) f = Reshape(s, scores)
            w = Softmax(f) o = MatMul(w, a) b = Transpose<perm = [1, 0, 2]>(o)
            c = Reshape(b, together) y = Transpose<perm = [1, 0, 2]>(c) }""")
    assert left == ["Attention", "Transpose", "Reshape"]


def test_what_is_mixed_stays() -> None:
    """Halves of an axis that are exchanged aren't the axis."""
    steps = """
        s = Constant <value = int64[3] {0, 2, 3}> () a = Reshape(x, s)
        b = Transpose <perm = [0, 2, 1]> (a)
        u = Constant <value = int64[2] {0, 6}> () y = Reshape(b, u)"""
    before, after, left = rewritten(f"(float[n,6] x) => (float[n,6] y) {{ {steps} }}")
    assert left == ["Reshape", "Transpose", "Reshape"]
    assert_alike(before, after, 4, 6)


# Rows of an operand [n, 1, 6], and what they come to.
ROWS = {
    "a = Transpose <perm=[2,0,1]> (x) b = Transpose <perm=[1,0,2]> (a)": "Transpose",
    "a = Transpose <perm=[1,2,0]> (x) b = Transpose <perm=[2,0,1]> (a)": "",
    "b = Transpose <perm=[0,1,2]> (x)": "",
    "a = Unsqueeze(x, one) b = Unsqueeze(a, three)": "Unsqueeze",
    "a = Unsqueeze(x, one) b = Squeeze(a, one)": "",
    "a = Squeeze(x, one) b = Unsqueeze(a, one)": "",
    "a = Squeeze(x, one) b = Unsqueeze(a, zero)": "Reshape",
    "a = Unsqueeze(x, zero) b = Squeeze(a, two)": "Reshape",
    "a = Transpose <perm=[0,2,1]> (x) b = Squeeze(a, two)": "Squeeze",
    "a = Transpose <perm=[2,1,0]> (x) b = Squeeze(a, one)": "Transpose Squeeze",
    "a = Unsqueeze(x, zero) b = Transpose <perm=[1,2,0,3]> (a)": "Unsqueeze",
    "a = Squeeze(x, one) c = Transpose <perm=[1,0]> (a) b = Unsqueeze(c, one)": (
        "Transpose"
    ),
    "a = Reshape(x, flat) b = Reshape(a, pairs)": "Reshape",
    "a = Transpose <perm=[1,0,2]> (x) b = Reshape(a, pairs)": "Reshape",
    "a = Reshape(x, pairs) c = Unsqueeze(a, zero) b = Transpose <perm=[1,0,2]> (c)": (
        "Reshape"
    ),
    "b = Reshape(x, same)": "",
    "a = Flatten <axis=2> (x) b = Flatten <axis=1> (a)": "Flatten",
}


@pytest.mark.parametrize("steps", ROWS)
def test_rows_of_two_are_one_or_none(steps: str) -> None:
    """Whatever they are spelled with, and where no size tells what an axis holds."""
    sizes = "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2},"
    sizes += " int64[1] three = {3}, int64[1] flat = {-1}, int64[2] pairs = {4, -1},"
    sizes += " int64[3] same = {0, 1, 6}>"
    rank = 2 if "Flatten" in steps or "pairs" in steps else 3
    rank += steps.count("Unsqueeze") - steps.count("Squeeze(")
    rank = {"c = Uns": 3}.get(steps[24:31], rank)
    shape = ",".join("abcdefgh"[:rank])
    text = f"(float[n,1,6] x) => (float[{shape}] y) {sizes} {{ {steps} y = Neg(b) }}"
    before, after, left = rewritten(text)
    assert " ".join(op for op in left if op != "Neg") == ROWS[steps]
    for batch in (2, 4):
        assert_alike(before, after, batch, 1, 6)


def test_a_row_that_does_nothing_goes_where_its_middle_is_read() -> None:
    steps = """
        a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a)
        c = Neg(b) d = Transpose <perm = [1, 0]> (c) y = Sub(a, d)"""
    before, after, left = rewritten(f"(float[n,6] x) => (float[6,n] y) {{ {steps} }}")
    assert left.count("Transpose") == 1
    assert_alike(before, after, 4, 6)


def drawn(of: Random, most: int) -> tuple[str, int]:
    """Movements in a row of an operand [n, 4, 6], and how many."""
    axes = [["n"], [2, 2], [3, 2]]
    steps, x, count = [], "x", 0
    for k in range(of.randint(2, most)):
        y = f"v{k}"
        if of.random() < 0.5:
            perm = list(range(len(axes)))
            of.shuffle(perm)
            axes = [axes[p] for p in perm]
            steps.append(f"{y} = Transpose <perm = {perm}> ({x})")
        else:
            flat = [factor for axis in axes for factor in axis]
            axes = [[]]
            for factor in flat:
                if axes[-1] and of.random() < 0.5:
                    axes.append([])
                axes[-1].append(factor)
            if of.random() < 0.3:
                axes.insert(of.randint(0, len(axes)), [])
            sizes = [-1 if "n" in axis else math.prod(axis) for axis in axes]
            steps.append(
                f"s{k} = Constant <value = int64[{len(sizes)}] "
                f"{{{', '.join(map(str, sizes))}}}> () {y} = Reshape({x}, s{k})"
            )
        x, count = y, count + 1
    rank = ",".join("abcdefgh"[: len(axes)])
    body = " ".join([*steps, f"y = Neg({x})"])
    return f"(float[n,4,6] x) => (float[{rank}] y) {{ {body} }}", count


@pytest.mark.parametrize("seed", range(40))
def test_drawn_rows_move_the_same(seed: int) -> None:
    text, count = drawn(Random(seed), 8)
    before, after, left = rewritten(text)
    assert len(left) <= min(count, 5) + 1  # six are three at most
    for batch in (0, 1, 5):
        assert_alike(before, after, batch, 4, 6)


def test_what_is_asked_only_for_its_sizes_is_not_needed() -> None:
    """As Keras stacks recurrent layers: the next one reads its batch off the first."""
    before, after, left = rewritten("""
        (float[t, n, 4] x) => (float[t, n, 4] y, int64[3] sizes) {
            a = Transpose <perm = [1, 0, 2]> (x) sizes = Shape(a)
            b = Transpose <perm = [1, 0, 2]> (a) y = Neg(b) }""")
    assert left.count("Transpose") <= 1 and left[-1] == "Neg"
    assert_alike(before, after, 2, 3, 4)
