"""Weights that have heads, as Keras' EinsumDense and Flax' DenseGeneral store them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.rule_samples import run

from fairhand.codegen.load.read_model import load
from fairhand.rewrites.simplify import simplify

SIZES = dict(a=2, b=3, c=4, d=5, e=6)
HEAD = '<ir_version: 9, opset_import: ["": 20]> g'


def rewritten(original: onnx.ModelProto) -> list[str]:
    """The operators that -O1 leaves; they compute the same."""
    model = load(original).model
    simplify(model)
    shape = [d.dim_value for d in original.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    (before,), (after,) = (run(m, {"x": x}) for m in (original, ir.to_proto(model)))
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    return [node.op_type for node in model.graph]


def with_weights(text: str, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    model = onnx.parser.parse_model(text)
    for name, shape in shapes.items():
        values = np.random.default_rng(len(name)).normal(size=shape).astype(np.float32)
        tensor = onnx.numpy_helper.from_array(values, name)
        model.graph.initializer.append(tensor)
    return model


@pytest.mark.parametrize(
    ("equation", "ops"),
    [
        ("abc,cde->abde", ["MatMul", "Reshape"]),
        ("abcd,cde->abe", ["Reshape", "MatMul"]),
        ("...c,cde->...de", ["MatMul", "Reshape"]),
        ("abc,dec->abde", ["MatMul", "Reshape"]),
        ("cde,abc->abde", ["MatMul", "Reshape"]),
        ("abcd,ecd->abe", ["Reshape", "MatMul"]),
        ("abc,dce->abde", ["Einsum"]),  # heads and features stand apart
        ("abc,cde->abed", ["Einsum"]),
        ("abdc,cde->abe", ["Einsum"]),
    ],
)
def test_heads_of_a_weight_are_one_axis(equation: str, ops: list[str]) -> None:
    whole = equation.replace("...", "ab")
    one, other, made = whole.replace("->", ",").split(",")
    x, w = (one, other) if "a" in one else (other, one)
    sizes = {"x": x, "w": w, "y": made}
    dims = {k: tuple(SIZES[c] for c in letters) for k, letters in sizes.items()}
    operands = "x, w" if x == one else "w, x"
    given, result = (", ".join(map(str, dims[k])) for k in "xy")
    model = with_weights(
        f"""{HEAD} (float[{given}] x) => (float[{result}] y)
        {{ y = Einsum<equation = "{equation}">({operands}) }}""",
        w=dims["w"],
    )
    assert rewritten(model) == ops


@pytest.mark.parametrize(
    ("bias", "heads", "ops"),
    [
        ((5, 6), "2, 3, 5, 6", ["MatMul", "Add", "Reshape"]),
        ((1, 1, 5, 6), "2, 3, 5, 6", ["MatMul", "Add", "Reshape"]),
        ((5, 2, 3), "2, 3, 5, 2, 3", ["MatMul", "Add", "Reshape"]),
        ((6,), "2, 3, 5, 6", ["MatMul", "Reshape", "Add"]),
        ((5, 1), "2, 3, 5, 6", ["MatMul", "Reshape", "Add"]),
        ((3, 5, 6), "2, 3, 5, 6", ["MatMul", "Reshape", "Add"]),
        ((3, 30), "2, 3, 30", ["MatMul", "Add"]),
    ],
)
def test_a_bias_by_heads_is_one_of_the_row(
    bias: tuple[int, ...], heads: str, ops: list[str]
) -> None:
    count = heads.count(",") + 1
    model = with_weights(
        f"""{HEAD} (float[2,3,4] x) => (float[{heads}] y)
        <int64[{count}] s = {{{heads}}}>
        {{ m = MatMul(x, w)  r = Reshape(m, s)  y = Add(r, bias) }}""",
        w=(4, 30),
        bias=bias,
    )
    assert rewritten(model) == ops


def test_a_bias_beside_other_readers_of_the_heads_stays() -> None:
    model = with_weights(
        f"""{HEAD} (float[2,3,4] x) => (float[2,3,5,6] y)
        <int64[4] s = {{2, 3, 5, 6}}> {{ m = MatMul(x, w)  r = Reshape(m, s)
            b = Add(r, bias)  y = Mul(r, b) }}""",
        w=(4, 30),
        bias=(5, 6),
    )
    assert rewritten(model) == ["MatMul", "Reshape", "Add", "Mul"]
