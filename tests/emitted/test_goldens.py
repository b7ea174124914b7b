"""Whole emitted modules, one per kind of network, read and committed as texts.

Each is compiled with verification against ONNX Runtime. `pytest --update-goldens`
writes the texts anew; hashes of the files, which no reader checks, are left out.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.emitter_models import run_here
from support.goldens import GOLDENS, MODELS

import fairhand
from fairhand.codegen.verify import parity

LEVELS = {"faithful_cnn": 0, "encoder_merged": 2}


@pytest.mark.parametrize("name", MODELS)
def test_text_is_the_one_that_was_read(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)
    model = MODELS[name]()
    model.graph.name = name
    package = fairhand.compile(model, tmp_path / name, level=LEVELS.get(name, 1))
    assert package.report["verification"]["cases"]
    text = (package.path / "model.py").read_text("utf-8")
    text = re.sub(r"\b[0-9a-f]{64}\b", "0" * 64, text)
    golden = GOLDENS / f"{name}.py"
    if request.config.getoption("--update-goldens"):
        GOLDENS.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8", newline="\n")
    assert golden.is_file(), "pytest --update-goldens writes it"
    assert text == golden.read_text("utf-8")


def test_every_golden_has_its_model() -> None:
    assert {path.stem for path in GOLDENS.glob("*.py")} == set(MODELS)
