"""What is true of real numbers and false of integers isn't done to integers."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.rule_samples import run

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
LARGEST = np.iinfo(np.int64).max
X = np.array([[6, -7, 15], [1, 3, -20]])
# int64 graphs of x, whose results real arithmetic would change.
GRAPHS = {
    "a product of quotients": """(int64[2,3] x) => (int64[2,2] y)
        <int64[1] a = {4}, int64[3,2] w = {1, 2, 3, 4, 5, 6}>
        { q = Div(x, a)  y = MatMul(q, w) }""",
    "a half": """(int64[2,3] x) => (int64[2,3] y)
        <int64[1] two = {2}> { y = Div(x, two) }""",
    "quotients of a quotient": """(int64[2,3] x) => (int64[2,3] y)
        <int64[1] a = {3}, int64[1] b = {2}> { q = Mul(x, a)  y = Div(q, b) }""",
    "a quotient times its divisor": """(int64[2,3] x) => (int64[2,3] y)
        <int64[1] a = {4}> { q = Div(x, a)  y = Mul(q, a) }""",
    "a sum of quotients": """(int64[2,3] x) => (int64[2,3] y)
        <int64[1] a = {4}, int64[3] b = {1, 2, 3}>
        { p = Div(x, a)  q = Div(b, a)  y = Add(p, q) }""",
    "a mean of multiples": """(int64[2,3] x) => (int64[2,1] y)
        <int64[1] a = {5}, int64[1] axes = {1}>
        { m = Mul(x, a)  y = ReduceMean<keepdims=1>(m, axes) }""",
    "a sum of means": """(int64[2,3] x) => (int64[2,1] y)
        <int64[1] axes = {1}>
        { s = Abs(x)  p = ReduceMean<keepdims=1>(x, axes)
          q = ReduceMean<keepdims=1>(s, axes)  y = Add(p, q) }""",
    "a mean of the negated": """(int64[2,3] x) => (int64[2,1] y)
        <int64[1] axes = {1}> { n = Neg(x)  y = ReduceMean<keepdims=1>(n, axes) }""",
    "a largest of sums": f"""(int64[2,3] x) => (int64[2,1] y)
        <int64[1] a = {{{LARGEST - 6}}}, int64[1] axes = {{1}}>
        {{ s = Add(x, a)  y = ReduceMax<keepdims=1>(s, axes) }}""",
    "the larger of two sums": f"""(int64[2,3] x) => (int64[2,3] y)
        <int64[1] a = {{{LARGEST - 6}}}>
        {{ n = Abs(x)  p = Add(x, a)  q = Add(n, a)  y = Max(p, q) }}""",
}


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("graph", GRAPHS)
def test_integers_stay_what_they_are(graph: str, level: int) -> None:
    original = onnx.parser.parse_model(HEAD + GRAPHS[graph])
    model = load(original).model
    simplify(model, level=level)
    (before,), (after,) = (run(m, {"x": X}) for m in (original, ir.to_proto(model)))
    np.testing.assert_array_equal(after, before)
