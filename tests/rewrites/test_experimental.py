"""Operators that ONNX had before opset 10, against ONNX Runtime, which has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from support.contrib_models import assert_close, call, emitted, normal, session

import fairhand
from fairhand.analysis.errors import Unsupported

X = normal(1, 3, 4, 5)
HALF = X.astype(np.float16)
BOUNDS = {"s": np.array([0, 1], np.int32), "e": np.array([2, 3], np.int32)}
Case = tuple[dict[str, Any], dict[str, np.ndarray], str]
CASES: dict[str, Case] = {
    "Affine": ({}, {"x": X}, "return x"),
    "Affine-alpha": ({"alpha": 2.0}, {"x": X}, "x * 2"),
    "Affine-both": ({"alpha": 2.0, "beta": 0.3}, {"x": X}, "x * 2.0 + 0.3"),
    "Scale": ({"scale": 1.7}, {"x": X}, "x * 1.7"),
    "Scale-half": ({"scale": 1.7}, {"x": HALF}, "x * 1.7"),
    "Scale-idle": ({}, {"x": X}, "return x"),
    "ScaledTanh": ({"alpha": 2.0, "beta": 0.5}, {"x": X}, "torch.tanh(x * 0.5) * 2.0"),
    "ParametricSoftplus": ({"alpha": 2.0, "beta": 0.5}, {"x": X}, "softplus(x * 0.5)"),
    "ImageScaler": ({"scale": 0.5, "bias": [1.0, 2.0, 3.5]}, {"x": X}, "x * 0.5 + "),
    "ImageScaler-bias": ({"bias": [1.0, 2.0, 3.5]}, {"x": X}, "x + "),
    "Crop": ({"border": [1, 0, 2, 1]}, {"x": X}, "x[:, :, :-1, 1:-2]"),
    "Crop-none": ({"border": [0, 0, 0, 0]}, {"x": X}, "x"),
    "Crop-scale": (
        {"border": [1, 2, 0, 0], "scale": [2, 3]},
        {"x": X},
        "x[:, :, 2:, 1:4]",
    ),
    "DynamicSlice": ({}, {"x": X, **BOUNDS}, "x[s[0] : e[0], s[1] : e[1]]"),
    "MeanVarianceNormalization": (
        {},
        {"x": X},
        "dim=(0, 2, 3), keepdim=True, correction=0",
    ),
    "MeanVarianceNormalization-across": (
        {"across_channels": 1},
        {"x": normal(1, 2, 2, 2, 3)},
        "dim=(0, 1, 2, 3), keepdim=True, correction=0",
    ),
    "MeanVarianceNormalization-mean": (
        {"normalize_variance": 0},
        {"x": normal(2, 3, 4)},
        "return x - mean",
    ),
    "ThresholdedRelu": ({"alpha": 0.5}, {"x": X}, "torch.where(x > 0.5, x, 0)"),
    "DynamicSlice-axes": (
        {},
        {"x": X, **BOUNDS, "a": np.array([-1, 2], np.int32)},
        "slice",
    ),
}


def model(op: str, attrs: dict[str, Any], feeds: dict[str, Any]) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
        )
        for name, x in feeds.items()
    ]
    node = call(op, " ".join(feeds), domain="", **attrs)
    y = [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([node], "early", inputs, y)
    opset = [helper.make_opsetid("", 8)]
    return helper.make_model(graph, opset_imports=opset, ir_version=4)


@pytest.mark.parametrize("case", CASES)
def test_as_onnx_runtime_has_it(case: str, tmp_path: Path) -> None:
    attrs, feeds, words = CASES[case]
    proto = model(case.partition("-")[0], attrs, feeds)
    made, text = emitted(proto, tmp_path)
    assert_close(made.run(None, feeds), session(proto).run(None, feeds))
    assert words in text


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "'alpha'": ("ScaledTanh", {"beta": 1.0}),
    "'bias'": ("ImageScaler", {"scale": 2.0}),
    "no borders": ("Crop", {"scale": [2, 2]}),
    "what they should be": ("Crop", {"border": [1]}),
    "below 0": ("Crop", {"border": [-1, 0, 0, 0]}),
    "'gamma' is not known": ("Affine", {"gamma": 1.0}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str, tmp_path: Path) -> None:
    op, attrs = REFUSED[what]
    with pytest.raises(Unsupported, match=what):
        fairhand.compile(model(op, attrs, {"x": X}), tmp_path / "net", verify=False)
