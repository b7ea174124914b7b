"""Real networks, quantised and in half precision.

FAIRHAND_ZOO=~/models pytest -m quantised      the six of quantised_zoo.MODELS there
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.golden_images import quantized_cnn
from support.last_bits import shares
from support.quantized import HOW, roundings
from tools.quantised_zoo import (
    DECODES,
    HALF,
    MODELS,
    Row,
    counted,
    decode,
    line,
    measure,
    measure_half,
    pieces,
)

FOLDER = Path(os.environ.get("FAIRHAND_ZOO", "")).expanduser()
FOUND = [path for n in MODELS if (path := FOLDER / f"{n}.onnx").is_file()]


@pytest.mark.quantised
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_each_rounding_is_within_a_step(path: Path, how: str, tmp_path: Path) -> None:
    row = measure(path, how, tmp_path)
    assert row.most_steps <= 1 and row.whole <= row.allowed, row
    if how == "qoperator" and path.stem != "distilbert":
        assert row.others == 0, row


@pytest.mark.quantised
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_half_precision(path: Path, dtype: str, tmp_path: Path) -> None:
    """`measure_half` asserts the tolerance of the type."""
    assert measure_half(path, dtype, tmp_path).dtype == dtype


@pytest.mark.quantised
def test_decoding_in_four_bits(tmp_path: Path) -> None:
    path = FOLDER / f"{DECODES}.onnx"
    if not path.is_file():
        pytest.skip("no such model in FAIRHAND_ZOO")
    assert decode(path, tmp_path).same_tokens == 16


@pytest.mark.parametrize("how", ["qdq", "qoperator"])
def test_pieces_of_a_small_one(how: str, tmp_path: Path) -> None:
    model = quantized_cnn(how)
    image = np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype("f")
    steps, others, numbers = pieces(model, {"image": image}, tmp_path)
    assert steps <= 1 and others <= 2 and numbers > 10_000
    assert len(roundings(model)) >= 8


def test_a_row_of_the_page() -> None:
    row = Row("net", "qdq", 90, 7, 1, 3, 45_000, 0.25, 2.0, 0.0)
    wanted = "| net | qdq | 90 | 7 | 1 | 3 of 45,000 | 0.25 | 2.00 | 0.00 |\n"
    assert line(row) == wanted and row.allowed == 4
    off = [replace(row, whole=whole) for whole in (2.0, 2.5)]
    assert "**1 of 3 are within one step as a whole, 1 of the other 2\n" in counted(
        [row, *off]
    )


def test_where_bits_differ() -> None:
    """The page says so of both columns: some differ, whoever computes."""
    found = {share.what: share for share in shares()}
    assert 0 < found["Sigmoid"].exact < 1 and 0 < found["Sigmoid"].ours < 1
    assert all(0 <= share.ours <= 1 and share.exact > 0 for share in found.values())
