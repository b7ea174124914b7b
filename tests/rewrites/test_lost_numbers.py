"""Constants become one only where a float of their type holds what they come to."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper
from support.rule_samples import run

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

HEAD = '<ir_version: 10, opset_import: ["": 20]> g'
ONNX = {"float32": "float", "float64": "double", "float16": "float16"}
MAGIC = 12582912.0  # 1.5 * 2**23: x + MAGIC - MAGIC is x rounded


def rewritten(
    dtype: str, steps: str, **constants: float
) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    kind = ONNX[dtype]
    text = f"{HEAD} ({kind}[3] x) => ({kind}[3] y) {{ {steps} }}"
    before = onnx.parser.parse_model(text)
    for name, number in constants.items():
        stored = np.full((1,), number, dtype)
        before.graph.initializer.append(numpy_helper.from_array(stored, name))
    model = load(before).model
    simplify(model)
    return before, ir.to_proto(model)


@pytest.mark.parametrize(
    ("dtype", "steps", "c", "d", "x"),
    [
        ("float32", "a = Mul(x, c) y = Mul(a, d)", 1e30, 1e30, 1e-30),
        ("float32", "a = Div(x, c) y = Mul(a, d)", 1e-30, 1e30, 1e-30),
        ("float32", "a = Mul(x, c) y = Div(a, d)", 1e-30, 1e30, 1e30),
        ("float64", "a = Mul(x, c) y = Mul(a, d)", 1e300, 1e300, 1e-300),
        ("float16", "a = Mul(x, c) y = Mul(a, d)", 1e3, 1e3, 6e-4),
        ("float16", "a = Mul(x, c) y = Mul(a, d)", 1e-4, 1e-4, 6e4),
        ("float16", "a = Add(x, c) y = Add(a, d)", 4e4, 4e4, -6e4),
        ("float32", "a = Add(x, c) y = Sub(a, d)", MAGIC, MAGIC, 0.3),
        ("float32", "a = Sub(x, c) y = Add(a, d)", MAGIC, MAGIC, 1.7),
        ("float16", "a = Add(x, c) y = Add(a, d)", 1536.0, -1536.0, 0.3),
    ],
)
def test_what_a_float_does_not_hold_is_computed_in_steps(
    dtype: str, steps: str, c: float, d: float, x: float
) -> None:
    before, after = rewritten(dtype, steps, c=c, d=d)
    given = {"x": np.array([x, x / 2, 0], dtype)}
    np.testing.assert_array_equal(run(after, given)[0], run(before, given)[0])


@pytest.mark.parametrize(
    ("dtype", "steps", "c", "d"),
    [
        ("float32", "a = Mul(x, c) y = Mul(a, d)", 3.0, 0.5),
        ("float32", "a = Add(x, c) y = Sub(a, d)", 1.0, 3.0),
        ("float32", "a = Add(x, c) y = Sub(a, d)", MAGIC, 1.0),
        ("float16", "a = Add(x, c) y = Add(a, d)", 4e4, -2e4),
    ],
)
def test_others_become_one(dtype: str, steps: str, c: float, d: float) -> None:
    assert len(rewritten(dtype, steps, c=c, d=d)[1].graph.node) == 1


def test_a_scale_that_a_matrix_cannot_take_in_stays() -> None:
    """What the matrix has is looked at through the movements that spread a scale."""
    weight = np.full((3, 3), 1e20, np.float32)
    steps = "a = MatMul(x, w) y = Mul(a, c)"
    text = f"{HEAD} (float[2,3] x) => (float[2,3] y) {{ {steps} }}"
    before = onnx.parser.parse_model(text)
    for name, array in {"w": weight, "c": np.array(1e20, np.float32)}.items():
        before.graph.initializer.append(numpy_helper.from_array(array, name))
    model = load(before).model
    simplify(model)
    given = {"x": np.full((2, 3), 1e-20, np.float32)}
    left, right = (run(m, given)[0] for m in (before, ir.to_proto(model)))
    np.testing.assert_allclose(left, right)


def test_constants_of_many_steps_are_followed() -> None:
    scaled = "a0 = Mul(x, c) b0 = Add(a0, d) " + " ".join(
        f"a{i + 1} = Mul(b{i}, c) b{i + 1} = Add(a{i + 1}, d)" for i in range(29)
    )
    steps = f"{scaled} y = Identity(b29)"
    _, after = rewritten("float32", steps, c=1e-2, d=1.0)  # 1e-60 is none of them
    stored = [numpy_helper.to_array(each) for each in after.graph.initializer]
    assert 1 < len(after.graph.node) < 30
    assert all(np.all(array != 0) for array in stored)
