"""Places in a flattened tensor, as TorchScript computes them; packages are verified."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from support.emitter_models import Emitted
from support.traced import Traced

import fairhand

Emit = Callable[[onnx.ModelProto], Emitted]


def counted(g: Traced, x: str, axis: int) -> str:
    """torch.arange(x.shape[axis])"""
    end = g("Squeeze", g.size(x, axis), g.ints(0))
    first, one = (g.weight(f"n{n}", value=n) for n in (0, 1))
    return str(g("Range", first, end, one))


def indexed(rows: bool = True, width: int = 1, turned: bool = False) -> onnx.ModelProto:
    """mask[batch, position], for all batches and positions."""
    g = Traced(mask=["batch", "seq"], x=["batch", 2, "seq", "seq"])
    places = g("Unsqueeze", counted(g, "mask", 1), g.ints(0, 1, 2))
    if rows:
        row = g("Unsqueeze", counted(g, "mask", 0), g.ints(1, 2, 3))
        product = g("Mul", row, g.size("mask", width))
        places = g("Add", product, places) if turned else g("Add", places, product)
    column = g("Flatten", g("Relu", "mask"), axis=2)
    picked = g("Gather", column, places, axis=0)
    return g.model(y=g("Add", "x", g("Squeeze", picked, g.ints(-1))))


@pytest.mark.parametrize(
    ("options", "plan", "line"),
    [
        ({}, "dp=2", "return x + F.relu(mask)[:, None, None, :]"),
        ({"turned": True}, "dp=2", "return x + F.relu(mask)[:, None, None, :]"),
        ({"rows": False}, None, "mask = F.relu(mask).reshape(-1, 1)[: mask.shape[1]]."),
    ],
)
def test_places_in_their_order(
    options: dict[str, bool], plan: str | None, line: str, tmp_path: Path
) -> None:
    """Where the graph reads at no places any more, batches can be divided."""
    folder = tmp_path / "net"
    fairhand.compile(indexed(**options), folder, level=0, parallel=plan)
    assert f" {line}" in (folder / "model.py").read_text(encoding="utf-8")


def test_other_places_stay_places(emitted: Emit) -> None:
    """Steps of another length from row to row."""
    assert "[:, None, None, :]" not in emitted(indexed(width=0)).text.split("Net(")[1]


def test_a_size_in_a_tensor(emitted: Emit) -> None:
    g = Traced(x=["batch", "seq"])
    size = g("Cast", g.size("x", 1), to=onnx.TensorProto.FLOAT)
    text = emitted(g.model(y=g("Mul", g("Relu", "x"), size))).text
    assert "torch.full((1,), x.shape[1], device=x.device)" in text
    assert "torch.tensor(x.shape" not in text


def test_places_that_are_given_are_in_no_order(tmp_path: Path) -> None:
    """As many as there are elements, and of as many sizes."""
    g = Traced(x=["batch", "seq"], places=("int64", ["batch", "seq"]))
    column = g("Reshape", "x", g.ints(-1))
    model = g.model(y=g("Relu", g("Gather", column, "places")))
    fairhand.compile(model, tmp_path / "net")
    assert "[places]" in (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
