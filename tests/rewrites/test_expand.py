"""Operators without a spelling that ONNX defines by others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from support.emitted import imported

import fairhand
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import normalise

SHAPES = {"q": [1, 4, 3, 8], "k": [1, 2, 5, 8], "v": [1, 2, 5, 6]}


def flex_attention(outside: bool = False) -> onnx.ModelProto:
    """Attention whose scores are halved by a graph, or multiplied from outside."""
    info = helper.make_tensor_value_info
    scores = [1, 4, 3, 5]
    factor = "bias" if outside else "half"
    body = helper.make_graph(
        [helper.make_node("Mul", ["scores", factor], ["halved"])],
        "modify",
        [info("scores", TensorProto.FLOAT, scores)],
        [info("halved", TensorProto.FLOAT, scores)],
    )
    if not outside:
        half = helper.make_tensor("value", TensorProto.FLOAT, [], [0.5])
        body.node.insert(0, helper.make_node("Constant", [], ["half"], value=half))
    node = helper.make_node(
        "FlexAttention",
        list(SHAPES),
        ["y"],
        name="flex",
        domain="ai.onnx.preview",
        score_mod=body,
    )
    inputs = [info(name, TensorProto.FLOAT, shape) for name, shape in SHAPES.items()]
    inputs.append(info("bias", TensorProto.FLOAT, []))
    y = info("y", TensorProto.FLOAT, [1, 4, 3, 6])
    graph = helper.make_graph([node], "attention", inputs, [y])
    opsets = [helper.make_opsetid("", 26), helper.make_opsetid("ai.onnx.preview", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=13)


def test_a_definition_takes_the_place_of_its_node(tmp_path: Path) -> None:
    proto = flex_attention()
    operators = {n.op_type for n in normalise(load(proto).model).graph}
    assert "FlexAttention" not in operators and {"Softmax", "MatMul"} <= operators
    rng = np.random.default_rng(0)
    feed = {n: rng.standard_normal(s).astype("f") for n, s in SHAPES.items()}
    feed["bias"] = np.array(0, np.float32)
    fairhand.compile(proto, tmp_path / "flex", verify=False)
    (found,) = imported(tmp_path / "flex").Session().run(None, feed)
    (wanted,) = ReferenceEvaluator(proto).run(None, feed)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_graph_that_reads_from_outside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fairhand.FairhandError, match="FlexAttention"):
        fairhand.compile(flex_attention(outside=True), tmp_path / "flex", verify=False)
