"""Strings and maps are followed as results of calls that nobody looks into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

import fairhand
from fairhand.analysis.errors import VerificationError
from fairhand.codegen.commands.verify import verify_all_inputs

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
    model = parsed(body)
    onnx.save(model, tmp_path / "net.onnx")
    package = fairhand.compile(tmp_path / "net.onnx", tmp_path / "net", cache=False)
    page = package.path / "model.py"
    text = page.read_text("utf-8")
    changed = edit(text)
    assert changed != text
    page.write_text(changed, "utf-8")
    with pytest.raises(VerificationError):
        verify_all_inputs(package.path, tmp_path / "net.onnx")
