"""Where a package goes: only into its own place, and only when it is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from support.emitted import FILES, contents, imported, small_model

import fairhand
from fairhand.analysis.ops.registry import OPS
from fairhand.codegen.emit.package_files import note_files, read_report


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("notes.txt", "mine"),
        ("report.json", "{}"),
        ("report.json", '{"source": 1}'),
        ("model.py", ""),
    ],
)
def test_a_folder_that_is_no_package_is_untouched(
    file: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / file).write_text(text)
    before = contents(tmp_path)
    with pytest.raises(fairhand.FairhandError, match="is not a package that fairhand"):
        fairhand.compile(small_model(), tmp_path / "mine", verify=False)
    assert contents(tmp_path) == before and len(list(tmp_path.iterdir())) == 1


def test_a_file_and_the_current_folder_are_no_places_for_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(fairhand.FairhandError, match="is not a package"):
        fairhand.compile(small_model(), tmp_path / "file", verify=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (".", ".."):
        with pytest.raises(fairhand.FairhandError, match="the current folder"):
            fairhand.compile(small_model(), place, verify=False)
    assert contents(tmp_path) == {"file": b"mine"}


@pytest.mark.parametrize("name", ["json", "onnx"])
def test_a_package_may_be_called_like_a_module(name: str, tmp_path: Path) -> None:
    fairhand.compile(small_model(), tmp_path / name)
    report = read_report(tmp_path / name)
    assert report["verification"]["cases"] and report["emission"]["validated"]


def test_an_empty_folder_and_an_older_package_are_replaced(tmp_path: Path) -> None:
    out = tmp_path / "net"
    out.mkdir()
    fairhand.compile(small_model(), out, verify=False)
    first = contents(out)
    assert set(first) == FILES
    report = read_report(out)
    (out / "kernels.py").write_text("of an older version")
    note_files(out, report)
    (out / "NOTES.md").write_text("mine")
    (out / "tools").mkdir()
    (out / "tools" / "model.py").write_text("mine too")
    fairhand.compile(small_model(2.0), out, verify=False)
    second = contents(out)
    assert second.pop("NOTES.md") == b"mine"
    assert second.pop("tools/model.py") == b"mine too"
    assert set(second) == FILES
    changed = {name for name in FILES if first[name] != second[name]}
    assert changed == {
        *("model.py", "weights.safetensors", "report.json", "provenance.json")
    }
    assert [path.name for path in tmp_path.iterdir()] == ["net"]
    module = imported(out)
    x = np.eye(4, dtype=np.float32)
    (wanted,) = ort.InferenceSession(small_model(2.0).SerializeToString()).run(
        None, {"x": x}
    )
    np.testing.assert_allclose(module.Session().run(None, {"x": x})[0], wanted)


def test_a_package_that_fails_to_verify_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fairhand.compile(small_model(), tmp_path / "net", verify=False)
    before = contents(tmp_path)
    wrong = fairhand.OpDef(
        "Relu", 14, fairhand.ONE_TO_ONE, torch=lambda t, n, x: t.F.relu(x) + 0.5
    )
    monkeypatch.setitem(OPS, ("", "Relu"), wrong)
    for out in ("net", "new", "not/yet/there"):
        with pytest.raises(fairhand.VerificationError, match="node 'relu'"):
            fairhand.compile(small_model(), tmp_path / out)
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["net"]


def test_a_value_too_large_to_run_is_refused_before_it_is_run(tmp_path: Path) -> None:
    made = small_model()
    zeros = helper.make_node("ConstantOfShape", ["vast"], ["zeros"], "zeros")
    made.graph.node.append(zeros)
    made.graph.node.append(helper.make_node("Concat", ["zeros", "y"], ["z"], axis=0))
    shape = numpy_helper.from_array(np.array([2**40, 3]), "vast")
    made.graph.initializer.append(shape)
    made.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info("z"))
    with pytest.raises(fairhand.VerificationError, match="alone takes 13,194,139,533"):
        fairhand.compile(made, tmp_path / "net")
    assert list(tmp_path.iterdir()) == []
    fairhand.compile(made, tmp_path / "net", verify=False)
