"""Norms of channels, places in a row, the largest of a row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from support.emitter_models import Graph
from support.triton_kernels import (
    random_feed,
)

Build = Callable[[Graph], dict[str, str]]


class New(Graph):
    opset = 21


def group_norm(g: Graph) -> dict[str, str]:
    """As in a diffusion model's residual blocks."""
    weights = g.weight("gn.weight", 6), g.weight("gn.bias", 6)
    total = g("Add", "image", "step")
    y = g("GroupNormalization", total, *weights, num_groups=3)
    return {"y": g("Mul", y, g("Sigmoid", y))}


def one_group(g: Graph) -> dict[str, str]:
    weights = g.weight("gn.weight", 6), g.weight("gn.bias", 6)
    y = g("GroupNormalization", "image", *weights, num_groups=1)
    return {"y": g("Add", g("Mul", y, "per"), "image")}


def instance_norm(g: Graph) -> dict[str, str]:
    weights = g.weight("in.weight", 6), g.weight("in.bias", 6)
    return {"y": g("Relu", g("InstanceNormalization", "image", *weights))}


def index_of_largest(g: Graph) -> dict[str, str]:
    return {"y": g("ArgMax", g("Add", "x", "v"), axis=-1, keepdims=0)}


def routed(g: Graph) -> dict[str, str]:
    """As in a router of experts."""
    probs = g("Softmax", "few", axis=-1)
    values, indices = g("TopK", probs, g.ints(2), axis=-1, outputs=2)
    return {"values": values, "indices": indices}


KINDS: dict[Build, dict[str, list[object]]] = {
    group_norm: {"image": ["a", 6, "b", "n"], "step": ["a", 6, 1, 1]},
    one_group: {"image": ["a", 6, 5, 7], "per": [6, 1, 1]},
    instance_norm: {"image": ["a", 6, "n"]},
    index_of_largest: {"x": ["a", "b", "n"], "v": ["n"]},
    routed: {"few": ["a", "b", 5]},
}


def model_of(build: Build) -> onnx.ModelProto:
    g = New(**KINDS[build])  # type: ignore[arg-type]
    return g.model(**build(g))


def feed_for(build: Build, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    return random_feed(KINDS[build], sizes)
