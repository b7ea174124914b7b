"""Strings and maps are followed as results of calls that nobody looks into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fairhand
from fairhand.analysis.errors import VerificationError
from fairhand.codegen.commands.verify import verify_all_inputs
from fairhand.codegen.validate.network import whole
from fairhand.codegen.validate.recorder import Recorder

CLASSIFIER = """
    net (float[n, 3] x) => (int64[n] label, seq(map(int64, float)) scores)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6.5}> {
        y = MatMul (x, w)
        label = ArgMax <axis = 1, keepdims = 0> (y)
        s = Softmax <axis = 1> (y)
        scores = ai.onnx.ml.ZipMap <classlabels_int64s = [3, 8]> (s)
    }"""
WORDS = """
    net (string[n, 1] colour, float[n, 1] size, string[m] words)
        => (float[n, 3] y, string[m, k] parts, int64[m] count)
        <string[2] known = {"blue", "red"}> {
        is_known = Equal (colour, known)
        f = Cast <to = 1> (is_known)
        y = Concat <axis = 1> (f, size)
        twice = StringConcat (words, words)
        parts, count = StringSplit <delimiter = "-"> (twice)
    }"""


def parsed(body: str) -> onnx.ModelProto:
    opsets = '["" : 20, "ai.onnx.ml" : 3]'
    return onnx.parser.parse_model(f"<ir_version: 10, opset_import: {opsets}>\n{body}")


def test_a_map_of_scores_is_validated_for_all_sizes(tmp_path: Path) -> None:
    package = fairhand.compile(parsed(CLASSIFIER), tmp_path / "net", cache=False)
    found = package.report["emission"]
    assert found["validated"] and found["sizes"] == "all" and not found["where"]


def test_strings_are_validated_at_sizes_that_are_numbers(tmp_path: Path) -> None:
    package = fairhand.compile(parsed(WORDS), tmp_path / "net", cache=False)
    found = package.report["emission"]
    assert found["validated"] and found["sizes"] != "all"
    assert found["where"] == ["strings are one letter long"]


def edited(body: str, edit: Callable[[str], str], folder: Path) -> tuple[Path, Path]:
    """A package whose model.py was edited, and its model."""
    file = folder / "net.onnx"
    onnx.save(parsed(body), file)
    package = fairhand.compile(file, folder / "net", cache=False).path
    page = package / "model.py"
    text = page.read_text("utf-8")
    assert edit(text) != text
    page.write_text(edit(text), "utf-8")
    return package, file


@pytest.mark.parametrize(
    ("body", "edit"),
    [
        (CLASSIFIER, lambda text: text.replace("[3, 8]", "[8, 3]")),
        (CLASSIFIER, lambda text: text.replace("zip(keys, row", "zip(keys, row[::-1]")),
        (WORDS, lambda text: text.replace('"blue", "red"', '"red", "blue"')),
        (WORDS, lambda text: text.replace('"-"', '"+"')),
        (WORDS, lambda text: text.replace("x == y", "x != y")),
    ],
)
def test_another_map_or_string_is_told(
    body: str, edit: Callable[[str], str], tmp_path: Path
) -> None:
    package, file = edited(body, edit, tmp_path)
    with pytest.raises(VerificationError, match=r"output \w+ by|other calls"):
        verify_all_inputs(package, file)


@pytest.mark.parametrize("body", [CLASSIFIER, WORDS])
def test_an_edit_that_changes_nothing_is_accepted(body: str, tmp_path: Path) -> None:
    package, file = edited(body, lambda text: text + "\n# a note\n", tmp_path)
    assert verify_all_inputs(package, file).startswith("validated for all inputs")


SHADOWED = {
    CLASSIFIER: "def zip(x, y, strict):\n    return enumerate(y, 3)",
    WORDS: "class re:\n    pass",
}


@pytest.mark.parametrize("body", SHADOWED)
def test_a_name_that_a_function_reads_may_be_another(body: str, tmp_path: Path) -> None:
    """The function's text is the table's, and what it calls isn't."""
    head = "class Net("
    new = f"{SHADOWED[body]}\n\n\n{head}"
    package, file = edited(body, lambda text: text.replace(head, new), tmp_path)
    if body == CLASSIFIER:
        with pytest.raises(VerificationError):
            verify_all_inputs(package, file)
    else:  # no function reads that
        assert verify_all_inputs(package, file).startswith("validated for all")


def test_types_that_only_checkers_know_are_no_fault() -> None:
    def helper(x: torch.Tensor) -> NamedForCheckers:  # type: ignore[name-defined]  # noqa: F821
        return x

    assert whole(helper, Recorder(FakeTensorMode()))(3) == 3
