"""The tolerance of a result follows the types that it is computed in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import fairhand
from fairhand.codegen.verify.tolerances import TOLERANCES, coarsest

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'
HALF, BRAIN = TOLERANCES["float16"], TOLERANCES["bfloat16"]


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("y = Relu(x)", 0.0),
        ("h = Cast<to = 10>(x) g = Exp(h) y = Cast<to = 1>(g)", HALF),
        ("h = Cast<to = 16>(x) y = Cast<to = 1>(h)", BRAIN),
        # Weights that are stored in half precision alone round nothing.
        ("w = Cast<to = 10>(one) v = Cast<to = 1>(w) y = Mul(x, v)", 0.0),
        (
            "t = Cast<to = 9>(one) y = If (t) <"
            "then_branch = a () => (float[3] p) "
            "{ h = Cast<to = 10>(x) g = Exp(h) p = Cast<to = 1>(g) }, "
            "else_branch = b () => (float[3] q) { q = Relu(x) }>",
            HALF,
        ),
    ],
)
def test_the_narrowest_type_on_the_way(body: str, most: float) -> None:
    text = "g (float[3] x) => (float[3] y, float[3] z) <float one = {1}> "
    model = parsed(f"{text}{{ z = Neg(x) {body} }}")
    assert coarsest(ir.from_proto(model)) == {"y": most, "z": 0.0}


def test_single_precision_within_double() -> None:
    body = (
        "{ h = Cast<to = 1>(x) l = Log(h) y = Cast<to = 11>(l) z = Neg(x) n = Size(l) }"
    )
    text = f"g (double[3] x) => (double[3] y, double[3] z, int64 n) {body}"
    most = {"y": TOLERANCES["float32"], "z": 0.0, "n": 0.0}
    assert coarsest(ir.from_proto(parsed(text))) == most


def test_half_precision_between_casts_is_verified_as_such(tmp_path: Path) -> None:
    """ONNX Runtime rounds after each operator, and PyTorch sums otherwise."""
    rng = np.random.default_rng(0)
    graph = parsed(
        "g (float[4, 256] x) => (float[4, 256] y) { h = Cast<to = 10>(x) "
        "a = MatMul(h, w) b = MatMul(a, w) c = MatMul(b, w) y = Cast<to = 1>(c) }"
    )
    weight = (rng.standard_normal((256, 256)) / 16).astype(np.float16)
    graph.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    package = fairhand.compile(graph, tmp_path / "half")
    assert package.report["tolerance"]["y"] == HALF
