"""Models from ONNX's text format, compiled and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from support.emitter_models import Emitted

HEAD = '<ir_version: 10, opset_import: ["": 21]>\n'


def parse(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + text)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def check(model: onnx.ModelProto, found: Emitted, *feeds: Mapping[str, Any]) -> None:
    """The package and ONNX Runtime agree on each of the feeds."""
    session, reference = found.module.Session(), _reference(model)
    assert [a.type for a in session.get_inputs()] == [
        a.type for a in reference.get_inputs()
    ]
    for feed in feeds:
        wanted = reference.run(None, dict(feed))
        for got, want in zip(session.run(None, feed), wanted, strict=True):
            assert_same(got, want)


def assert_same(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(want, list):
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)
    elif want is not None:
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype == object:
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def _reference(model: onnx.ModelProto) -> ort.InferenceSession:
    """ONNX Runtime as packages are compared with it: no optimisation."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
