"""Results that hang on the rounding of their weights, and the leave they get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import fairhand
from fairhand.analysis.graph.weightless import to_proto
from fairhand.codegen.ir.package_plan import PackagePlan
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.ill_conditioned import (
    same_text,
    weight_noise,
    with_drawn_weights,
)
from fairhand.codegen.verify.parity import oracle, verify

TERMS = 1024


def same_sum_twice(size: float) -> onnx.ModelProto:
    """Which of two equal sums is larger, by rounding: as one product, and as two."""
    rng = np.random.default_rng(0)
    weight = np.float32(size * rng.standard_normal((TERMS, 1)))
    half = TERMS // 2
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[64, {TERMS}] x) => (float[64, 2] y) {{
            whole = MatMul(x, w)
            a, b = Split<axis = 1>(x)  c = MatMul(a, w1)  d = MatMul(b, w2)
            sum = Add(c, d)  both = Concat<axis = 1>(whole, sum)  y = Softmax(both)
        }}""")
    named = {"w": weight, "w1": weight[:half], "w2": weight[half:]}
    for name, array in named.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def compiled(tmp_path: Path, model: onnx.ModelProto) -> fairhand.Package:
    onnx.save(model, tmp_path / "net.onnx")
    return fairhand.compile(tmp_path / "net.onnx", tmp_path / "out", cache=False)


def test_other_weights_stand_in(tmp_path: Path) -> None:
    package = compiled(tmp_path, same_sum_twice(1e9))
    found = package.report["verification"]
    assert found["worst_relative_error"] > 1e-2
    assert found["unsteady"]["y"] >= found["worst_relative_error"]
    assert found["with_drawn_weights"]["worst_relative_error"] < 5e-5
    assert package.report["tolerance"] == {}  # the package's own test leaves it out
    loaded = load(tmp_path / "net.onnx")
    again = verify(package.path, loaded)
    assert again.unsteady.keys() == {"y"}


def test_a_steady_network_gets_no_leave(tmp_path: Path) -> None:
    model = same_sum_twice(0.25)
    found = compiled(tmp_path, model).report["verification"]
    assert "unsteady" not in found and found["worst_relative_error"] < 5e-5
    assert weight_noise(load(model), oracle, *_first_run(model))["y"] < 1e-3


def test_a_wrong_package_fails_on_drawn_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though on its own weights its error is no larger than their rounding."""
    from fairhand.codegen import pipeline

    genuine = pipeline.model_text

    def wrong(plan: PackagePlan) -> str:
        text = genuine(plan).replace(".softmax(", ".neg().softmax(")
        assert "neg" in text
        return text

    monkeypatch.setattr(pipeline, "model_text", wrong)
    with pytest.raises(fairhand.VerificationError, match="output y differs"):
        compiled(tmp_path, same_sum_twice(1e9))


def test_a_vector_in_the_place_of_a_matrix_counts() -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[n, {TERMS}] x) => (float[n] y) {{ y = MatMul(x, w) }}""")
    vector = np.full(TERMS, 1e4, np.float32)
    vector[::2] *= -1
    model.graph.initializer.append(onnx.numpy_helper.from_array(vector, "w"))
    feed = {"x": np.ones((1, TERMS), np.float32) + np.float32(1e-3) * (vector > 0)}
    expected = oracle(model.SerializeToString()).run(None, feed)
    assert weight_noise(load(model), oracle, feed, expected)["y"] > 1e-5


def test_drawn_weights_keep_their_places() -> None:
    loaded = load(same_sum_twice(1e9))
    other = with_drawn_weights(loaded)
    assert other is not None and other.path is None
    proto = onnx.ModelProto.FromString(to_proto(other.model).SerializeToString())
    found = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    assert {name: found[name].shape for name in ("w", "w1", "w2")} == {
        "w": (TERMS, 1),
        "w1": (TERMS // 2, 1),
        "w2": (TERMS // 2, 1),
    }
    assert all(abs(found[name]).max() < 10 for name in ("w", "w1", "w2"))
    onnx.checker.check_model(proto)


def test_what_the_text_is_compared_for(tmp_path: Path) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    text = '"""{}"""\nMODEL_SHA256 = "{}"\nclass A:\n    x = {}\ndef load():\n    {}\n'
    one.write_text(text.format("a", "1", 1, "pass"))
    other.write_text(text.format("b", "2", 1, "return 3"))
    assert same_text(one, other)
    other.write_text(text.format("a", "1", 2, "pass"))
    assert not same_text(one, other)


def _first_run(model: onnx.ModelProto) -> tuple[dict[str, np.ndarray], list[Any]]:
    feed = {"x": np.random.default_rng(1).standard_normal((64, TERMS), np.float32)}
    return feed, oracle(model.SerializeToString()).run(None, feed)
