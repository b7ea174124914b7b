"""Packages of a folder, and what the reading commands print for other programs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file
from support.emitted import EXAMPLES
from support.json_schema import check, faults_of

import fairhand
from fairhand.codegen.cli import main
from fairhand.codegen.commands.verify import verify_again, verify_all_inputs

Capture = pytest.CaptureFixture[str]
MODEL = EXAMPLES / "digits_cnn.onnx"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "inner/two"):
        fairhand.compile(MODEL, tmp_path / name, verify=False)
    (tmp_path / "inner" / "report.json").write_text("{}")
    return tmp_path


def printed(capfd: Capture, *command: str | Path, code: int = 0) -> Any:
    assert main([*map(str, command), "--json"]) == code
    return json.loads(capfd.readouterr().out)


def test_status_of_a_folder(folder: Path, capfd: Capture) -> None:
    shutil.copy(MODEL, folder / "digits_cnn.onnx")
    found = printed(capfd, "status", folder)
    check(found, "status")
    two, one = found["packages"]
    assert (two["package"], one["package"]) == (
        str(folder / "inner" / "two"),
        str(folder / "one"),
    )
    assert one["model_is"] == two["model_is"] == "found"
    assert not one["verified"] and one["edited"] == [] and one["opset"] == 20
    text = folder / "one" / "model.py"
    text.write_text(text.read_text() + "# mine\n")
    (folder / "inner" / "two" / "session.py").unlink()
    shutil.copy(EXAMPLES / "digits_transformer.onnx", folder / "digits_cnn.onnx")
    two, one = printed(capfd, "status", folder, "--check", code=1)["packages"]
    assert (one["edited"], two["missing"]) == (["model.py"], ["session.py"])
    assert one["model_is"] == "other"
    assert main(["status", str(folder)]) == 0
    shown = capfd.readouterr().out
    assert "model.py edited" in shown and "another one now" in shown
    assert "parity not known since" in shown
    assert main(["status", str(folder / "none")]) == 1
    assert "is no folder" in capfd.readouterr().err


def test_what_is_gone_or_unreadable_is_said(folder: Path, capfd: Capture) -> None:
    one, two = folder / "one", folder / "inner" / "two"
    (one / "weights.safetensors").unlink()
    (two / "report.json").write_text("{")
    assert main(["status", str(folder)]) == 0
    shown = capfd.readouterr().out
    assert "two: report.json edited: nothing is known of it" in shown
    assert "weights.safetensors missing; parity not known since" in shown
    with pytest.raises(fairhand.FairhandError, match="lacks weights"):
        verify_again(one, MODEL, None, None)
    (two / "provenance.json").unlink()
    assert main(["status", str(folder)]) == 0
    assert "two: provenance.json missing: nothing" in capfd.readouterr().out


def test_an_edit_that_cant_run_and_weights_of_no_file(folder: Path) -> None:
    one = folder / "one"
    text = one / "model.py"
    text.write_text(text.read_text() + "retrun\n")
    with pytest.raises(fairhand.FairhandError, match="it ran as it was written"):
        verify_again(one, MODEL, None, None)
    two = folder / "inner" / "two"
    save_file(load_file(two / "weights.safetensors"), two / "weights.safetensors")
    with pytest.raises(fairhand.FairhandError, match="with the metadata it has"):
        verify_again(two, MODEL, None, None)


def test_what_is_printed_for_programs(folder: Path, capfd: Capture) -> None:
    package = folder / "one"
    found = printed(capfd, "where", package, "model.py:53")
    check(found, "where")
    (line,) = found["lines"]
    assert line["nodes"] == {"": ["node_mean"]}
    assert line["calls"] == {"blocks.0": 5, "blocks.1": 5}
    found = printed(capfd, "where", package, "--node", "node_mean")
    check(found, "where")
    assert [line["module"] for line in found["lines"]] == [""]
    found = printed(capfd, "inspect", MODEL)
    check(found, "inspect")
    assert found["inputs"] == [
        {"name": "image", "dtype": "float", "shape": "[batch, 1, 8, 8]"}
    ]
    found = printed(capfd, "diff", package, EXAMPLES / "digits_transformer.onnx")
    check(found, "diff")
    assert found["verdict"] == "changed" and found["weights"]["new"]


def test_the_schemas_refuse_what_they_dont_know() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema |= {"required": ["a"], "additionalProperties": False}
    assert faults_of({"a": 1}, schema, "x") == []
    assert faults_of({"a": "1"}, schema, "x") == ["x.a: str, not ['integer']"]
    assert faults_of({"b": 1}, schema, "x") == ["x.a is missing", "x.b is unknown"]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("report.json", "[]"),
        ("report.json", {"source": {}}),
        ("report.json", {"source": {"file": 5, "sha256": "", "opset": 20}}),
        ("report.json", {"verification": {"worst_relative_error": []}}),
        ("report.json", {"rewrites": 5}),
        ("provenance.json", {"source_map": {"text": [], "lines": {"3": 5}}}),
        ("provenance.json", {"files": {"model.py": None}}),
    ],
)
def test_a_report_that_says_other_things_is_none(
    folder: Path, capfd: Capture, name: str, wrong: Any
) -> None:
    """And hides no other package of the folder."""
    path = folder / "one" / name
    known = json.loads(path.read_text())
    path.write_text(wrong if isinstance(wrong, str) else json.dumps(known | wrong))
    two, one = printed(capfd, "status", folder)["packages"]
    assert two["generator"] and not one["generator"]
    for command in (["where", "40"], ["diff", str(folder / "inner" / "two")]):
        assert main([command[0], str(folder / "one"), command[1]]) == 1
        assert "not a package that fairhand wrote" in capfd.readouterr().err


def test_model_py_in_another_encoding(folder: Path, capfd: Capture) -> None:
    """As an editor saves it: with a mark of UTF-8 it is what it was, as for Python."""
    text = folder / "one" / "model.py"
    content = text.read_bytes()
    text.write_bytes(b"\xef\xbb\xbf" + content)
    assert printed(capfd, "diff", folder / "one", MODEL)["verdict"] == "same"
    assert "validated for all inputs" in verify_all_inputs(folder / "one", MODEL)
    text.write_bytes(content + "# \xe9".encode("latin-1"))
    assert main(["where", str(folder / "one"), "40"]) == 0
