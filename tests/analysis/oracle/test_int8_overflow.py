"""Products of 8-bit integers: what ONNX Runtime is asked has no overflow in it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from fairhand.analysis.oracle import int8_overflow
from fairhand.analysis.oracle.process import UNLIMITED, Session

EXACT = 255 * 127 * 4
ONE = "float one = {1.0}, float kilo = {1024.0}, uint8 zero = {0}, int8 z = {0}"
# A node, the interface of its network, and its first result.
NODES = {
    "y = MatMulInteger(x, w)": ("uint8[1, 4] x) => (int32[1, 1] y)", EXACT),
    "y = MatMulInteger(x, w, , z)": ("uint8[1, 4] x) => (int32[1, 1] y)", EXACT),
    "y = ConvInteger(x, k, , z)": ("uint8[1, 4, 1] x) => (int32[1, 1, 1] y)", EXACT),
    "y = QLinearMatMul(x, one, zero, w, one, z, kilo, zero)": (
        "uint8[1, 4] x) => (uint8[1, 1] y)",
        round(EXACT / 1024),
    ),
    "y = QLinearConv(x, one, zero, k, one, z, kilo, zero)": (
        "uint8[1, 4, 1] x) => (uint8[1, 1, 1] y)",
        round(EXACT / 1024),
    ),
    "y = com.microsoft.MatMulIntegerToFloat(x, w, one, one, zero, z)": (
        "uint8[1, 4] x) => (float[1, 1] y)",
        EXACT,
    ),
    "y = com.microsoft.DynamicQuantizeMatMul(x, w, one)": (
        "float[1, 4] x) => (float[1, 1] y)",
        EXACT,
    ),
    "y = com.microsoft.QAttention<num_heads=1>(x, q, b, one, one)": (
        "uint8[1, 1, 4] x) => (float[1, 1, 1] y)",
        EXACT,
    ),
}


def model_of(node: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>'
        f"g ({NODES[node][0]} <{ONE}, int8[4, 1] w = {{127, 127, 127, 127}},"
        f" int8[1, 4, 1] k = {{127, 127, 127, 127}}, float[3] b = {{0, 0, 0}},"
        f" int8[4, 3] q = {{{', '.join(['127'] * 12)}}}> {{ {node} }}"
    )


@pytest.mark.parametrize("node", NODES)
def test_no_sum_is_cut(monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    monkeypatch.setattr(int8_overflow, "overflows", lambda: True)
    model = model_of(node)
    data = int8_overflow.without_overflow(ir.from_proto(model))
    assert data is not None
    (x,) = ir.from_proto(model).graph.inputs
    assert x.shape is not None and x.dtype is not None
    full = np.full(x.shape.numpy(), 255, x.dtype.numpy())
    (got,) = Session(data, 1, UNLIMITED).run(None, {"x": full})
    assert got.ravel().tolist() == [NODES[node][1]]


@pytest.mark.parametrize(
    ("cuts", "text"),
    [
        (False, "w = {127, 127, 127, 127}"),
        (True, "w = {127, 127, 127, 127}, uint8[1] other = {1}"),
    ],
)
def test_others_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch, cuts: bool, text: str
) -> None:
    monkeypatch.setattr(int8_overflow, "overflows", lambda: cuts)
    kind = "uint8" if cuts else "int8"
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (uint8[1, 4] x) => (int32[1, 1] y)'
        f" <{kind}[4, 1] {text}> {{ y = MatMulInteger(x, w) }}"
    )
    assert int8_overflow.without_overflow(ir.from_proto(model)) is None
