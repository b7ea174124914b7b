"""What exporters write as several operators is written as torch's one.

Every model is compiled with verification, so that none of this is wrong code.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from emitted import imported
from emitter_models import Graph
from traced import Traced

import fairhand

INDEX = np.array([3, 0, 2, 1, 3, 3, 0, 2, 1])


def text_of(g: Graph, folder: Path, level: int = 1, **outputs: str) -> str:
    fairhand.compile(g.model(**outputs), folder / "net", level=level)
    return (folder / "net" / "model.py").read_text(encoding="utf-8")


def picked(g: Graph, x: str, place: int, axis: int = 0) -> str:
    index = g.weight(f"onnx::place_{place}", value=np.int64(place))
    return str(g("Gather", x, index, axis=axis))


@pytest.mark.parametrize(
    ("places", "line"),
    [
        ((0, 1, 2), "x, y, z = parts.unbind(0)"),
        ((1, -1, 0), "x, y, z = parts.unbind(0)"),
        ((0, 1), ""),
        ((0, 1, 1), ""),
    ],
)
def test_all_parts_of_a_value(
    places: tuple[int, ...], line: str, tmp_path: Path
) -> None:
    g = Traced(parts=[3, "batch", 4])
    acts = ("Tanh", "Relu", "Sigmoid")
    made = [g(act, picked(g, "parts", i)) for act, i in zip(acts, places, strict=False)]
    text = text_of(g, tmp_path, y=g("Sum", *made))
    assert line in text and ("unbind" in text) == bool(line)


def rolled(g: Graph, x: str, axis: int, front: int, size: int) -> str:
    sizes = g.ints(front, size - front)
    a, b = g("Split", x, sizes, axis=axis, outputs=2)
    return str(g("Concat", b, a, axis=axis))


def test_parts_that_change_places_are_rolled(tmp_path: Path) -> None:
    g = Traced(x=["batch", 5, 7, 2])
    y = rolled(g, rolled(g, "x", 1, 2, 5), 2, 2, 7)
    y = rolled(g, g("Relu", y), 2, 5, 7)
    text = text_of(g, tmp_path, y=y)
    assert ".roll((-2, -2), dims=(1, 2))" in text
    assert ".roll(2, dims=2)" in text and "split" not in text
    report = json.loads((tmp_path / "net" / "report.json").read_text())
    lines = json.dumps(report["source_map"])
    assert all(node.name in lines for node in g.nodes)


def test_a_part_that_is_read_elsewhere_is_not_rolled(tmp_path: Path) -> None:
    g = Traced(x=["batch", 5])
    a, b = g("Split", "x", g.ints(2, 3), axis=1, outputs=2)
    y = g("Concat", g("Relu", b), g("Relu", a), axis=1)
    text = text_of(g, tmp_path, y=g("Concat", b, a, axis=1), z=y)
    assert "split" in text and "roll" not in text


def test_indices_that_the_file_names_stay_a_buffer(tmp_path: Path) -> None:
    """The table of position biases of Swin."""
    g = Traced(x=["batch", 9, 2])
    with g.module("attn", "Attention"):
        table = g.param("bias_table", 4, 2)
        index = g.weight("attn.position_index", value=INDEX)
        column = g("Unsqueeze", index, g.ints(-1))
        bias = g("GatherND", table, column)
        x = g.fc(g("Add", "x", bias), "proj", 2, 2)
    text = text_of(g, tmp_path, level=0, y=x)
    assert "self.bias_table[self.position_index]" in text
    state = imported(tmp_path / "net").load().state_dict()
    assert sorted(state) == [
        *("attn.bias_table", "attn.position_index"),
        *("attn.proj.bias", "attn.proj.weight"),
    ]
    assert state["attn.position_index"].tolist() == INDEX.tolist()


def test_a_part_of_named_counts_is_computed(tmp_path: Path) -> None:
    """position_ids of a language model, which its state_dict doesn't hold."""
    g = Traced(x=["batch", 3, 2])
    counts = g.weight("embeddings.position_ids", value=np.arange(8))
    part = g("Slice", counts, g.ints(0), g.ints(3))
    text = text_of(
        g, tmp_path, level=0, y=g("Add", "x", g("Gather", g.weight("a.b", 8, 2), part))
    )
    assert "position_ids" not in text
