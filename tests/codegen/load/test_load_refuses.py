"""What doesn't load is one LoadError: nothing printed, nothing left, no crash."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.broken_models import BROKEN, FILES
from support.handmade import BIG, RNG, external, model, node, save

from fairhand.analysis.errors import LoadError
from fairhand.codegen.load.read_model import load


def refused(source: Path | onnx.ModelProto | ir.Model) -> str:
    """The message of the error; nothing printed, and nothing left beside the model."""
    folder = source.parent if isinstance(source, Path) else None
    before = sorted(folder.iterdir()) if folder else []
    with pytest.raises(LoadError) as caught:
        load(source)
    assert not folder or sorted(folder.iterdir()) == before
    assert "Traceback" not in str(caught.value) and "\0" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("kind", ["file", "object"])
def test_broken_models(
    case: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    change, expected = BROKEN[case]
    made = model()
    change(made)
    text = refused(save(made, tmp_path) if kind == "file" else made)
    assert all(part in text for part in expected), text
    assert len(text) < 1000
    assert capfd.readouterr() == ("", "")


EXTERNAL: dict[str, tuple[dict[str, object], list[str]]] = {
    "absolute": ({"location": "/etc/passwd"}, ["leaves the folder", "passwd"]),
    "parent": ({"location": "../weights.bin"}, ["a path that leaves the folder"]),
    "roundabout": (
        {"location": "a/../../weights.bin"},
        ["path that leaves the folder"],
    ),
    "drive": ({"location": "C:\\weights.bin"}, ["a path that leaves the folder"]),
    "backslashes": ({"location": "..\\weights.bin"}, ["a path that leaves the folder"]),
    "nothing": ({"location": ""}, ["a file with a name"]),
    "no location": ({"location": None}, ["a file with a name"]),
    "NUL": ({"location": "a\0b"}, ["a file with a name"]),
    "our own notes": ({"location": "\0cut:0"}, ["has an impossible name"]),
    "link to outside": ({"location": "link"}, ["must lie in the folder", "'link'"]),
    "missing": ({"location": "gone.bin"}, ["'gone.bin'", "does not exist"]),
    "folder": ({"location": "folder"}, ["'folder'", "is not a regular file"]),
    "pipe": ({"location": "pipe"}, ["'pipe'", "is not a regular file"]),
    "offset": ({"offset": 2**40}, ["lies outside its external file", "of 16388"]),
    "last byte": ({"offset": 5}, ["bytes 5 to 16389 of 16388"]),
    "negative": ({"offset": -4}, ["has no usable offset", "value '-4'"]),
    "no number": ({"length": "all"}, ["has no usable length", "value 'all'"]),
    "endless": ({"offset": "9" * 5000}, ["has no usable offset"]),
    "too short": ({"length": 100}, ["needs 16,384 bytes, 100 are there"]),
}


@pytest.mark.parametrize("case", EXTERNAL)
def test_broken_external_data(
    case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "inside"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "weights.bin").write_bytes(BIG.tobytes())
    (folder / "link").symlink_to("../weights.bin")
    os.mkfifo(folder / "pipe")
    notes, expected = EXTERNAL[case]
    text = refused(external(folder, **notes))
    assert all(part in text for part in expected), text
    assert "initializer 'w'" in text and len(text) < 1000
    assert capfd.readouterr() == ("", "")


def test_external_data_of_an_object() -> None:
    made = model()
    made.graph.initializer[0].ClearField("raw_data")
    made.graph.initializer[0].data_location = TensorProto.EXTERNAL
    made.graph.initializer[0].external_data.add(key="location", value="weights.bin")
    assert "pass the path of the .onnx file instead" in refused(made)


@pytest.mark.parametrize("name", FILES)
def test_other_files(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, expected = FILES[name]
    text = refused(save(data, tmp_path, name))
    assert all(part in text for part in expected), text
    assert capfd.readouterr() == ("", "")


def test_what_is_no_file(tmp_path: Path) -> None:
    assert "the model file does not exist" in refused(tmp_path / "gone.onnx")
    assert "the model file is not a regular file" in refused(tmp_path)
    os.mkfifo(tmp_path / "pipe.onnx")
    assert "is not a regular file" in refused(tmp_path / "pipe.onnx")


def test_truncated_anywhere(tmp_path: Path) -> None:
    whole = model().SerializeToString()
    for length in range(1, len(whole), 97):
        text = refused(save(whole[:length], tmp_path))
        assert "truncated" in text or "no graph" in text, (length, text)


def test_damaged_anywhere(tmp_path: Path) -> None:
    """Whatever bytes change: it loads, or it is a LoadError."""
    made = model(node("Relu", "x", "h"), node("MatMul", "h w", "y"))
    made.graph.initializer[0].CopyFrom(numpy_helper.from_array(BIG[:, :2], "w"))
    whole = made.SerializeToString()
    for _ in range(200):
        data = bytearray(whole)
        for position in RNG.integers(0, len(data), 2):
            data[position] = RNG.integers(0, 256)
        try:
            load(save(bytes(data), tmp_path))
        except LoadError as error:
            assert len(str(error)) < 1000


def test_sparse_that_does_not_fit(tmp_path: Path) -> None:
    values = helper.make_tensor("s", TensorProto.FLOAT, [1], [5.0])
    for place, shape, expected in (
        (9, [2, 3], "indices that do not fit its shape [2, 3]"),
        (-1, [2, 3], "indices that do not fit"),
        (0, [2**20, 2**20], "too large to be written out"),
        (0, [-1, 3], "is not usable"),
    ):
        made = model()
        indices = helper.make_tensor("i", TensorProto.INT64, [1], [place])
        sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=shape)
        made.graph.sparse_initializer.append(sparse)
        assert expected in refused(save(made, tmp_path))
