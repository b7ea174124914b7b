"""Sizes and devices of modules that are given no tensor."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import onnx.parser
import pytest
import torch

import fairhand

POSITIONS = """
<ir_version: 8, opset_import: ["" : 17]>
positions (float[n, 4] x) => (float[n, 4] y)
<float[4] "pos.freq" = {1, 2, 3, 4}, int64 zero = {0}, int64 one = {1},
 int64[1] last = {1}> {
    ["/Shape"] s = Shape <start = 0, end = 1> (x)
    ["/Squeeze"] n = Squeeze (s)
    ["/pos/Range"] r = Range (zero, n, one)
    ["/pos/Cast"] f = Cast <to = 1> (r)
    ["/pos/Unsqueeze"] u = Unsqueeze (f, last)
    ["/pos/Mul"] m = Mul (u, "pos.freq")
    ["/pos/Sin"] p = Sin (m)
    ["/Add"] y = Add (x, p)
}"""


@pytest.mark.parametrize("level", [0, 1])
def test_what_a_module_makes_is_where_its_weights_are(
    level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, name = onnx.parser.parse_model(POSITIONS), f"made_{level}"
    fairhand.compile(model, tmp_path / name, level=level)
    monkeypatch.syspath_prepend(str(tmp_path))
    network = import_module(name).load().to("meta")
    assert "self.freq.device" in (tmp_path / name / "model.py").read_text()
    assert network(torch.ones(7, 4, device="meta")).device.type == "meta"
