"""Tables of places and numbers that are spread, as what they stand for.

Every model is compiled with verification.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.emitter_models import Graph

import fairhand


def text_of(g: Graph, folder: Path, level: int = 1, **outputs: str) -> str:
    fairhand.compile(g.model(**outputs), folder / "net", level=level)
    return (folder / "net" / "model.py").read_text(encoding="utf-8")


def counts(g: Graph, size: str, *axes: int) -> str:
    """0, 1, 2 ... as exporters write torch.arange, on an axis of its own."""
    zero, one = (g.weight(f"val_{i}", value=np.int64(i)) for i in (0, 1))
    return str(g("Unsqueeze", g("Range", zero, size, one), g.ints(*axes)))


@pytest.mark.parametrize(
    ("fixed", "line"),
    [
        (5, "mask[: x.shape[0], None, None, :]"),
        (3, "mask[: x.shape[0], None, None, :3]"),
        (0, "mask[rows"),
    ],
)
def test_places_that_are_counted(fixed: int, line: str, tmp_path: Path) -> None:
    """As PyTorch's exporter writes mask[rows[:, None, None, None], columns]."""
    g = Graph(x=["batch", 4], mask=("int64", ["others", 5]))
    batch = g("Squeeze", g("Shape", "x", start=0, end=1))
    rows = counts(g, batch, 1, 2, 3)
    places = np.arange(fixed) if fixed else np.array([3, 0, 2, 1])
    columns = g.weight("val_2", value=places.reshape(1, 1, 1, -1))
    shape = g("Shape", g("Max", rows, columns))
    both = [
        g("Unsqueeze", g("Expand", part, shape), g.ints(-1)) for part in (rows, columns)
    ]
    found = g("GatherND", "mask", g("Concat", *both, axis=-1))
    cast = g("Cast", found, to=1)
    text = text_of(g, tmp_path, y=g("Add", g("ReduceSum", cast), "x"))
    assert line in " ".join(text.split()) or not fixed
    assert "unbind" not in text and "torch.cat" not in text


def test_a_number_that_is_spread_is_a_new_tensor(tmp_path: Path) -> None:
    g = Graph(x=["batch", 5, 8])
    size = g("Concat", g("Shape", "x", start=0, end=1), g.ints(5, 1), axis=0)
    half, zero = (g.weight(f"val_{x}", value=np.float32(x / 2)) for x in (1, 0))
    y = g("Concat", "x", g("Expand", half, size), g("Expand", zero, size), axis=-1)
    text = text_of(g, tmp_path, 0, y=y)
    assert "torch.full((batch, 5, 1), 0.5" in text
    assert "torch.zeros((batch, 5, 1)" in text and "expand" not in text


def test_places_that_have_their_shape_already(tmp_path: Path) -> None:
    """Spreading them is no step: x[:, rows, columns], of a table of pairs."""
    g = Graph(pairs=("int64", [2, 3]), x=["batch", 5, 5])
    rows, columns = (
        g("Gather", "pairs", g.weight(f"val_{i}", value=np.int64(i))) for i in (0, 1)
    )
    shape = g("Shape", g("Max", rows, columns))
    both = [
        g("Unsqueeze", g("Expand", part, shape), g.ints(-1)) for part in (rows, columns)
    ]
    found = g(
        "GatherND", g("Transpose", "x", perm=[1, 2, 0]), g("Concat", *both, axis=-1)
    )
    text = text_of(g, tmp_path, y=found)
    assert "permute(1, 2, 0)[" in text and "torch.cat" not in text
