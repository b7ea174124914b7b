"""The exactness classes that the prover finds, from what runtimes compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper

from fairhand.rewrites.language.exactness import Exactness
from fairhand.rewrites.language.operators.elementwise import (
    Abs,
    Add,
    BitShift,
    Clip,
    Equal,
    Exp,
    Log,
    Max,
    Mul,
    Neg,
    Reciprocal,
    Relu,
    Softplus,
    Sub,
    Where,
)
from fairhand.rewrites.language.operators.movement import Transpose
from fairhand.rewrites.language.operators.normalization import RMSNormalization
from fairhand.rewrites.language.operators.reduction import ReduceL2, ReduceSum, Softmax
from fairhand.rewrites.language.pattern import Term
from fairhand.rewrites.language.rule import Law
from fairhand.rewrites.proof.exactness_class import exactness
from fairhand.rewrites.proof.prove import answer

Sides = tuple[Term, Term]
CASES: list[tuple[Exactness, Callable[[Law], Sides]]] = []


def found_to_be(expected: Exactness) -> Callable[..., Callable[[Law], Sides]]:
    def register(build: Callable[[Law], Sides]) -> Callable[[Law], Sides]:
        CASES.append((expected, build))
        return build

    return register


def moved(function: Callable[[Term], Term]) -> Callable[[Law], Sides]:
    """function(x transposed) = function(x) transposed"""

    def build(law: Law) -> Sides:
        r = law.rank()
        x, p = law.tensor("x", r), law.perm("p", r)
        left = function(Transpose(x, perm=p))
        return left, Transpose(function(x), perm=p)

    return build


for _expected, _name, _function in (
    (Exactness.BITWISE, "moved_abs", Abs),
    (Exactness.ZERO_SIGN, "moved_relu", Relu),
    (Exactness.ORDER, "moved_log", Log),
    (Exactness.REAL, "moved_divisor_of_either_sign", lambda x: Reciprocal(Relu(x))),
):
    _build = moved(_function)
    _build.__name__ = _name
    CASES.append((_expected, _build))


def any_tensor(law: Law, kinds: str = "") -> Term:
    return law.tensor("x", law.rank(), kinds=kinds)


@found_to_be(Exactness.BITWISE)
def zeros_of_one_sign(law: Law) -> Sides:
    x = any_tensor(law)
    return Relu(Abs(x)), Abs(x)


@found_to_be(Exactness.BITWISE)
def one_zero_twice(law: Law) -> Sides:
    x = any_tensor(law)
    return Max(x, x), x


@found_to_be(Exactness.ZERO_SIGN)
def zeros_of_both_signs(law: Law) -> Sides:
    x = any_tensor(law)
    return Relu(Relu(x)), Relu(x)


@found_to_be(Exactness.FINITE)
def a_clip_without_bounds(law: Law) -> Sides:
    x = any_tensor(law)
    return Clip(x, None, None), x


@found_to_be(Exactness.REAL)
def a_composite_made(law: Law) -> Sides:
    x = any_tensor(law, "float")
    one = law.full("one", x.rank, 1)
    return Log(Add(Exp(x), one)), Softplus(x)


@found_to_be(Exactness.BITWISE)
def a_composite_left_alone(law: Law) -> Sides:
    x = any_tensor(law, "float")
    return Neg(Neg(Softplus(x))), Softplus(x)


@found_to_be(Exactness.REAL)
def a_composite_of_something_else(law: Law) -> Sides:
    r = law.rank(low=1)
    x, s = law.tensor("x", r, kinds="float"), law.operand("s", r)
    a, e = law.axis("a", r), law.real("e")
    law.require(s.rank <= r)
    one = law.full("one", r, 1)
    left = Mul(RMSNormalization(x, one, axis=a, epsilon=e), one)
    return left, RMSNormalization(Mul(x, one), one, axis=a, epsilon=e)


@found_to_be(Exactness.ORDER)
def a_row_in_another_place(law: Law) -> Sides:
    r = law.rank(low=1)
    x, a, p = law.tensor("x", r), law.axis("a", r), law.perm("p", r)
    left = Softmax(Transpose(x, perm=p), axis=a)
    return left, Transpose(Softmax(x, axis=p(a)), perm=p)


@found_to_be(Exactness.REAL)
def a_sum_of_something_else(law: Law) -> Sides:
    r = law.rank()
    x, axes = law.tensor("x", r), law.axes("axes", r)
    left = ReduceL2(Neg(x), axes=axes, keepdims=1)
    return left, ReduceL2(x, axes=axes, keepdims=1)


def sums(law: Law, kinds: str) -> Sides:
    r = law.rank()
    x, axes = law.tensor("x", r, kinds=kinds), law.axes("axes", r)
    left = ReduceSum(Sub(Add(x, x), x), axes=axes, keepdims=1)
    return left, ReduceSum(x, axes=axes, keepdims=1)


@found_to_be(Exactness.RING)
def sums_of_any_numbers(law: Law) -> Sides:
    return sums(law, "")


@found_to_be(Exactness.BITWISE)
def sums_of_whole_numbers(law: Law) -> Sides:
    return sums(law, "int")


@found_to_be(Exactness.BITWISE)
def shifts_of_whole_numbers(law: Law) -> Sides:
    r = law.rank()
    a, b, n = (law.operand(name, r, kinds="int") for name in "abn")
    by = dict(direction="LEFT")
    return Add(BitShift(a, n, **by), BitShift(b, n, **by)), BitShift(Add(a, b), n, **by)


@found_to_be(Exactness.BITWISE)
def a_whole_number_equal_to_itself(law: Law) -> Sides:
    x = any_tensor(law, "int")
    return Equal(x, x), Equal(Neg(x), Neg(x))


@found_to_be(Exactness.ZERO_SIGN)
def a_choice_of_the_same(law: Law) -> Sides:
    x = any_tensor(law)
    return Where(Equal(x, x), x, x), x


@pytest.mark.parametrize(
    ("expected", "build"), CASES, ids=[build.__name__ for _, build in CASES]
)
def test_the_class_of_a_law(expected: Exactness, build: Callable[[Law], Sides]) -> None:
    law = Law()
    law.rewrite(*build(law))
    answers, why = answer(law)
    assert answers, why
    assert exactness(law, answers) is expected


def test_a_clip_without_a_bound_makes_infinities_finite() -> None:
    """Which is why it isn't its formula at run time."""
    node = helper.make_node("Clip", ["x"], ["y"])
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"
    ]
    graph = helper.make_graph([node], "clip", values[:1], values[1:])
    opset = helper.make_opsetid("", 21)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    onnx.checker.check_model(model)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    infinite = np.array([np.inf, -np.inf], np.float32)
    (found,) = session.run(None, {"x": infinite})
    largest = np.finfo(np.float32).max
    assert found.tolist() == [largest, -largest]
