"""Attention, with and without what is computed as it is loaded."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from support.emitter_models import Graph

Build = Callable[[Graph], dict[str, str]]


class New(Graph):
    opset = 23


def plain(g: Graph) -> dict[str, str]:
    return {"y": g("Attention", "q", "k", "v")}


def scaled(g: Graph) -> dict[str, str]:
    return {"y": g("Attention", "q", "k", "v", "mask", scale=0.3)}


def causal(g: Graph) -> dict[str, str]:
    return {"y": g("Attention", "q", "k", "v", is_causal=1)}


def padded(g: Graph) -> dict[str, str]:
    return {"y": g("Attention", "q", "k", "v", "mask")}


def decoded(g: Graph) -> dict[str, str]:
    """One query on a cache, whose keys are divided among programs."""
    return {"y": g("Attention", "q", "k", "v", "mask")}


def halves_turned(g: Graph, x: str, cos: str, sin: str) -> str:
    left, right = g("Split", x, axis=-1, num_outputs=2, outputs=2)
    turned = g("Concat", g("Neg", right), left, axis=-1)
    return g("Add", g("Mul", x, cos), g("Mul", turned, sin))


def rotary(g: Graph) -> dict[str, str]:
    """As in Llama: queries and keys where projections left them, turned."""
    q = halves_turned(g, g("Transpose", "q", perm=[0, 2, 1, 3]), "cos", "sin")
    k = halves_turned(g, g("Transpose", "k", perm=[0, 2, 1, 3]), "cos", "sin")
    return {"y": g("Attention", q, k, "v", is_causal=1)}


def neighbours(g: Graph) -> dict[str, str]:
    """Queries alone, whose elements change places with their neighbours."""
    one = g("Slice", "q", g.ints(1), g.ints(999), g.ints(3), g.ints(2))
    two = g("Slice", "q", g.ints(0), g.ints(999), g.ints(3), g.ints(2))
    turned = g("Concat", g("Neg", one), two, axis=-1)
    q = g("Add", g("Mul", "q", "cos"), g("Mul", turned, "sin"))
    return {"y": g("Attention", q, "k", "v", "mask")}


def rotary_step(g: Graph) -> dict[str, str]:
    """A decoder's step: keys come from a cache."""
    q = halves_turned(g, g("Transpose", "q", perm=[0, 2, 1, 3]), "cos", "sin")
    return {"y": g("Attention", q, "k", "v", "mask")}


HEADS = {"q": ["b", 4, "m", 8], "k": ["b", 2, "n", 8], "v": ["b", 2, "n", 20]}


ALIKE = {"q": ["b", 2, "m", 24], "k": ["b", 2, "n", 24], "v": ["b", 2, "n", 24]}


KINDS: dict[Build, dict[str, list[object]]] = {
    plain: HEADS,
    scaled: {**HEADS, "mask": ["b", 1, "m", "n"]},
    causal: ALIKE,
    padded: {**ALIKE, "mask": ["m", "n"]},
    decoded: {**HEADS, "q": ["b", 4, 1, 8], "mask": ["b", 1, 1, "n"]},
}


ANGLES = {"cos": [1, 1, "m", 8], "sin": ["m", 8]}


PROLOGUES: dict[Build, dict[str, list[object]]] = {
    rotary: {
        "q": ["b", "m", 4, 8],
        "k": ["b", "m", 2, 8],
        "v": ["b", 2, "m", 20],
        **ANGLES,
    },
    neighbours: {**KINDS[scaled], "cos": ["m", 8], "sin": ["b", 1, "m", 8]},
    rotary_step: {
        **KINDS[decoded],
        "q": ["b", 1, 4, 8],
        "cos": ["b", 1, 1, 8],
        "sin": [1, 8],
    },
}


KINDS |= PROLOGUES


def model_of(build: Build, wide: bool = False) -> onnx.ModelProto:
    """With heads as wide as a kernel can hold, on request."""
    kind = KINDS[build].items()
    inputs: dict[str, object] = {
        name: [128 if wide and d in (8, 20, 24) else d for d in shape]
        for name, shape in kind
    }
    if build is padded:
        inputs["mask"] = ("bool", inputs["mask"])
    g = New(**inputs)  # type: ignore[arg-type]
    return g.model(**build(g))


def feed_for(build: Build, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    numbers = dict(zip("bmn", sizes, strict=True))
    random = np.random.default_rng(sum(sizes))
    feed = {}
    for name, shape in KINDS[build].items():
        dims = [numbers.get(d, d) for d in shape]  # type: ignore[call-overload]
        feed[name] = random.normal(0, 1, dims).astype(np.float32)
    if build is padded:
        feed["mask"] = feed["mask"] > 0.3
        feed["mask"][:, :1] = True  # ONNX Runtime averages over all keys if none counts
    return feed


def named(build: Build) -> str:
    return build.__name__
