"""Models whose types don't fit each other: the first message says which, and where."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import fairhand


@pytest.mark.parametrize("verify", [True, False])
def test_types_that_differ_are_named_with_their_node(
    verify: bool, tmp_path: Path
) -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
        net (float[n, 3] x) => (float[n, 3] y) <int64[3] i = {1, 2, 3}>
        { y = Add (x, i) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    with pytest.raises(fairhand.LoadError, match="types or sizes don't fit") as caught:
        fairhand.compile(tmp_path / "net.onnx", tmp_path / "new", verify=verify)
    said = str(caught.value)
    assert "(op_type:Add, node name: none, computes y)" in said
    assert "tensor(float)" in said and "tensor(int64)" in said
    assert "--no-verify" not in said and not (tmp_path / "new").exists()


def test_an_attribute_of_a_node_without_a_name(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
        net (float[n, 3] x) => (float[n, 6] y) { y = Concat <axis = 1.5> (x, x) }"""
    with pytest.raises(fairhand.LoadError, match="in 'Concat : axis'"):
        fairhand.compile(onnx.parser.parse_model(text), tmp_path / "new")
