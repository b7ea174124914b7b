"""Transposes that only go together, between operators of channels first."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from support.rule_samples import run

from fairhand.analysis.graph.traversal import all_nodes
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.engine.termination import weight
from fairhand.rewrites.simplify import simplify

# Each is given X, and what a convolution makes of it, c#; both have channels last.
PARTS = {
    "a residual": "y# = Add(X, c#)",
    "a gate": """p# = ReduceMean<keepdims = 0>(c#, rows)  r# = Reshape(p#, one)
        f# = Transpose<perm = [0, 3, 1, 2]>(r#)  e# = Conv(f#, v)
        g# = Transpose<perm = [0, 2, 3, 1]>(e#)  y# = Mul(c#, g#)""",
    "a gate of two branches": """s# = Add(X, c#)  p# = ReduceMean(s#, rows)
        g# = Sigmoid(p#)  a# = Mul(X, g#)  h# = Sub(half, g#)  b# = Mul(c#, h#)
        y# = Add(a#, b#)""",
    "attention to places": """m# = ReduceMean(c#, last)  n# = ReduceMax(c#, last)
        j# = Concat<axis = 3>(m#, n#)  s# = ReduceSum(j#, last)  g# = Sigmoid(s#)
        y# = Mul(c#, g#)""",
    "half of the channels": """a#, b# = Split<axis = 3, num_outputs = 2>(c#)
        r# = Relu(a#)  j# = Concat<axis = -1>(b#, r#)  y# = Add(j#, X)""",
    "slopes": "s# = PRelu(c#, slopes)  y# = Add(s#, X)",
    "a choice": """q# = Greater(X, c#)  e# = Exp(c#)  w# = Where(q#, e#, c#)
        y# = Add(w#, X)""",
    "a softmax": "s# = Softmax<axis = 3>(c#)  m# = Mul(s#, c#)  y# = Add(m#, X)",
}


def network(*parts: str) -> onnx.ModelProto:
    """These parts in turn, each behind a convolution."""
    nodes, x = [], "x"
    for k, part in enumerate(parts):
        text = f"""i# = Transpose<perm = [0, 3, 1, 2]>(X)
            d# = Conv<pads = [1, 1, 1, 1]>(i#, w)
            c# = Transpose<perm = [0, 2, 3, 1]>(d#) {part}"""
        nodes.append(text.replace("#", str(k)).replace("X", x))
        x = f"y{k}"
    weights = [
        ", ".join(str(round(0.1 * ((7 * k) % 5 - 2), 1)) for k in range(16 * n))
        for n in (9, 1)
    ]
    return onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[n,5,6,4] x) => (float[n,5,6,4] y)
        <int64[2] rows = {{1, 2}}, int64[1] last = {{3}}, float half = {{0.5}},
         int64[4] one = {{-1, 1, 1, 4}}, float[4,4,3,3] w = {{{weights[0]}}},
         float[4,4,1,1] v = {{{weights[1]}}},
         float[1,1,4] slopes = {{0.1, 0.2, 0.3, 0.4}}>
        {{ {" ".join(nodes)} y = Tanh({x}) }}""")


def rewritten(original: onnx.ModelProto) -> ir.Model:
    """As -O1 leaves it; it computes the same."""
    model = load(original).model
    simplify(model)
    x = np.random.default_rng(1).normal(size=(2, 5, 6, 4)).astype(np.float32)
    (before,), (after,) = (run(m, {"x": x}) for m in (original, ir.to_proto(model)))
    np.testing.assert_allclose(after, before, rtol=1e-3, atol=1e-4)
    return model


def transposes(model: ir.Model) -> int:
    return sum(node.op_type == "Transpose" for node in model.graph)


@pytest.mark.parametrize("part", PARTS)
def test_channels_stay_first_from_the_first_convolution_on(part: str) -> None:
    assert transposes(rewritten(network(*[PARTS[part]] * 3))) == 2


def test_parts_of_all_kinds() -> None:
    assert transposes(rewritten(network(*PARTS.values()))) == 2


def test_what_needs_channels_last_has_them() -> None:
    """And no Transpose sinks where as many would be left."""
    norm = "y# = LayerNormalization<axis = -1>(c#, s, s)".replace("s", "slope")
    original = network(PARTS["a gate"], norm, PARTS["a residual"])
    row = original.graph.initializer.add()
    row.CopyFrom(onnx.numpy_helper.from_array(np.ones(4, np.float32), "slope"))
    model = rewritten(original)
    assert transposes(model) == 4
    norms = [n for n in model.graph if n.op_type == "LayerNormalization"]
    made = norms[0].inputs[0]
    assert made is not None and made.producer().op_type == "Transpose"


def test_a_plan_makes_the_graph_lighter() -> None:
    """Also where several values are needed in both orders."""
    part = "a# = Exp(c#)  b# = Sin(c#)  m# = MatMul(a#, square)  y# = Add(m#, b#)"
    original = network(part, part)
    square = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "square")
    original.graph.initializer.add().CopyFrom(square)
    model = load(original).model
    before = weight(all_nodes(model.graph))
    simplify(model)
    assert weight(all_nodes(model.graph)) <= before
    assert transposes(model) <= 4


def test_what_is_read_in_both_orders_is_turned_once() -> None:
    """Also where it is a result, so that one Transpose stays whatever sinks."""
    original = network("e# = Exp(c#)  z# = Sin(c#)  y# = Add(e#, X)", PARTS["a gate"])
    result = onnx.helper.make_tensor_value_info("c0", 1, ["n", 5, 6, 4])
    original.graph.output.append(result)
    model = load(original).model
    simplify(model)
    assert transposes(model) == 3


def test_an_operand_may_have_more_axes_than_what_is_turned() -> None:
    """And be turned elsewhere, in an order of its own axes."""
    model = load(
        onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]>
        g (float[2,3] x, float[4,3,2] y) => (float[4,3,2] z, float[2,4,3] u)
        { t = Transpose(x)  z = Add(t, y)  u = Transpose<perm = [2, 0, 1]>(y) }""")
    ).model
    simplify(model)
    assert [node.op_type for node in model.graph] == ["Transpose", "Add", "Transpose"]
