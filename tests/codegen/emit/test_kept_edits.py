"""What a user changed in a package outlives the next compile."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.emitted import contents
from support.networks import looped

import fairhand
from fairhand.codegen.emit import kept_edits
from fairhand.codegen.emit.kept_edits import edited_files
from fairhand.codegen.emit.package_files import read_report


def retrained() -> onnx.ModelProto:
    model = looped()
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.ndim == 2:
            tensor.CopyFrom(
                numpy_helper.from_array(array * np.float32(0.5), tensor.name)
            )
    return model


@pytest.fixture
def package(tmp_path: Path) -> Path:
    fairhand.compile(looped(), tmp_path / "net", verify=False)
    assert edited_files(tmp_path / "net") == []
    return tmp_path / "net"


def edit(path: Path, old: str, new: str) -> str:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("made", ["anew", "from the cache"])
def test_an_edit_is_merged_again_and_again(package: Path, made: str) -> None:
    mine = edit(package / "model.py", "torch.tanh", "torch.sin")
    init = edit(package / "__init__.py", "Session() stands", "My Session() stands")
    for model in (retrained(), looped()):
        found = fairhand.compile(model, package, verify=False, cache=made != "anew")
        assert found.edited == ("__init__.py", "model.py")
        now = (package / "model.py").read_text(encoding="utf-8")
        changed = set(now.splitlines()) ^ set(mine.splitlines())
        assert all(line.startswith("MODEL_SHA256 = ") for line in changed)
        assert (package / "__init__.py").read_text(encoding="utf-8") == init
        assert edited_files(package) == ["__init__.py", "model.py"]
        report = read_report(package)
        assert "torch.tanh" in report["source_map"]["text"]
        assert report["edited"] == ["__init__.py", "model.py"]


def test_without_an_edit_all_is_replaced(package: Path) -> None:
    found = fairhand.compile(looped(shared="Sigmoid"), package, verify=False)
    assert found.edited == () and "edited" not in read_report(package)
    assert "torch.sigmoid" in (package / "model.py").read_text(encoding="utf-8")


def test_a_conflict_leaves_the_package_alone(package: Path) -> None:
    edit(package / "model.py", "torch.tanh", "torch.sin")
    before = contents(package.parent)
    with pytest.raises(fairhand.FairhandError, match="conflicts: 1") as error:
        fairhand.compile(looped(shared="Sigmoid"), package, verify=False)
    assert error.value.where == str(package.resolve() / "model.py")
    assert contents(package.parent) == before


def test_an_edit_where_git_is_not(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(package / "model.py", "torch.tanh", "torch.sin")
    before = contents(package)

    def run(*arguments: object, **options: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(kept_edits.subprocess, "run", run)
    with pytest.raises(fairhand.FairhandError, match="git, which would merge"):
        fairhand.compile(retrained(), package, verify=False)
    assert contents(package) == before


def test_trained_weights_are_not_overwritten(package: Path) -> None:
    path = package / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    before = contents(package)
    with pytest.raises(
        fairhand.FairhandError, match=r"weights\.safetensors was edited"
    ):
        fairhand.compile(retrained(), package, verify=False)
    assert contents(package) == before
    path.unlink()
    fairhand.compile(retrained(), package, verify=False)
    assert edited_files(package) == []


def test_a_package_of_an_older_version(package: Path) -> None:
    path = package / "report.json"
    report = read_report(package)
    (package / "provenance.json").unlink()
    del report["files"], report["source_map"]["text"]
    path.write_text(json.dumps(report))
    fairhand.compile(looped(), package, verify=False)
    (package / "provenance.json").unlink()
    path.write_text(json.dumps(report))
    edit(package / "model.py", "torch.tanh", "torch.sin")
    with pytest.raises(fairhand.FairhandError, match=r"model\.py was edited"):
        fairhand.compile(retrained(), package, verify=False)


def test_without_hashes_nothing_is_overwritten(package: Path) -> None:
    mine = edit(package / "model.py", "torch.tanh", "torch.sin")
    (package / "provenance.json").unlink()
    with pytest.raises(fairhand.FairhandError, match=r"model\.py is not noted in"):
        fairhand.compile(retrained(), package, verify=False)
    assert (package / "model.py").read_text(encoding="utf-8") == mine


def test_without_hashes_what_is_as_it_would_be_may_be_written(package: Path) -> None:
    (package / "provenance.json").unlink()
    before = contents(package)
    fairhand.compile(looped(), package, verify=False)
    assert {**contents(package), **before} == contents(package)


def test_a_file_of_the_users_stays_whatever_it_is_called(package: Path) -> None:
    (package / "generate.py").write_text("MINE = 1\n", encoding="utf-8")
    fairhand.compile(retrained(), package, verify=False)
    assert (package / "generate.py").read_text(encoding="utf-8") == "MINE = 1\n"
    assert edited_files(package) == []


@pytest.mark.parametrize("edited", [False, True])
def test_lines_may_end_as_on_windows(package: Path, edited: bool) -> None:
    if edited:
        edit(package / "model.py", "torch.tanh", "torch.sin")
    paths = [path for path in package.glob("*.py") if path.name != "session.py"]
    for path in paths:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert edited_files(package) == (["model.py"] if edited else [])
    fairhand.compile(retrained(), package, verify=False)
    assert ("torch.sin" in (package / "model.py").read_text("utf-8")) == edited
    for path in package.glob("*.py"):
        lines = path.read_bytes().splitlines(keepends=True)
        assert {line.endswith(b"\r\n") for line in lines} == {path in paths}
    assert edited_files(package) == (["model.py"] if edited else [])


def test_what_is_no_text_is_refused(package: Path) -> None:
    path = package / "model.py"
    path.write_bytes(path.read_bytes() + b"# \xe9\n")
    with pytest.raises(fairhand.FairhandError, match=r"model\.py is no UTF-8"):
        fairhand.compile(looped(), package, verify=False)


@pytest.mark.parametrize(
    ("own", "new", "lacks"),
    [
        ("class Part", "class Other(Part): ...", "Part"),
        ("self.norm", "class Two(Net): ...", ""),
        ("import torch", "def wide(x): return torch.relu(x)", "torch"),
        ("self.norm", "    def more(self): return self.norm", "self.norm"),
    ],
    ids=" ".join,
)
def test_lines_that_merge_and_do_not_fit_are_refused(
    own: str, new: str, lacks: str, tmp_path: Path
) -> None:
    """What was renamed, or is gone, is used in a line that stands elsewhere."""
    word = own.split()[-1].removeprefix("self.")
    base = """import torch

class Part:
    ...

class Net(Part):
    def __init__(self):
        self.norm = torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x)

    #
    #
"""
    mine, fresh = tmp_path / "mine.py", tmp_path / "new.py"
    renamed = base.replace("torch", "t").replace("import t", "import torch as t")
    mine.write_text(renamed if word == "torch" else base.replace(word, "mine"))
    fresh.write_text(f"{base}\n{new}\n")
    if not lacks:
        assert new.encode() in kept_edits._merge(mine, base, fresh)
        return
    with pytest.raises(fairhand.FairhandError, match=f"together they lack {lacks}"):
        kept_edits._merge(mine, base, fresh)
