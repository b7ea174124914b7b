"""A layer of a row that is called again: no nn.Sequential says that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.traced import Traced

import fairhand


def test_a_layer_that_a_row_calls_twice_is_called_twice(tmp_path: Path) -> None:
    """Slopes that are stored once for two nn.PReLU."""
    g = Traced(x=["batch", 8, 6])
    slope = g.weight("slope", value=np.full((1, 1), 0.25, np.float32))
    y = "x"
    with g.module("net", "Net"), g.module("block", "Sequential"):
        for number in (0, 2):
            with g.module(str(number), "Conv1d"):
                y = g("Conv", y, g.param("weight", 8, 8, 1), g.param("bias", 8))
            with g.module(str(number + 1), "PReLU"):
                y = g("PRelu", y, slope)
    package = fairhand.compile(g.model(y=y), tmp_path / "net")  # verified
    text = (package.path / "model.py").read_text("utf-8")
    assert text.count("nn.PReLU()") == 1 and text.count("self.layers[1](x)") == 2
