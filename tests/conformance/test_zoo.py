"""Whole models: the light ones of the onnx package, and a folder of one's own.

pytest -m zoo                                  the nine light models
FAIRHAND_ZOO=~/models pytest -m zoo            and every .onnx file in that folder
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx.backend.test
import onnxruntime as ort
import pytest
from support.stages import save_stage

import fairhand
from fairhand.codegen.commands.check import check
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.inputs import make_inputs
from fairhand.rewrites.language.exactness import LEVELS, Exactness
from fairhand.rewrites.simplify import simplify

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"
FOLDERS = [LIGHT]
if "FAIRHAND_ZOO" in os.environ:
    FOLDERS.append(Path(os.environ["FAIRHAND_ZOO"]).expanduser())
MODELS = [path for folder in FOLDERS for path in sorted(folder.glob("*.onnx"))]


@pytest.mark.zoo
@pytest.mark.parametrize("exactness", LEVELS)
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_compiles_and_verifies(path: Path, exactness: str, tmp_path: Path) -> None:
    package = fairhand.compile(path, tmp_path / "package", exactness=exactness)
    found = package.report["verification"]
    sizes = package.report["sizes"]
    assert len(found["cases"]) >= (2 if len(sizes) < 2 else 3)
    assert found["skipped"] == []
    text = (package.path / "model.py").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 88


@pytest.mark.zoo
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_the_certificate_is_repeated(path: Path, tmp_path: Path) -> None:
    package = fairhand.compile(path, tmp_path / "package", verify=False)
    assert "checked" in check(package.path, path)


@pytest.mark.zoo
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_bitwise_rewrites_keep_every_bit(path: Path, tmp_path: Path) -> None:
    """On ONNX Runtime without its own optimisations, at the sizes of the file."""
    loaded = load(path)
    model = loaded.model.clone()
    done = simplify(model, "bitwise")
    assert {a.exactness for a in done.history} <= {Exactness.BITWISE}
    save_stage(model, tmp_path / "rewritten.onnx")
    names = [value.name for value in loaded.model.graph.outputs]
    feed = make_inputs(loaded.model, 0, {})
    results = [
        _session(file).run(names, feed) for file in (path, tmp_path / "rewritten.onnx")
    ]
    for name, a, b in zip(names, *results, strict=True):
        assert a.tobytes() == b.tobytes(), name


def _session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    # A product rounds otherwise where its weight is packed beforehand, which depends on
    # the weight being stored or computed, and that is what folding changes.
    options.add_session_config_entry("session.disable_prepacking", "1")
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
