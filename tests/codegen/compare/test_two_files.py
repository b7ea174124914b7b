"""Two ONNX files, of which one says less about itself."""

from __future__ import annotations

from pathlib import Path

import onnx

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
