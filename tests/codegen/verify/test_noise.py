"""How far a model's own rounding moves its result, and how much is allowed for."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from fairhand.analysis.graph.quantization import quantises
from fairhand.codegen.verify.parity import oracle
from fairhand.codegen.verify.rounding_noise import (
    Allowance,
    allowance,
    own_noise,
)

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
PLAIN = "g (float[4] x) => (float[4] y) { y = Relu(x) }"
QDQ = """g (float[4] x) => (float[4] y) <float s = {0.5}, int8 z = {0}> {
    q = QuantizeLinear(x, s, z)  y = DequantizeLinear(q, s, z) }"""


def measured(text: str, x: list[float]) -> float:
    data = onnx.parser.parse_model(HEAD + text).SerializeToString()
    session = oracle(data)
    feed = {"x": np.float32(x)}
    return own_noise(data, session, oracle, feed, session.run(None, feed))["y"]


def test_a_number_between_two_integers_leaps() -> None:
    assert measured(QDQ, [0, 1.25, 4, -4]) == pytest.approx(0.5 / 4, rel=1e-3)
    assert measured(QDQ, [0, 1.1, 4, -4]) < 1e-6
    assert measured(PLAIN, [0, 1.25, 4, -4]) < 1e-6


def test_what_another_order_of_sums_would_move_leaps_too() -> None:
    near = 1.25 * (1 + 5 * 2.0**-23)
    assert measured(QDQ, [0, near, 4, -4]) == pytest.approx(0.5 / 4, rel=1e-3)


PACKED = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
g (float[1, 16] x, uint8[1, 1, 8] w, float[1] s) => (float[1, 1] y) {
    y = com.microsoft.MatMulNBits<K = 16, N = 1, bits = 4, block_size = 16,
                                  accuracy_level = LEVEL>(x, w, s) }"""


@pytest.mark.parametrize("level", [0, 1, 4])
def test_a_product_in_int8_rounds(level: int) -> None:
    model = onnx.parser.parse_model(PACKED.replace("LEVEL", str(level)))
    most = Allowance(2, 0.25) if level == 4 else Allowance(4, 1e-2)
    assert allowance(ir.from_proto(model)) == most
    assert quantises(model.graph.node[0]) == (level == 4)


LOOKED_UP = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>
g (int64[1] id) => (float[1, 1] y)
    <float[1, 16] table = {127, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5,
                              0, 0, 0, 0, 0, 0, 0, 0},
     uint8[1, 1, 8] w = {153, 153, 153, 153, 136, 136, 136, 136}, float[1] s = {0.1}> {
    x = Gather(table, id)
    y = com.microsoft.MatMulNBits<K = 16, N = 1, bits = 4, block_size = 16,
                                  accuracy_level = 4>(x, w, s) }"""


def test_what_is_computed_of_weights_leaps_too() -> None:
    """A decoder's input is tokens, which have no last bit."""
    model = onnx.parser.parse_model(LOOKED_UP).SerializeToString()
    feed = {"id": np.int64([0])}
    session = oracle(model)
    found = own_noise(model, session, oracle, feed, session.run(None, feed))["y"]
    assert found * 127 == pytest.approx(round(found * 127), rel=1e-3) and found > 0.005


@pytest.mark.parametrize(
    ("text", "most"), [(PLAIN, Allowance(4, 1e-2)), (QDQ, Allowance(2, 0.25))]
)
def test_the_limit_follows_the_kind(text: str, most: Allowance) -> None:
    model = ir.from_proto(onnx.parser.parse_model(HEAD + text))
    assert allowance(model) == most


def test_what_is_allowed_is_bounded() -> None:
    assert Allowance(2, 0.25).of(0.01) == 0.02 and Allowance(2, 0.25).of(1) == 0.25


@pytest.mark.parametrize("opset", [9, 20])
def test_a_sigmoid_far_below_0_is_coarse(opset: int) -> None:
    text = "g (float[1] x) => (float[1] y) { y = Sigmoid(x) }"
    model = onnx.parser.parse_model(HEAD + text)
    model.opset_import[0].version = opset
    data = model.SerializeToString()
    session, feed = oracle(data), {"x": np.float32([-10.455])}
    noise = own_noise(data, session, oracle, feed, session.run(None, feed))
    assert 1e-5 < noise["y"] < 1e-3


@pytest.mark.parametrize(("size", "least", "most"), [(400, 3e-6, 1e-3), (256, 0, 1e-6)])
def test_fourier_transforms_of_odd_lengths_are_coarse(
    size: int, least: float, most: float
) -> None:
    """ONNX Runtime's own, of any length but a power of two."""
    text = """g (float[1, 800] x) => (float[a, b, c, d] y)
        <int64 step = {160}, int64 size = {SIZE}> { y = STFT(x, step, , size) }"""
    x = np.random.default_rng(0).standard_normal((1, 800)).tolist()
    assert least <= measured(text.replace("SIZE", str(size)), x) <= most
