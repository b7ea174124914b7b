"""Two ONNX files, of which one says less about itself."""

from __future__ import annotations

from pathlib import Path

import onnx

import fairhand
from fairhand.codegen.compare.comparison import WEIGHTS, compare

NET = """<ir_version: 10, opset_import: ["": 20]>
net (float[n, 2] x) => (float[n, 2] y) <float[2] w = {%s}> { y = Mul(x, w) }"""


def test_what_a_network_is_called_is_no_other_line(tmp_path: Path) -> None:
    for name, weight in (("one", "1, 2"), ("two", "3, 4")):
        model = onnx.parser.parse_model(NET % weight)
        if name == "two":
            notes = {"name_scopes": "['', 'mul']", "class_hierarchy": "['Own', 'mul']"}
            for key, text in notes.items():
                model.graph.node[0].metadata_props.add(
                    key=f"pkg.torch.onnx.{key}", value=text
                )
        onnx.save(model, tmp_path / f"{name}.onnx")
    found = compare(tmp_path / "one.onnx", tmp_path / "two.onnx")
    assert (found.verdict, found.rows) == (WEIGHTS, [])


def test_nodes_that_do_the_same_in_their_place_are_no_others(tmp_path: Path) -> None:
    net = """<ir_version: 10, opset_import: ["": 20]>
    net (float[n, 2] x) => (float[n, 2] y)
    { [one] p = Sin(x) [two] q = Exp(p) [three] r = %s(q) [four] y = Neg(r) }"""
    for kind in ("Cos", "Tanh"):
        text = net % kind
        if kind == "Tanh":  # a file that was exported again may have other names
            text = text.replace("[one]", "[other]").replace("[two]", "[another]")
        onnx.save(onnx.parser.parse_model(text), tmp_path / f"{kind}.onnx")
    one, other = tmp_path / "Cos.onnx", tmp_path / "Tanh.onnx"
    found = compare(one, other)
    assert len(found.rows) == 1 and found.rows[0][1].nodes[0] == "other"
    assert found.nodes == {"before": ["three"], "after": ["three"]}
    package = fairhand.compile(one, tmp_path / "net", verify=False, cache=False).path
    text = (package / "model.py").read_text("utf-8")
    (package / "model.py").write_text(text.replace(".cos()", ".tanh()"), "utf-8")
    found = compare(one, package)
    assert found.nodes == {"behind": ["one", "two", "three", "four"]}
