"""Modules of files that name none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.emitter_models import Graph

import fairhand


def test_a_mask_that_the_first_layer_makes_is_of_all(tmp_path: Path) -> None:
    """It takes its type from what enters the layers, and stands before them."""
    g = Graph(tokens=("int64", ["n", 8]))
    numbers = {"low": np.finfo(np.float32).min, "high": 0.0, "last": 5}
    low, high, last = (
        g.weight(name, value=np.array(x, np.int64 if name == "last" else np.float32))
        for name, x in numbers.items()
    )
    x = g("Gather", g.weight("table", 50, 8), "tokens")
    mask = ""
    for i in range(3):
        scale = g.weight(f"s{i}", value=np.ones(8, np.float32))
        y = g("LayerNormalization", x, scale, axis=-1)
        if not mask:
            mask = g("Where", g("Less", "tokens", last), low, high)
            mask = g("Unsqueeze", mask, g.ints(2))
        y = g("MatMul", y, g.weight(f"a{i}", 8, 8))
        y = g("Softmax", g("Add", y, mask), axis=1)
        x = g("Add", x, g("MatMul", y, g.weight(f"b{i}", 8, 8)))
    proto = g.model(y=x)
    for i, node in enumerate(proto.graph.node):
        node.name = f"n{i}"
    text = (fairhand.compile(proto, tmp_path / "net").path / "model.py").read_text()
    head, _, loop = text.rpartition("for layer in self.layers:")
    assert "Layer() for _ in range(3)" in head and "x = layer(x, mask)" in loop
    assert "torch.finfo(x.dtype).min" in head


def test_a_module_that_only_joins_is_none(tmp_path: Path) -> None:
    """As TensorFlow leaves the zeros of a first state: n and a constant, joined."""
    g = Graph(x=["n", 4])
    sizes = g("Shape", "x")
    first = g("Slice", sizes, g.ints(0), g.ints(1))
    proto = g.model(y=g("Concat", first, g.weight("k", value=np.array([16])), axis=0))
    for node, name in zip(
        proto.graph.node, ("Shape", "rows", "zeros/Concat"), strict=True
    ):
        node.name = f"net/{name}"
    text = (fairhand.compile(proto, tmp_path / "net").path / "model.py").read_text()
    assert "return torch.cat([" in text and text.count("(nn.Module)") == 1
