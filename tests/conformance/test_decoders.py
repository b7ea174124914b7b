"""Language models token by token, beside ONNX Runtime.

FAIRHAND_DECODERS=~/decoders pytest -m decoders      every .onnx file below that folder
"""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest
from support.contrib_decoder import decoder
from tools.greedy_tokens import decode

import fairhand

FOLDER = os.environ.get("FAIRHAND_DECODERS", "")
FOUND = sorted(Path(FOLDER).expanduser().rglob("*.onnx")) if FOLDER else []
TOKENS = 64


@pytest.mark.decoders
@pytest.mark.parametrize("path", FOUND, ids=str)
def test_tokens_are_those_of_onnx_runtime(path: Path, tmp_path: Path) -> None:
    package = fairhand.compile(path, tmp_path / "decoder")
    found = decode(path, package.path, TOKENS)
    assert found.same == TOKENS and not found.off, found


@pytest.mark.parametrize("room", [0, 24], ids=["growing", "with-room"])
def test_a_small_decoder(room: int, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    onnx.save(decoder(None), path)
    package = fairhand.compile(path, tmp_path / "package")
    found = decode(path, package.path, 12, room)
    assert found.same == found.steps == 12 and not found.off and found.varied > 3
