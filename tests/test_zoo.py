"""Whole models: the light ones of the onnx package, and a folder of one's own.

pytest -m zoo                                  the nine light models
FAIRHAND_ZOO=~/models pytest -m zoo            and every .onnx file in that folder
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx.backend.test
import pytest

import fairhand

LIGHT = Path(onnx.backend.test.__file__).parent / "data" / "light"
FOLDERS = [LIGHT]
if "FAIRHAND_ZOO" in os.environ:
    FOLDERS.append(Path(os.environ["FAIRHAND_ZOO"]).expanduser())
MODELS = [path for folder in FOLDERS for path in sorted(folder.glob("*.onnx"))]


@pytest.mark.zoo
@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_compiles_and_verifies(path: Path, tmp_path: Path) -> None:
    package = fairhand.compile(path, tmp_path / "package")
    found = package.report["verification"]
    sizes = package.report["sizes"]
    assert len(found["cases"]) >= (2 if len(sizes) < 2 else 3)
    assert found["skipped"] == []
    text = (package.path / "model.py").read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 88
