"""What is split and split again is split once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.traced import Traced

import fairhand


@pytest.mark.parametrize(
    ("sizes", "inner", "line"),
    [
        ((8, 16), 2, "x.chunk(3, dim=1)"),
        ((12, 12), 2, "x.split([12, 6, 6], dim=1)"),
    ],
)
def test_a_part_that_is_split_again(
    sizes: tuple[int, int], inner: int, line: str, tmp_path: Path
) -> None:
    g = Traced(x=["batch", 24])
    first, rest = g("Split", "x", g.ints(*sizes), axis=1, outputs=2)
    more = g("Split", rest, axis=-1, num_outputs=inner, outputs=inner)
    made = [g("Tanh", first), *(g("Relu", part) for part in more)]
    fairhand.compile(
        g.model(**{f"y{i}": y for i, y in enumerate(made)}), tmp_path / "net"
    )
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert line in text and text.count("dim=1") == 1


def test_a_part_that_is_read_elsewhere_stays(tmp_path: Path) -> None:
    g = Traced(x=["batch", 24])
    first, rest = g("Split", "x", g.ints(8, 16), axis=1, outputs=2)
    a, b = g("Split", rest, axis=1, num_outputs=2, outputs=2)
    fairhand.compile(g.model(y=g("Relu", rest), a=a, b=b, c=first), tmp_path / "net")
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert text.count("dim=1") == 2


@pytest.mark.parametrize("first", [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 1)])
def test_merged_layers_bring_their_biases(
    first: tuple[int, ...], tmp_path: Path
) -> None:
    """On whichever side of the product each of them stands."""
    g = Traced(x=["batch", "seq", 8])
    made = []
    for name, side in zip(("query", "key", "value"), first, strict=True):
        with g.module(name, "Linear"):
            y = g("MatMul", "x", g.param("weight", 8, 8))
            pair = [y, g.param("bias", 8)]
            made.append(g("Add", *(pair[::-1] if side else pair)))
    q, k, v = made
    scores = g("MatMul", q, g("Transpose", k, perm=[0, 2, 1]))
    attended = g("MatMul", g("Softmax", scores, axis=-1), v)
    fairhand.compile(g.model(y=attended), tmp_path / "net", level=2)
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert "self.qkv = nn.Linear(8, 24)" in text and "bias" not in text
