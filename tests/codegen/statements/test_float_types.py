"""A file of half precision is a network like any: made anew, it is of float32."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import fairhand

LAYER = """<ir_version: 10, opset_import: ["" : 20]>
net (int64[b, t] ids) => (float16[b, t, 8] y)
    <int64 none = {0}, int64 one = {1}, int64[1] last = {-1}, float two = {2.0},
     float eps = {0.00001}> {
    vectors = Gather (table, ids)
    wide = Cast <to = 1> (vectors)
    squares = Pow (wide, two)
    mean = ReduceMean <keepdims = 1> (squares, last)
    above = Add (mean, eps)
    root = Sqrt (above)
    unit = Div (wide, root)
    narrow = Cast <to = 10> (unit)
    normed = Mul (weight, narrow)
    positive = ReduceMax <keepdims = 0> (ids)
    chosen = Greater (positive, none)
    spread = If (chosen) <
        then_branch = raised () => (float16[b, t, 8] there) {
            high = Cast <to = 1> (normed)
            power = Exp (high)
            there = Cast <to = 10> (power)
        },
        else_branch = kept () => (float16[b, t, 8] here) {
            here = Relu (normed)
        }>
    product = MatMul (spread, matrix)
    sizes = Shape <start = 1, end = 2> (ids)
    length = Squeeze (sizes)
    places = Range (none, length, one)
    columns = Unsqueeze (places, last)
    floats = Cast <to = 1> (columns)
    angles = Mul (floats, speeds)
    cosine = Cos (angles)
    turn = Cast <to = 10> (cosine)
    turned = Mul (product, turn)
    y = Add (turned, offset)
}
"""


def _halves() -> onnx.ModelProto:
    model = onnx.parser.parse_model(LAYER)
    rng = np.random.default_rng(7)
    stored = {
        "table": rng.standard_normal((16, 8)).astype(np.float16),
        "weight": rng.uniform(0.5, 1.5, 8).astype(np.float16),
        "matrix": rng.standard_normal((8, 8)).astype(np.float16),
        "speeds": rng.uniform(0, 1, (1, 8)).astype(np.float32),
        "offset": rng.standard_normal((3, 1, 8)).astype(np.float16)[:1],
    }
    tensors = (numpy_helper.from_array(x, name) for name, x in stored.items())
    model.graph.initializer.extend(tensors)
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_half_file_s_network_runs_in_any_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    name = f"halves_{str(dtype)[6:]}"
    fairhand.compile(_halves(), tmp_path / name)
    text = (tmp_path / name / "model.py").read_text("utf-8")
    assert "torch.float16" not in text and ".half()" not in text
    monkeypatch.syspath_prepend(tmp_path)
    package = import_module(name)
    loaded, made = package.load(), package.Model().to(dtype)
    made.load_state_dict(loaded.state_dict(), strict=True)
    ids = torch.arange(10).reshape(2, 5)
    wanted, found = loaded(ids), made(ids)
    assert wanted.dtype == torch.float16 and found.dtype == dtype
    torch.testing.assert_close(found.float(), wanted.float(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("element", ["float", "float16"])
def test_masks_hide_by_the_lowest_number_of_the_network_s_type(
    element: str, tmp_path: Path
) -> None:
    lowest = {"float": "-3.4028234663852886e38", "float16": "64511"}[element]  # as bits
    none = {"float": "0.0", "float16": "0"}[element]
    model = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["" : 20]>
        net ({element}[b, 3, t] x, bool[b, 1, t] mask) => ({element}[b, 3, t] y)
            <{element} none = {{{none}}}, {element} lowest = {{{lowest}}}> {{
            hidden = Where (mask, none, lowest)
            seen = Add (x, hidden)
            y = Softmax <axis = -1> (seen)
        }}""")
    fairhand.compile(model, tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert "0.0, torch.finfo(x.dtype).min).to(x.dtype)" in text
