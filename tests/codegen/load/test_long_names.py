"""Names of any length keep to the width of a line, and to their own spelling."""

from __future__ import annotations

from pathlib import Path

from onnx import helper

import fairhand
from fairhand.analysis.literals import short_literal


def test_strings_are_split_where_they_are_long() -> None:
    name = 'a "name" with \\ and \u00e9, ' * 20
    parts = short_literal((name, 3))
    assert eval(parts) == (name, 3)
    assert max(map(len, parts.split('" "'))) <= 64
    assert short_literal(("batch", 3)) == '("batch", 3)'
    assert short_literal(("batch",)) == '("batch",)'


def test_long_names_keep_lines_short(tmp_path: Path) -> None:
    name, dim = "very_long_input_name_" * 8, "b" * 100
    model = helper.make_model(
        helper.make_graph(
            [helper.make_node("Relu", [name], ["y"])],
            "g",
            [helper.make_tensor_value_info(name, 1, [dim, 3])],
            [helper.make_tensor_value_info("y", 1, None)],
        ),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=10,
    )
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    text = (package.path / "model.py").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 88
    scope: dict[str, dict[str, object]] = {}
    table = text[text.index("INPUTS =") : text.index("class ")]
    exec(table, {}, scope)
    assert scope["INPUTS"] == {name: ("float32", (dim, 3))}
    # ONNX Runtime, too, infers what the file leaves out.
    assert scope["OUTPUTS"] == {"y": ("float32", (dim, 3))}
