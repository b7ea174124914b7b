"""The guides to model surgery and fine-tuning: their code runs, as they say."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from support.emitted import EXAMPLES

from fairhand.codegen.compare.comparison import compare

PAGE = Path(__file__).parents[2] / "docs" / "model_surgery.md"
# Of each part: files it writes, and nodes of digits_cnn.onnx that they lack.
PARTS = {
    "Cut a head": {"features.onnx": {"node_linear"}},
    "Change the number of classes": {"four_classes.onnx": set()},
    "Insert a layer": {"normed.onnx": set(), "deeper.onnx": set()},
    "Replace an activation": {"silu.onnx": {"node_relu_1", "node_relu_3"}},
    "Make a fixed batch dynamic": {"any_batch.onnx": set()},
    "Merge a LoRA": {"merged.onnx": set()},
}


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.M | re.S)


def sections() -> dict[str, str]:
    _, *parts = re.split(r"^## (.*)\n", PAGE.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize(
    "title",
    [
        pytest.param(t, marks=[pytest.mark.slow] * (i != 3))
        for i, t in enumerate(sections())
    ],
)
def test_the_code_runs(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copy(EXAMPLES / "digits_cnn.onnx", tmp_path)
    space: dict[str, Any] = {}
    text = PAGE.read_text(encoding="utf-8")
    code = [*blocks(text, "python setup"), *blocks(sections()[title], "python")]
    for block in code:
        for name in [n for n in sys.modules if n.partition(".")[0] == "out"]:
            del sys.modules[name]
        exec(compile(block, str(PAGE), "exec"), space)
    if title == "Merge a LoRA":
        found = compare(Path("digits_cnn.onnx"), Path("merged.onnx"))
        assert found.verdict == "weights" and found.weights["changed"] == [
            "head.weight"
        ]
    was = {node.name for node in onnx.load("digits_cnn.onnx").graph.node}
    assert title in PARTS or len(onnx.load("two_heads.onnx").graph.output) == 2
    for name, gone in PARTS.get(title, {}).items():
        assert was - {node.name for node in onnx.load(name).graph.node} == gone


@pytest.mark.slow
def test_training_on_is_better_on_the_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import fine_tune_digits

    before, after = fine_tune_digits.fine_tune(
        EXAMPLES / "digits_transformer.onnx", tmp_path / "new.onnx"
    )
    assert before < 0.6 and after > before + 0.2
    names = [
        {node.name for node in onnx.load(path).graph.node}
        for path in (EXAMPLES / "digits_transformer.onnx", tmp_path / "new.onnx")
    ]
    assert len(names[0] & names[1]) > 60
    del sys.modules["fine_tune_digits"], sys.modules["train_digits"]
