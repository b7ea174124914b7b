"""Functions are recognised by what they compute: any spelling, and no near miss."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from support.equivalent_spellings import (
    FAMILIES,
    FUNCTIONS,
    NORMS,
    WIDTH,
    Tree,
    drawn,
    model_of,
    spoiled,
)

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.recognition.algebra import ONE, Algebra, Quotient
from fairhand.rewrites.recognition.cast_chains import is_one_cast
from fairhand.rewrites.recognition.denotation import MEANINGS, Step, Term, computed
from fairhand.rewrites.recognition.scalar_functions import FUNCTIONS as KNOWN
from fairhand.rewrites.recognition.scalar_functions import scalar_function
from fairhand.rewrites.simplify import simplify

MEANT = {**FUNCTIONS, **NORMS}


def left_of(tree: Tree) -> tuple[list[str], ir.Model]:
    """The operators that simplify leaves of a spelling."""
    model = load(model_of(tree)).model
    simplify(model)
    return [node.op_type for node in model.graph], model


def recognised(name: str, family: str, count: int) -> int:
    tree, operator = MEANT[name]
    random = Random(f"{name} {family}")
    trees = [drawn(tree, family, random) for _ in range(count)]
    return sum(left_of(t)[0] == [operator] for t in trees)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", MEANT)
def test_a_few_spellings(name: str, family: str) -> None:
    assert recognised(name, family, 3) == 3


@pytest.mark.slow
@pytest.mark.parametrize("family", [*FAMILIES, "both"])
@pytest.mark.parametrize("name", MEANT)
def test_nearly_all_spellings(name: str, family: str) -> None:
    assert recognised(name, family, 300) >= 285


@pytest.mark.parametrize("name", MEANT)
def test_what_is_left_computes_the_same(name: str) -> None:
    random = Random(name)
    x = np.random.default_rng(0).normal(0, 3, (2, 3, WIDTH)).astype(np.float32)
    for tree in (MEANT[name][0], spoiled(MEANT[name][0], random)):
        if tree is None:
            continue
        before = model_of(drawn(tree, "both", random))
        model = load(before).model
        simplify(model)
        after = ir.to_proto(model)
        expected, found = (
            ReferenceEvaluator(m).run(None, {"x": x})[0] for m in (before, after)
        )
        # Wrong in the fourth digit of one number is 3e-4 off; rounding is much less.
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


EXACT = ("gelu", "gelu_tanh", "hard_swish", "relu6")


@pytest.mark.parametrize("name", EXACT)
def test_a_near_miss_is_refused(name: str) -> None:
    tree, operator = FUNCTIONS[name]
    random = Random(name)
    for _ in range(10):
        near = spoiled(tree, random)
        if near is not None:
            assert left_of(drawn(near, "shown", random))[0] != [operator]


def test_numbers_are_right_to_their_last_places() -> None:
    def gelu(slope: float) -> Term:
        steps = (
            Step("Mul", {}, (0, slope)),
            Step("Erf", {}, (1,)),
            Step("Add", {}, (2, 1.0)),
            Step("Mul", {}, (0, 3)),
            Step("Mul", {}, (4, 0.5)),
        )
        return Term(steps)

    rounded = 0.70710678
    assert scalar_function(gelu(rounded), 24) is not None
    assert scalar_function(gelu(rounded), 53) is None
    assert scalar_function(gelu(math.sqrt(0.5)), 53) is not None
    assert scalar_function(gelu(rounded * (1 + 1e-5)), 24) is None


def test_a_place_is_told_from_a_number() -> None:
    def over(addend: float | int) -> Term:
        exp = Step("Neg", {}, (0,)), Step("Exp", {}, (1,))
        return Term((*exp, Step("Add", {}, (2, addend)), Step("Div", {}, (1.0, 3))))

    assert over(1.0) != over(1) and over(0.0) != over(-0.0)
    assert scalar_function(over(1.0), 24) is not None
    assert scalar_function(over(1), 24) is None  # 1 / (exp(-x) - x)


# ---- the meanings are those of ONNX

PARAMETERS = {
    "Gelu": {"approximate": "tanh"},
    "Swish": {"alpha": 1.5},
    "LeakyRelu": {"alpha": 0.2},
    "Elu": {"alpha": 1.5},
    "Celu": {"alpha": 1.5},
    "Selu": {"alpha": 1.5, "gamma": 1.25},
    "ThresholdedRelu": {"alpha": 0.5},
    "HardSigmoid": {"alpha": 0.25, "beta": 0.625},
}


@pytest.mark.parametrize("operator", sorted({f.operator for f in KNOWN} - {"Clip"}))
def test_meanings_are_those_of_onnx(operator: str) -> None:
    points = np.linspace(-6, 6, 49)
    parameters = PARAMETERS.get(operator, {})
    node = helper.make_node(operator, ["x"], ["y"], **parameters)
    values = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, [49]) for name in "xy"
    ]
    graph = helper.make_graph([node], operator, values[:1], values[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    onnx.checker.check_model(model)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": points})
    found = computed(Term((Step(operator, parameters, (0,)),)), points)
    assert operator in MEANINGS and found is not None
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("operator", ["Max", "Min"])
def test_an_operator_of_many_may_have_one_operand(operator: str) -> None:
    term = Term((Step(operator, {}, (0, None)), Step("Neg", {}, (1,))))
    found = computed(term, np.array([-2.0, 3.0]))
    assert found is not None and found.tolist() == [2.0, -3.0]


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Exp(x) z = Log(a)",
        "a = Relu(x) b = Neg(x) c = Relu(b) z = Sub(a, c)",
        "a = Abs(x) b = Sign(x) z = Mul(a, b)",
    ],
)
def test_what_changes_nothing_goes(nodes: str) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 23]>
        g (float[n] x) => (float[n] y) {{ {nodes} y = Erf(z) }}""")
    simplified = load(model).model
    simplify(simplified)
    assert [node.op_type for node in simplified.graph] == ["Erf"]


def test_a_file_cannot_make_the_algebra_run_on() -> None:
    steps = [Step("Exp", {}, (0,)), Step("Add", {}, (1, 0))]
    for k in range(2, 20):
        steps.append(Step("Mul", {}, (k, k)))
        steps.append(Step("Add", {}, (len(steps), 0)))
    assert scalar_function(Term(tuple(steps)), 24) is None


def test_a_root_squared_is_what_is_under_it() -> None:
    algebra = Algebra(40)
    x = algebra.single(algebra.atom("x"))
    inside = algebra.add(algebra.mul(x, x), algebra.constant(3.0))
    root = algebra.sqrt(inside)
    assert algebra.same(algebra.mul(root, root), inside)
    one = Quotient({ONE: 1.0}, {ONE: 1.0})
    assert algebra.same(algebra.div(root, inside), algebra.div(one, root))


@pytest.mark.parametrize(
    ("types", "one"),
    [
        ("FLOAT16 FLOAT BOOL", True),
        ("INT32 INT64 FLOAT", True),
        ("INT32 DOUBLE INT32", True),
        ("UINT8 FLOAT INT32", True),
        ("BFLOAT16 FLOAT BFLOAT16", True),
        ("FLOAT16 FLOAT INT32", False),  # of infinity
        ("INT32 FLOAT INT32", False),
        ("INT64 INT32 BOOL", False),
        ("FLOAT BOOL FLOAT", False),
        ("INT8 UINT8 INT32", False),
        ("DOUBLE FLOAT FLOAT16", False),
        ("BFLOAT16 FLOAT16 FLOAT", False),
        ("INT64 FLOAT16 DOUBLE", False),
    ],
)
def test_casts_that_are_one(types: str, one: bool) -> None:
    assert is_one_cast(*types.split()) == one


@pytest.mark.parametrize(
    ("number", "left"),
    [("0", ["Not"]), ("1", []), ("2", ["Cast", "Equal"]), ("0, 0", ["Cast", "Equal"])],
)
def test_a_truth_that_is_asked_for_its_number(number: str, left: list[str]) -> None:
    """TorchScript's mask == 0; numbers in a row may enlarge the mask."""
    size = number.count(",") + 1
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 20]>
        g (bool[n, 1] mask, bool[n, {size}] other) => (bool[n, {size}] y)
            <int64[{size}] asked = {{{number}}}> {{
            whole = Cast<to = 7>(mask)
            equal = Equal(whole, asked)
            y = And(equal, other) }}""")
    simplified = ir.from_proto(model)
    simplify(simplified)
    assert [n.op_type for n in simplified.graph] == [*left, "And"]


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("bias", ["zeros", "drawn"])
def test_a_layer_keeps_its_own_bias(bias: str, level: int) -> None:
    """A bias that nobody has trained is 0, and a table of positions added further on
    is as constant as the bias is: neither takes it from its layer at -O1."""
    random = np.random.default_rng(0)
    zeros = np.zeros(8, np.float32)
    weights = {
        "fc.weight": random.normal(size=(8, 8)).astype(np.float32),
        "fc.bias": (
            random.normal(size=8).astype(np.float32) if bias == "drawn" else zeros
        ),
        "out.weight": random.normal(size=(8, 8)).astype(np.float32),
        "out.bias": (
            random.normal(size=8).astype(np.float32) if bias == "drawn" else zeros
        ),
        "positions": random.normal(size=(4, 8)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["a"]),
        helper.make_node("Add", ["a", "fc.bias"], ["b"]),
        helper.make_node("Gelu", ["b"], ["c"]),
        helper.make_node("MatMul", ["c", "out.weight"], ["d"]),
        helper.make_node("Add", ["d", "out.bias"], ["e"]),
        helper.make_node("Add", ["e", "x"], ["f"]),
        helper.make_node("Add", ["f", "positions"], ["y"]),
    ]
    typed = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4, 8])
        for name in "xy"
    ]
    stored = [onnx.numpy_helper.from_array(w, name) for name, w in weights.items()]
    graph = helper.make_graph(nodes, "g", typed[:1], typed[1:], stored)
    opset = [helper.make_opsetid("", 20)]
    model = load(helper.make_model(graph, opset_imports=opset, ir_version=10)).model
    simplify(model, level=level)
    left = {name for name, v in model.graph.initializers.items() if v.uses()}
    assert {"fc.bias", "out.bias"} <= left or level == 2


@pytest.mark.parametrize(
    ("above", "dtype", "left"),
    [
        (20.0, "float", ["Softplus"]),
        (5.0, "float", ["Softplus", "Greater", "Where"]),
        (20.0, "double", ["Softplus", "Greater", "Where"]),
    ],
)
def test_softplus_is_its_operand_from_where_no_place_is_left(
    above: float, dtype: str, left: list[str]
) -> None:
    """As PyTorch computes it: above 20, log(1 + exp(x)) is no other float than x."""
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        g ({dtype}[2,3] x) => ({dtype}[2,3] y) <{dtype} k = {{{above}}}>
        {{ soft = Softplus(x) far = Greater(x, k) y = Where(far, x, soft) }}""")
    found = load(model).model
    simplify(found)
    assert [node.op_type for node in found.graph] == left
