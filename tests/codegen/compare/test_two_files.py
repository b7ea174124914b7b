"""Two ONNX files, of which one says less about itself."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest

import fairhand
from fairhand.codegen.commands.diff import headline
from fairhand.codegen.compare.comparison import (
    CHANGED,
    LAWS,
    WEIGHTS,
    compare,
    nodes_behind,
)

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


def test_a_node_behind_a_line_in_two_modules_is_named_once(tmp_path: Path) -> None:
    nodes = {"1": {"a": ["one", "two"], "b": ["one"]}, "1-2": {"a": ["two", "three"]}}
    side = SimpleNamespace(emitted="x = (\n)", text="x = (\n)", nodes=nodes)
    assert [*nodes_behind(side)[1]] == ["one", "two", "three"]


def test_packages_under_other_names_differ_in_weights(tmp_path: Path) -> None:
    names = "net", "net_that_was_trained_on_for_many_epochs"
    for name, weight in zip(names, ("1, 2", "3, 4"), strict=True):
        model = onnx.parser.parse_model(NET % weight)
        onnx.save(model, tmp_path / f"{name}.onnx")
        fairhand.compile(
            tmp_path / f"{name}.onnx", tmp_path / name, verify=False, cache=False
        )
    found = compare(tmp_path / names[0], tmp_path / names[1])
    assert (found.verdict, found.rows) == (WEIGHTS, [])


def test_one_file_written_in_two_ways_is_one_network(tmp_path: Path) -> None:
    net = """<ir_version: 10, opset_import: ["": 20]>
    net (float[n, 2] x) => (float[n, 2] y) <float[2, 2] w = {1, 2, 3, 4}>
    { p = Exp(x) y = MatMul(p, w) }"""
    model = onnx.parser.parse_model(net)
    model.graph.initializer[0].name = model.graph.node[1].input[1] = "m.a.weight"
    onnx.save(model, tmp_path / "net.onnx")
    for level in (0, 1):
        fairhand.compile(
            tmp_path / "net.onnx",
            tmp_path / f"at_{level}",
            level=level,
            verify=False,
            cache=False,
        )
    one, other = tmp_path / "at_0", tmp_path / "at_1"
    found = compare(one, other)
    assert found.verdict == LAWS and found.rows
    assert headline(found).startswith("the same up to ")
    text = (other / "model.py").read_text("utf-8")
    (other / "model.py").write_text(text.replace(".exp()", ".sin()"), "utf-8")
    assert compare(one, other).verdict == CHANGED


def test_a_file_of_weights_that_ends_early_is_refused(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(NET % "1, 2"), tmp_path / "net.onnx")
    package = fairhand.compile(
        tmp_path / "net.onnx", tmp_path / "net", verify=False, cache=False
    ).path
    weights = package / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(fairhand.FairhandError, match="it ends within"):
        compare(tmp_path / "net.onnx", package)
