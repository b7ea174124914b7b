"""What doesn't load is one LoadError: nothing printed, nothing left, no crash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.handmade import BIG, RNG, external, floats, model, node, save

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


Change = Callable[[onnx.ModelProto], object]


def dims(*sizes: int) -> Change:
    return lambda m: m.graph.initializer[0].dims.__setitem__(slice(None), sizes)


def loops(made: onnx.ModelProto) -> None:
    made.graph.node.append(node("Relu", "h", "i", name="first"))
    made.graph.node.append(node("Neg", "i", "h", name="second"))


def calls_itself(made: onnx.ModelProto) -> None:
    call = node("F", "a", "b")
    call.domain = "local"
    made.functions.append(
        helper.make_function("local", "F", ["a"], ["b"], [call], made.opset_import)
    )


def calls_twice(made: onnx.ModelProto) -> None:
    imports = [*made.opset_import, helper.make_opsetid("local", 1)]
    for i in range(40):
        body = [node(f"F{i + 1}", "a", "c"), node(f"F{i + 1}", "c", "b")]
        for call in body:
            call.domain = "local" if i < 39 else ""
            call.op_type = call.op_type if i < 39 else "Relu"
        made.functions.append(
            helper.make_function("local", f"F{i}", ["a"], ["b"], body, imports)
        )
    made.graph.node.append(node("F0", "x", "z"))
    made.graph.node[-1].domain = "local"
    made.opset_import.append(imports[-1])


BROKEN: dict[str, tuple[Change, list[str]]] = {
    "2**40 elements": (
        dims(2**40),
        ["initializer 'w' does not hold what it declares", "4,398,046,511,104 bytes"],
    ),
    "2**80 elements": (dims(2**40, 2**40), ["does not hold what it declares"]),
    "negative size": (dims(-1, 64), ["initializer 'w' has an impossible shape"]),
    "too many axes": (dims(*[1] * 70), ["impossible shape"]),
    "missing content": (
        lambda m: m.graph.initializer[0].ClearField("raw_data"),
        ["needs 4,096 entries, 0 are there"],
    ),
    "content twice": (
        lambda m: m.graph.initializer[0].float_data.append(1),
        ["keeps its content in the wrong field"],
    ),
    "no element type": (
        lambda m: setattr(m.graph.initializer[0], "data_type", 99),
        ["no usable element type", "data type 99"],
    ),
    "missing initializer": (
        lambda m: m.graph.ClearField("initializer"),
        ["value 'w' is used, but nothing defines it", "node 'the_MatMul' (MatMul)"],
    ),
    "undefined output": (
        lambda m: setattr(m.graph.output[0], "name", "z"),
        ["value 'z' is used, but nothing defines it", "the outputs of graph 'g'"],
    ),
    "no outputs": (
        lambda m: m.graph.ClearField("output"),
        ["the model has no outputs", "graph 'g'"],
    ),
    "output twice": (
        lambda m: m.graph.output.append(m.graph.output[0]),
        ["output 'y' is listed twice"],
    ),
    "value twice": (
        lambda m: m.graph.node.append(node("Relu", "x", "y")),
        ["value 'y' is defined twice", "an output of node 'the_Relu'"],
    ),
    "initializer twice": (
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        ["initializer 'w' is there twice"],
    ),
    "input twice": (
        lambda m: m.graph.input.append(m.graph.input[0]),
        ["value 'x' is defined twice", "an input of graph 'g'"],
    ),
    "cycle": (loops, ["the graph has a cycle", "node 'first' (Relu)"]),
    "input without type": (
        lambda m: m.graph.input[0].ClearField("type"),
        ["input 'x' has no type"],
    ),
    "negative dimension": (
        lambda m: m.graph.input[0].type.CopyFrom(floats("x", -7).type),
        ["value 'x' has a negative dimension", "-7"],
    ),
    "map": (
        lambda m: m.graph.input[0].type.map_type.SetInParent(),
        ["is a map with impossible keys"],
    ),
    "opset too new": (
        lambda m: setattr(m.opset_import[0], "version", 2**40),
        ["in an impossible version", "version 1099511627776"],
    ),
    "opset of tomorrow": (
        lambda m: setattr(m.opset_import[0], "version", 99),
        ["opset 99 is not known", f"opsets 1 to {onnx.defs.onnx_opset_version()}"],
    ),
    "opset too old": (
        lambda m: setattr(m.opset_import[0], "version", 0),
        ["in an impossible version", "version 0"],
    ),
    "opset of another domain": (
        lambda m: m.opset_import.append(helper.make_opsetid("com.x", 2**40)),
        ["imports 'com.x' in an impossible version", "version 1099511627776"],
    ),
    "opset twice": (
        lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx", 17)),
        ["imports '' in two versions"],
    ),
    "IR version": (
        lambda m: setattr(m, "ir_version", 99),
        ["IR version 99 is not known", "IR versions 3 to"],
    ),
    "unknown operator": (
        lambda m: setattr(m.graph.node[0], "op_type", "MatNul"),
        ["No Op registered for MatNul", "node 'the_MatMul' (MatNul), opset 18"],
    ),
    "unknown domain": (
        lambda m: setattr(m.graph.node[0], "domain", "com.nobody"),
        ["No opset import for domain 'com.nobody'"],
    ),
    "unknown attribute": (
        lambda m: m.graph.node[0].attribute.append(helper.make_attribute("q", 1)),
        ["Unrecognized attribute: q", "the_MatMul"],
    ),
    "a word that is no text": (
        lambda m: m.graph.node[0].attribute.append(
            helper.make_attribute("mode", b"\xff\xfe")
        ),
        ["attribute 'mode' of node 'the_MatMul' (MatMul) is not UTF-8"],
    ),
    "too few inputs": (
        lambda m: m.graph.node[0].input.pop(),
        ["has input size 1 not in range"],
    ),
    "recursive function": (calls_itself, ["function calls itself", "function 'F'"]),
    "exponential functions": (calls_twice, ["functions expand to 1,099,511,627,7"]),
    "no opset": (
        lambda m: m.ClearField("opset_import"),
        ["does not say which operators it means", "may be truncated"],
    ),
    "odd names": (
        lambda m: m.graph.node[0].input.__setitem__(1, "w\n\x1b[31m'" + "a" * 500),
        [r'value "w\n\x1b[31m' + "'aaa", 'aa..." is used, but nothing defines it'],
    ),
    "a name that is no text": (
        lambda m: m.MergeFromString(b"\x3a\x04\x12\x02\xff\xfe"),
        ["a name or text that is not UTF-8", "field graph.name"],
    ),
}


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
    "absolute": ({"location": "/etc/passwd"}, ["must lie in the folder", "passwd"]),
    "parent": ({"location": "../weights.bin"}, ["must lie in the folder"]),
    "roundabout": ({"location": "a/../weights.bin"}, ["must lie in the folder"]),
    "drive": ({"location": "C:\\weights.bin"}, ["must lie in the folder"]),
    "backslashes": ({"location": "..\\weights.bin"}, ["must lie in the folder"]),
    "nothing": ({"location": ""}, ["must lie in the folder"]),
    "no location": ({"location": None}, ["must lie in the folder"]),
    "NUL": ({"location": "a\0b"}, ["must lie in the folder"]),
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


FILES: dict[str, tuple[bytes, list[str]]] = {
    "empty.onnx": (b"", ["the model file is empty"]),
    "text.onnx": (b"hello, world\n" * 9, ["is not an ONNX model", "another format"]),
    "zeros.onnx": (bytes(99), ["is not an ONNX model"]),
    "page.onnx": (b"<!DOCTYPE html><html></html>", ["not an ONNX model", "web page"]),
    "state.onnx": (b"PK\x03\x04" + bytes(99), ["not an ONNX model", "PyTorch"]),
    "lfs.onnx": (b"version https://git-lfs.github.com/spec/v1\n", ["git lfs pull"]),
    "no_graph.onnx": (b"\x08\x09", ["is not an ONNX model", "it holds no graph"]),
    "endless_number.onnx": (b"\x08" + b"\xff" * 20, ["more than 64 bits"]),
    "group.onnx": (b"\x08\x09\x3b", ["no ONNX field begins with 0x3b"]),
    "bad.onnxtxt": (b"agraph (float[N] x) => {", ["not a model in ONNX's textual"]),
    "deep.onnxtxt": (b"({[<" * 99999, ["brackets more than 200 deep"]),
    "latin.onnxtxt": (b"\xff", ["can't be read", "utf-8"]),
}


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
