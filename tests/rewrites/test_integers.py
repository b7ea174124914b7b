"""What is true of real numbers and false of integers isn't done to integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.rule_samples import run

from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.engine.build import Builder
from fairhand.rewrites.engine.match import Matcher
from fairhand.rewrites.language.facts import Facts
from fairhand.rewrites.language.operators.elementwise import (
    Abs,
    Add,
    Cast,
    Equal,
    Mul,
    Neg,
    Sub,
    Where,
)
from fairhand.rewrites.language.operators.read_write import CannotWrite, NewConstant
from fairhand.rewrites.language.rule import Law, Rule, rule
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


@rule("own")
def negated_before_the_cast(law: Law) -> None:
    """Cast(Neg(x)) = Neg(Cast(x)), modulo 256, and no Neg takes bytes."""
    x = law.tensor("x", law.rank(), kinds="int")
    types = {"source": "INT32", "to": "UINT8"}
    law.rewrite(Cast(Neg(x), **types), Neg(Cast(x, **types)))


@rule("own")
def tripled_beside_places(law: Law) -> None:
    """A number beside floats, where the first operand is one of whole numbers."""
    r = law.rank()
    i, x = law.tensor("i", r, kinds="int"), law.tensor("x", r, kinds="float")
    number = law.number(3, kinds="" if law.mutant("of places") else "float")
    law.rewrite(Where(Equal(i, i), Add(x, x), x), Where(Equal(i, i), Mul(x, number), x))


@rule("own")
def one_more_short_number(law: Law) -> None:
    """A new whole number is of the type of those beside it."""
    x = law.tensor("x", law.rank(), kinds="int")
    law.rewrite(Neg(Abs(x)), Sub(law.number(0, kinds="int"), Abs(x)))


@rule("own")
def compared_as_bytes(law: Law) -> None:
    """Of bytes alone: other numbers would lose the bits above."""
    x = law.tensor("x", law.rank(), kinds="int")
    byte = Cast(x, source="INT8", to="INT8")
    law.rewrite(Neg(Abs(Abs(Abs(x)))), Neg(Abs(byte)))


@rule("own")
def halved_and_back(law: Law) -> None:
    """Of halves alone: other floats would be rounded."""
    x = law.tensor("x", law.rank(), kinds="float")
    wide = Cast(x, source="FLOAT16", to="FLOAT")
    half = Cast(wide, source="FLOAT", to="FLOAT16")
    law.rewrite(Neg(Abs(Abs(Abs(Abs(x))))), Neg(Abs(half)))


TRIPLED = """(int32[n] i, float[n] x) => (float[n] y)
    { c = Equal(i, i) s = Add(x, x) y = Where(c, s, x) }"""
TYPED = {
    "one operator": (
        negated_before_the_cast,
        "(int32[n] x) => (uint8[n] y) { a = Neg(x) y = Cast<to=2>(a) }",
        "Neg takes no UINT8",
    ),
    "two operands": (
        tripled_beside_places.mutated("of places"),
        TRIPLED,
        "Mul takes no INT32 beside FLOAT",
    ),
    "a cast of another type": (
        compared_as_bytes,
        "(int32[n] x) => (int32[n] y) { a = Abs(x) b = Abs(a) c = Abs(b) y = Neg(c) }",
        "an operand is no INT8",
    ),
    "a cast there and back of another type": (
        halved_and_back,
        """(float[n] x) => (float[n] y)
        { a = Abs(x) b = Abs(a) c = Abs(b) d = Abs(c) y = Neg(d) }""",
        "an operand is no FLOAT16",
    ),
    "a number of its kind": (tripled_beside_places, TRIPLED, ir.DataType.FLOAT),
    "a short number": (
        one_more_short_number,
        "(int16[n] x) => (int16[n] y) { a = Abs(x) y = Neg(a) }",
        ir.DataType.INT16,
    ),
}


@pytest.mark.parametrize("case", TYPED)
def test_a_right_side_is_written_of_types_that_go_together(case: str) -> None:
    law, graph, wanted = TYPED[case]
    model = ir.from_proto(onnx.parser.parse_model(HEAD + graph))
    own = law if isinstance(law, Rule) else replace(tripled_beside_places, law=law)
    match = Matcher(own, Facts(infer(model))).at(model.graph[-1])
    assert match is not None
    builder = Builder(match)
    if isinstance(wanted, str):
        with pytest.raises(CannotWrite, match=wanted):
            builder.results()
        return
    builder.results()
    given = (x for draft in builder.drafts for x in draft.inputs)
    (number,) = (x for x in given if isinstance(x, NewConstant))
    assert number.array.dtype == wanted.numpy()
