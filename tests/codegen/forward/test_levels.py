"""Levels of a pyramid: a loop over them, and a class of equal nn.Sequentials."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
from support.emitter_models import Emitted
from support.traced import Traced

Emit = Callable[[onnx.ModelProto], Emitted]


def head(count: int, reads_again: bool = False, other: bool = False) -> onnx.ModelProto:
    """A pyramid's head, its maps flattened and joined."""
    g = Traced(**{f"p{i}": ["batch", 4, 8 >> i, 8 >> i] for i in range(count)})
    made = []
    with g.module("head", "Head"):
        for i in range(count):
            x = f"p{i}"
            for name in ("conv.0", "conv.1"):
                x = g.relu(g.conv2d(x, name, (4, 4, 3)))
            x = g.conv2d(x, "scores", (4, 6, 3))
            x = g("Tanh", x) if other and i == 1 else x
            made.append(g("Reshape", x, g.ints(0, 6, -1)))
        y = g("Concat", *made, axis=2)
    extra = {"extra": g("Relu", made[1])} if reads_again else {}
    return g.model(y=g("Relu", y), **extra)


def test_a_loop_over_the_levels(emitted: Emit) -> None:
    found = emitted(head(3))
    assert found.body("Head") == [
        "levels = []",
        "for level in (p0, p1, p2):",
        "for block in self.conv:",
        "level = F.relu(block(level))",
        "scores = self.scores(level).flatten(2)",
        "levels.append(scores)",
        "return torch.cat(levels, dim=-1)",
    ]


@pytest.mark.parametrize(
    "model", [head(2), head(3, reads_again=True), head(3, other=True)]
)
def test_no_loop_where_the_levels_differ(model: onnx.ModelProto, emitted: Emit) -> None:
    assert "levels" not in emitted(model).text


@pytest.mark.parametrize("count", [2, 3])
def test_equal_lists_beside_each_other(count: int, emitted: Emit) -> None:
    g = Traced(image=["batch", 4, 16, 16])
    x = "image"
    for i in range(count):
        with g.module(f"down.{i}", "Sequential"):
            x = g.relu(g.conv2d(x, "0", (4, 4, 3)), "1")
            x = g.relu(g.conv2d(x, "2", (4, 4, 3)), "3")
        x = g("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    found = emitted(g.model(y=x))
    assert found.classes == ["Net"]
    assert f"nn.ReLU(), ) for _ in range({count}) )" in " ".join(found.text.split())
    assert found.body()[1:3] == ["for block in self.down:", "x = block(x)"]
