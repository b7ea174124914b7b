"""What is no usable model ends the command with one clear error, and leaves nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.broken_models import BROKEN
from support.broken_models import FILES as NO_MODELS
from support.emitted import EXAMPLES
from support.handmade import external, floats, model, node, save

from fairhand.codegen.cli import main

Capture = pytest.CaptureFixture[str]


def refused(source: Path, out: Path, capfd: Capture, *options: str) -> str:
    """The one error that the command prints; it leaves nothing behind."""
    before = everything(out.parents[1])
    capfd.readouterr()
    code = main(["compile", str(source), "-o", str(out), *options])
    printed, error = capfd.readouterr()
    assert code == 1 and printed == ""
    assert error.startswith("error: ") and error.count("\nerror:") == 0
    assert "Traceback" not in error and 'File "' not in error
    assert re.fullmatch(r"[^\x00-\x09\x0b-\x1f\x7f]*", error), ascii(error)
    assert everything(out.parents[1]) == before
    return error


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("case", BROKEN)
def test_broken_models(case: str, tmp_path: Path, capfd: Capture) -> None:
    change, parts = BROKEN[case]
    made = model()
    change(made)
    error = refused(save(made, tmp_path), tmp_path / "new" / "net", capfd)
    assert all(part in error for part in parts)


@pytest.mark.parametrize("name", NO_MODELS)
def test_other_files(name: str, tmp_path: Path, capfd: Capture) -> None:
    data, parts = NO_MODELS[name]
    error = refused(save(data, tmp_path, name), tmp_path / "new" / "net", capfd)
    assert all(part in error for part in parts)


def test_truncated(tmp_path: Path, capfd: Capture) -> None:
    whole = (EXAMPLES / "digits_cnn.onnx").read_bytes()
    for length in (1, 10, 100, 1_000, 100_000, len(whole) - 1):
        path = save(whole[:length], tmp_path)
        error = refused(path, tmp_path / "new" / "net", capfd)
        assert "truncated" in error or "no graph" in error, (length, error)


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hosts", "gone.bin"])
def test_external_data(location: str, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "inside").mkdir()
    path = external(tmp_path / "inside", location=location)
    error = refused(path, tmp_path / "new" / "net", capfd)
    assert "a path that leaves the folder" in error or "does not exist" in error


def zeros(*sizes: int) -> onnx.ModelProto:
    made = model(
        node("ConstantOfShape", "sizes", "zeros"),
        node("Add", "zeros x", "y"),
        inputs=(floats("x", 1),),
        weights={"sizes": np.array(sizes)},
    )
    return made


VAST: dict[str, tuple[onnx.ModelProto, str]] = {
    "input": (
        model(node("Relu", "x", "y"), inputs=(floats("x", 2**40, 2**40),)),
        "alone takes 4,835,703,278,458,516,698,824,704 bytes",
    ),
    "weight": (zeros(2**40, 4), "alone takes 17,592,186,044,416 bytes"),
    "overflow": (zeros(2**40, 2**40), "bytes"),
}


@pytest.mark.parametrize("case", VAST)
def test_vast_sizes(case: str, tmp_path: Path, capfd: Capture) -> None:
    made, part = VAST[case]
    error = refused(save(made, tmp_path), tmp_path / "new" / "net", capfd)
    assert part in error


def test_names_in_errors(tmp_path: Path, capfd: Capture) -> None:
    """Names are quoted in a message, and it is still one that a terminal survives."""
    for text in ("a\nerror: b", "\x1b[2J", "[/red] [bold]", "\\[/red]", ":smile:"):
        made = model(node("Relu", "x", "y", name=text))
        made.graph.node[0].domain = text
        made.graph.node[0].op_type = text
        made.opset_import.add(domain=text, version=3)
        error = refused(save(made, tmp_path), tmp_path / "new" / "net", capfd)
        assert "1 operator can't be compiled" in error
        assert text.startswith(("a", "\x1b", "\\")) or text in error


def test_attributes_that_are_texts(tmp_path: Path, capfd: Capture) -> None:
    """They are compared with what ONNX knows; a message may quote them."""
    for op, inputs, key in (
        ("Gelu", "x", "approximate"),
        ("Einsum", "x w", "equation"),
    ):
        made = model(
            node(op, inputs, "y", **{key: "\x1b[2J__import__('os')\n"}), opset=20
        )
        error = refused(save(made, tmp_path), tmp_path / "new" / "net", capfd)
        assert op in error
