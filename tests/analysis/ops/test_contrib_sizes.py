"""Sizes behind ONNX Runtime's own operators stay expressions of the inputs' sizes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, numpy_helper
from support.contrib_models import call, session
from support.symbolic import hold_against

from fairhand.analysis.graph.dims import spell
from fairhand.analysis.shapes.infer import infer
from fairhand.rewrites.normalise import normalise

SIZES = ({"b": 2, "s": 4, "h": 7, "w": 10}, {"b": 1, "s": 1, "h": 4, "w": 3})
NO_KERNEL = ("Irfft", "QLinearReduceMean", "Rfft")
PAIR = "x k z x k z k z"
STORED = {
    "k": np.array(0.02, np.float32),
    "z": np.array(120, np.uint8),
    "m": np.full((6, 5), 3, np.uint8),
    "filters": np.full((8, 3, 3, 3), 3, np.uint8),
    "packed": np.zeros((5, 1, 8), np.uint8),
    "scales": np.zeros(5, np.float32),
    "size": np.array([4, 6], np.int32),
    "boxes": np.zeros((3, 4), np.float32),
    "of": np.zeros(3, np.int32),
}
U8, F32 = np.uint8, np.float32
IMAGE, ROWS = ["b", 3, "h", "w"], ["b", "s", 6]
ONE = "x k z k z"

CASES = [
    (call("QLinearAdd", PAIR), U8, ROWS, "[b, s, 6]"),
    (call("QLinearMul", PAIR), U8, ROWS, "[b, s, 6]"),
    (call("QLinearSigmoid", ONE), U8, ROWS, "[b, s, 6]"),
    (call("QLinearLeakyRelu", ONE), U8, ROWS, "[b, s, 6]"),
    (call("QLinearSoftmax", ONE, axis=-1, opset=13), U8, ROWS, "[b, s, 6]"),
    (call("QLinearConcat", "k z x k z x k z", axis=1), U8, ROWS, "[b, 2*s, 6]"),
    (call("QLinearReduceMean", ONE, axes=[1]), U8, ROWS, "[b, 1, 6]"),
    (call("QLinearReduceMean", ONE, axes=[1], keepdims=0), U8, ROWS, "[b, 6]"),
    (call("QLinearGlobalAveragePool", ONE), U8, IMAGE, "[b, 3, 1, 1]"),
    (
        call("QLinearAveragePool", ONE, kernel_shape=[2, 2], strides=[2, 2]),
        U8,
        IMAGE,
        "[b, 3, floor(h/2), floor(w/2)]",
    ),
    (
        call("QLinearConv", "x k z filters k z k z", kernel_shape=[3, 3]),
        U8,
        IMAGE,
        "[b, 8, h - 2, w - 2]",
    ),
    (call("QGemm", "x k z m k z _ k z"), U8, ["b", 6], "[b, 5]"),
    (call("QGemm", "x k z m k z", transA=1), U8, [6, "b"], "[b, 5]"),
    (
        call("MatMulNBits", "x packed scales", K=16, N=5, bits=4, block_size=16),
        F32,
        ["b", "s", 16],
        "[b, s, 5]",
    ),
    (call("DynamicQuantizeMatMul", "x m k z"), F32, ROWS, "[b, s, 5]"),
    (call("CropAndResize", "x boxes of size"), F32, IMAGE, "[3, 3, 4, 6]"),
    (call("Rfft", "x", signal_ndim=1), F32, ["b", "s"], "[b, floor(s/2) + 1, 2]"),
    (call("Irfft", "x", signal_ndim=1), F32, ["b", "s", 2], "[b, 2*s - 2]"),
]


@pytest.mark.parametrize(
    ("node", "dtype", "dims", "wanted"), CASES, ids=lambda x: getattr(x, "op_type", "")
)
def test_sizes(
    node: onnx.NodeProto, dtype: type, dims: list[int | str], wanted: str
) -> None:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        [node],
        "sizes",
        [helper.make_tensor_value_info("x", kind, dims)],
        [onnx.ValueInfoProto(name="y")],
        [numpy_helper.from_array(a, n) for n, a in STORED.items() if n in node.input],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=10)
    model = normalise(ir.from_proto(proto))
    (y,) = model.graph.outputs
    values, shapes = {"x": model.graph.inputs[0], "y": y}, infer(model)
    assert spell(shapes.dims(y)) == wanted
    for sizes in SIZES if node.op_type not in NO_KERNEL else ():
        x = np.ones([sizes.get(str(d), d) for d in dims], dtype)
        (result,) = session(proto).run(None, {"x": x})
        assert not list(hold_against({"x": x, "y": result}, values, shapes))
