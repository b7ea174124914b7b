"""Two computations of one value: those that differ for their element type are told."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from fairhand.analysis.shapes.infer import infer
from fairhand.rewrites.second_opinion.compare import Difference, Sides

HEAD = '<ir_version: 10, opset_import: ["": 20]> g '
# Inputs and constants, nodes of y, nodes of z, whether y = z.
PAIRS = {
    "matmul_divided": (
        "({t}[2,3] x) => (w, z) <{t}[1] a = {{4}}, {t}[3,2] w = {{1, 2, 3, 4, 5, 6}}>",
        "q = Div(x, a)  y = MatMul(q, w)",
        "p = MatMul(x, w)  z = Div(p, a)",
        {"float"},
    ),
    "max_of_shifted": (
        "({t}[4] x, {t}[4] v) => (y, z) <{t}[1] a = {{100}}>",
        "p = Add(x, a)  q = Add(v, a)  y = Max(p, q)",
        "m = Max(x, v)  z = Add(m, a)",
        {"float"},
    ),
    "halved": (
        "({t}[4] x) => (y, z) <{t}[1] a = {{2}}>",
        "p = Mul(x, a)  y = Div(p, a)",
        "z = Identity(x)",
        {"float"},
    ),
    "distributed": (
        "({t}[4] x, {t}[4] v) => (y, z) <{t}[1] a = {{3}}>",
        "p = Mul(x, a)  q = Mul(v, a)  y = Add(p, q)",
        "m = Add(x, v)  z = Mul(m, a)",
        {"float", "int64", "int8", "uint8"},
    ),
    "squared_difference": (
        "({t}[4] x, {t}[4] v) => (y, z)",
        "p = Mul(x, x)  q = Mul(v, v)  y = Sub(p, q)",
        "s = Add(x, v)  d = Sub(x, v)  z = Mul(s, d)",
        {"float", "int64", "int8", "uint8"},
    ),
    "subtraction_commutes": (
        "({t}[4] x, {t}[4] v) => (y, z)",
        "y = Sub(x, v)",
        "z = Sub(v, x)",
        set(),
    ),
    "mean_of_scaled": (
        "({t}[2,3] x) => (y, z) <{t}[1] a = {{5}}, int64[1] axes = {{1}}>",
        "p = Mul(x, a)  y = ReduceMean(p, axes)",
        "m = ReduceMean(x, axes)  z = Mul(m, a)",
        {"float"},
    ),
}


@pytest.mark.parametrize("kind", ["float", "int64", "int8", "uint8"])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_is_told_for_its_type(pair: str, kind: str) -> None:
    inputs, left, right, equal_for = PAIRS[pair]
    head = inputs.format(t=kind).partition("=>")
    outputs = head[2].partition(")")[2]
    text = f"{HEAD}{head[0]}=> ({kind}[?] y, {kind}[?] z){outputs} {{ {left} {right} }}"
    text = text.replace(f"{kind}[?]", kind)
    model = ir.from_proto(onnx.parser.parse_model(text))
    for number, node in enumerate(model.graph):
        node.name = f"n{number}"
    shapes = infer(model)
    y, z = model.graph.outputs
    names = [f"n{k}" for k in range(left.count("="))]
    sides = Sides([y], names, shapes.dims, shapes.content)
    if kind in equal_for:
        assert sides.check([z], False)
    else:
        with pytest.raises(Difference):
            sides.check([z], False)
