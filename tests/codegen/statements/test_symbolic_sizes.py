"""Sizes and devices of modules that are given no tensor."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
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


GRID = """
<ir_version: 8, opset_import: ["" : 18]>
grid (float[n, 3, "32*rows", 7] x) => (float[n, 2, k, 7] y)
<int64 one = {1}, int64 two = {2}, int64[3] all = {2, 1, 7},
 float nought = {0}, float step = {1}, int64[1] last = {-1}> {
    s = Shape <start = 2, end = 3> (x)
    n = Squeeze (s)
    less = Sub (n, one)
    half = Div (less, two)
    more = Add (half, one)
    z = Conv <kernel_shape = [3, 1], strides = [2, 1], pads = [1, 0, 1, 0]> (x, w)
    f = Cast <to = 1> (more)
    r = Range (nought, f, step)
    u = Unsqueeze (r, last)
    y = Add (z, u)
}"""


def test_counts_of_windows_are_read_off_what_is_counted(tmp_path: Path) -> None:
    """Not computed as tensors; nor is what floats count up to such a number."""
    model = onnx.parser.parse_model(GRID)
    weight = np.random.default_rng(0).standard_normal((2, 3, 3, 1))
    tensor = onnx.numpy_helper.from_array(weight.astype(np.float32), "w")
    model.graph.initializer.append(tensor)
    found = fairhand.compile(model, tmp_path / "grid")
    text = (tmp_path / "grid" / "model.py").read_text()
    assert "torch.arange((x.shape[2] + 1) // 2," in text
    assert ".item()" not in text and "range_of" not in text
    assert found.report["emission"]["sizes"] == "all"


def test_a_module_without_tensors_is_told_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = """["/pos/proj/Mul"] q = Mul (u, "pos.proj.freq")
    ["/pos/proj/fc/MatMul"] m = MatMul (q, "pos.proj.fc.weight")"""
    text = POSITIONS.replace('["/pos/Mul"] m = Mul (u, "pos.freq")', inner)
    weights = ", ".join(map(str, range(16)))
    fc = f'float[4, 4] "pos.proj.fc.weight" = {{{weights}}}'
    new = f'"pos.proj.freq" = {{1, 2, 3, 4}}, {fc}'
    model = onnx.parser.parse_model(text.replace('"pos.freq" = {1, 2, 3, 4}', new))
    fairhand.compile(model, tmp_path / "told", level=0)
    monkeypatch.syspath_prepend(str(tmp_path))
    network = import_module("told").load().to("meta")
    assert "n: int, device: torch.device" in (tmp_path / "told/model.py").read_text()
    assert network(torch.ones(7, 4, device="meta")).device.type == "meta"


def test_two_sizes_without_a_word_are_two_arguments(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        net (float[s1, s2, 4] x) => (float[s1, s2, 4] y)
            <int64[1] rest = {-1}, int64 first = {0}, float[4] w = {1, 2, 3, 4}> {
            sizes = Shape (x)
            flat = Reshape (x, rest)
            hot = CumSum (flat, first)
            back = Reshape (hot, sizes)
            a = Exp (back)
            y = Mul (a, w)
        }""")
    for node in proto.graph.node:
        inside = "/block" if node.output[0] in ("back", "a", "y") else ""
        node.name = f"{inside}/{node.op_type}"
    fairhand.compile(proto, tmp_path / "net", cache=False)
    text = (tmp_path / "net" / "model.py").read_text("utf-8")
    assert "size: int, size2: int" in text


def test_powers_of_a_size_are_products(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 20]>
        net (float[n, n, n] x) => (float[m] y) {
            cubed = Size (x)  row = Constant <value_ints = [-1]> ()
            flat = Reshape (x, row)  one = Constant <value_ints = [1]> ()
            more = Add (cubed, one)  sizes = Expand (more, one)
            ones = ConstantOfShape <value = float[1] {1.0}> (sizes)
            y = Concat <axis = 0> (flat, ones)
        }""")
    found = fairhand.compile(proto, tmp_path / "net", cache=False)
    assert found.report["verification"]["worst_relative_error"] == 0
