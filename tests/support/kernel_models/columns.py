"""Reductions along axes that others lie behind."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from support.emitter_models import Graph
from support.triton_kernels import (
    random_feed,
)

Build = Callable[[Graph], dict[str, str]]


def norm_of_channels(g: Graph) -> dict[str, str]:
    """ConvNeXt's LayerNorm2d."""
    rows = g("Transpose", "image", perm=[0, 2, 3, 1])
    weights = g.weight("ln.weight", 5), g.weight("ln.bias", 5)
    y = g("LayerNormalization", rows, *weights, axis=-1)
    return {"y": g("Transpose", g("Gelu", y), perm=[0, 3, 1, 2])}


def to_rows(g: Graph) -> dict[str, str]:
    rows = g("Transpose", g("Add", "image", "c"), perm=[0, 2, 3, 1])
    weights = g.weight("ln.weight", 5), g.weight("ln.bias", 5)
    y = g("LayerNormalization", rows, *weights, axis=-1)
    return {"rows": rows, "y": g("Mul", y, "factor")}


def softmax_of_channels(g: Graph) -> dict[str, str]:
    y = g("Softmax", g("Mul", "image", "c"), axis=1)
    return {"y": g("Sub", "image", y)}


def extremes(g: Graph) -> dict[str, str]:
    axes = g.ints(1, 2)
    spread = g("Sub", g("ReduceMax", "image", axes), g("ReduceMin", "image", axes))
    square = g("Mul", "image", "image")
    mean = g("ReduceMean", square, axes, keepdims=0)
    return {"mean": mean, "y": g("Div", "image", spread)}


GROUPS: dict[Build, dict[str, list[object]]] = {
    norm_of_channels: {"image": ["a", 5, "b", "n"]},
    to_rows: {"image": ["a", 5, "b", "n"], "c": [5, 1, 1], "factor": [5]},
    softmax_of_channels: {"image": ["a", 3, "n"], "c": [3, 1]},
    extremes: {"image": ["a", 3, "b", "n"]},
}


def model_of(build: Build) -> onnx.ModelProto:
    g = Graph(**GROUPS[build])  # type: ignore[arg-type]
    return g.model(**build(g))


def feed_for(build: Build, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return random_feed(GROUPS[build], sizes)
