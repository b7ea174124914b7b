"""Groups of operators that go element by element or row by row."""

from __future__ import annotations

import numpy as np
import onnx
from support.emitter_models import Graph


def gated(g: Graph) -> dict[str, str]:
    return {"y": g("Mul", g("Mul", "x", g("Sigmoid", "x")), "u")}


def normed(g: Graph) -> dict[str, str]:
    total = g("Add", "x", "u")
    weights = g.weight("ln.weight", value=np.linspace(0.5, 2, 9, dtype=np.float32))
    bias = g.weight("ln.bias", value=np.linspace(-1, 1, 9, dtype=np.float32))
    y = g("LayerNormalization", total, weights, bias, axis=-1)
    return {"total": total, "y": g("Tanh", y)}


def root_mean_square(g: Graph) -> dict[str, str]:
    mean = g("ReduceMean", g("Mul", "x", "x"), g.ints(-1), keepdims=1)
    return {"mean": mean, "y": g("Mul", g("Div", "x", g("Sqrt", mean)), "v")}


def masked_softmax(g: Graph) -> dict[str, str]:
    return {"y": g("Softmax", g("Add", g("Mul", "scores", "scale"), "mask"), axis=-1)}


def per_channel(g: Graph) -> dict[str, str]:
    y = g("Add", g("Mul", "image", "c"), "c")
    return {"y": g("Where", g("Greater", y, "c"), y, g("Neg", y))}


def outer(g: Graph) -> dict[str, str]:
    return {"y": g("Exp", g("Sub", "column", "line"))}


def counted(g: Graph) -> dict[str, str]:
    below = g("LessOrEqual", "n", g("Add", "n", "m"))
    return {"y": g("And", below, g("Not", below)), "z": g("Cast", below, to=1)}


def image_rows(g: Graph) -> dict[str, str]:
    squares = g("Mul", "image", "image")
    return {"y": g("ReduceMean", squares, g.ints(2, 3), keepdims=0)}


def rotated(g: Graph) -> dict[str, str]:
    left, right = g("Split", "pairs", axis=-1, num_outputs=2, outputs=2)
    turned = g("Concat", g("Neg", right), left, axis=-1)
    return {"y": g("Add", g("Mul", "pairs", "cos"), g("Mul", turned, "sin"))}


def heads(g: Graph) -> dict[str, str]:
    """Rotated where a projection left them, and put in order."""
    y = g("Transpose", "rows", perm=[0, 2, 1, 3])
    left, right = g("Split", y, axis=-1, num_outputs=2, outputs=2)
    turned = g("Concat", g("Neg", right), left, axis=-1)
    return {"y": g("Add", g("Mul", y, "angle"), g("Mul", turned, "angle"))}


def turned(g: Graph) -> dict[str, str]:
    """As at the end of ConvNeXt's blocks; the image is square by chance."""
    y = g("Transpose", "pixels", perm=[0, 3, 1, 2])
    return {"y": g("Add", y, "square")}


def convolved(g: Graph) -> dict[str, str]:
    weights = g.weight("dw.weight", 3, 1, 3, 2), g.weight("dw.bias", 3)
    form = {"pads": [1, 1, 1, 1], "strides": [2, 1], "dilations": [1, 2]}
    y = g("Conv", "planes", *weights, group=3, **form)
    return {"y": g("Mul", g("HardSwish", y), "level")}


def same_convolved(g: Graph) -> dict[str, str]:
    weight = g.weight("dw.weight", 3, 1, 5, 5)
    y = g("Conv", "planes", weight, group=3, pads=[2, 2, 2, 2])
    return {"y": g("Add", g("Relu", y), "planes")}


def joined(g: Graph) -> dict[str, str]:
    flat = g("Transpose", "tall", perm=[0, 2, 1])
    ends = (g.ints(-1), g.ints(-9), g.ints(2), g.ints(-2))
    back = g("Slice", "wide", *ends)
    return {"y": g("Tanh", g("Concat", g("Exp", flat), back, "wide", axis=2))}


def to_heads(g: Graph) -> dict[str, str]:
    rows = g("Reshape", g("Mul", "wide_rows", "twelve"), g.ints(0, 0, 3, 4))
    return {"y": g("Add", g("Transpose", rows, perm=[0, 2, 1, 3]), "of_heads")}


def from_heads(g: Graph) -> dict[str, str]:
    rows = g("Transpose", g("Exp", "of_heads"), perm=[0, 2, 1, 3])
    return {"y": g("Mul", g("Reshape", rows, g.ints(0, 0, 12)), "twelve")}


def neighbours_rotated(g: Graph) -> dict[str, str]:
    """Rotary embeddings of neighbours in a row, as GPT-J has them."""
    pairs = g("Reshape", "wide_rows", g.ints(0, 0, 6, 2))
    even = g("Slice", pairs, g.ints(0), g.ints(1), g.ints(3))
    odd = g("Slice", pairs, g.ints(1), g.ints(2), g.ints(3))
    turned = g("Concat", g("Neg", odd), even, axis=3)
    turned = g("Mul", g("Reshape", turned, g.ints(0, 0, 12)), "twelve")
    return {"y": g("Add", g("Cos", "more_rows"), turned)}


def channels_shuffled(g: Graph) -> dict[str, str]:
    y = g("Reshape", g("Relu", "six"), g.ints(0, 2, 3, 5, 4))
    y = g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3, 4]), g.ints(0, 6, 5, 4))
    return {"y": g("Sigmoid", y)}


def widened(g: Graph) -> dict[str, str]:
    turned = g("Transpose", "table2", perm=[1, 0])  # of fewer axes than the result
    return {"y": g("Tanh", g("Add", turned, g("Unsqueeze", "row3", g.ints(1))))}


def taken(g: Graph) -> dict[str, str]:
    """At places that are read; they are in the middle of the result's axes."""
    found = g("Gather", g("Exp", "cells"), "ids", axis=1)
    return {"y": g("Mul", found, "line")}


def doubled(g: Graph) -> dict[str, str]:
    """As rotary angles are, of half as many frequencies."""
    angle = g("Mul", "line", "wave")
    return {"y": g("Cos", g("Concat", angle, angle, axis=-1))}


def embedded(g: Graph) -> dict[str, str]:
    word = g("Gather", g.weight("word.weight", 5, 7), "ids", axis=0)
    place = g("Gather", g.weight("place.weight", 9, 7), "ids2", axis=0)
    norm = g.weight("ln.weight", 7), g.weight("ln.bias", 7)
    return {"y": g("LayerNormalization", g("Add", word, place), *norm, axis=-1)}


def upsampled(g: Graph) -> dict[str, str]:
    """As in a feature pyramid."""
    twice = g.weight("scales", value=np.array([1, 1, 2, 2], np.float32))
    form = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    total = g("Add", g("Resize", "small", "", twice, **form), "picture")
    return {"y": g("Relu", total)}


def bordered(g: Graph) -> dict[str, str]:
    pads = g.ints(0, 0, 1, 2, 0, 0, 1, -1)
    one = g("Pad", g("Exp", "small"), pads)
    pads = g.ints(0, 0, 1, 1, 0, 0, 1, 0)
    both = [g("Pad", "small", pads, mode=mode) for mode in ("reflect", "edge")]
    return {"y": g("Mul", one, g("Sub", *both))}


def shuffled(g: Graph) -> dict[str, str]:
    pixels = g("DepthToSpace", g("Add", "deep", "per"), blocksize=2, mode="CRD")
    blocks = g("SpaceToDepth", g("Abs", pixels), blocksize=4)
    return {"y": g("Mul", blocks, g("Expand", "one", g.ints(1, 32, 1, 2)))}


GROUPS = {
    upsampled: {"small": ["a", 2, 3, 4], "picture": ["a", 2, 6, 8]},
    bordered: {"small": ["a", 2, 3, 4]},
    shuffled: {"deep": ["a", 8, 2, 4], "per": [8, 1, 1], "one": ["a", 1, 1, 2]},
    embedded: {"ids": ["a", "b", 4], "ids2": [1, 4]},
    rotated: {
        "pairs": ["a", "b", "n", 6],
        "cos": ["a", 1, "n", 6],
        "sin": ["n", 6],
    },
    heads: {"rows": ["a", "n", 3, 6], "angle": ["n", 6]},
    turned: {"pixels": ["a", 4, 4, 3], "square": ["a", 3, 4, 4]},
    convolved: {"planes": ["a", 3, 5, 4], "level": ["a", 3, 1, 1]},
    same_convolved: {"planes": ["a", 3, 5, 4]},
    to_heads: {
        "wide_rows": ["a", "n", 12],
        "twelve": [12],
        "of_heads": ["a", 3, "n", 4],
    },
    from_heads: {"of_heads": ["a", 3, "n", 4], "twelve": [12]},
    neighbours_rotated: {
        "wide_rows": ["a", "n", 12],
        "twelve": [12],
        "more_rows": ["a", "n", 12],
    },
    channels_shuffled: {"six": ["a", 6, 5, 4]},
    widened: {"table2": ["n", "b"], "row3": ["a", "n"]},
    doubled: {"line": ["a", "n", 1], "wave": [5]},
    joined: {"tall": ["a", 3, 4], "wide": ["a", 4, 5]},
    gated: {"x": ["a", "n"], "u": ["a", "n"]},
    normed: {"x": ["a", 9], "u": ["a", 9]},
    root_mean_square: {"x": ["a", "b", "n"], "v": ["n"]},
    masked_softmax: {
        "scores": ["a", 3, "b", "n"],
        "mask": ["a", 1, 1, "n"],
        "scale": [1],
    },
    per_channel: {"image": ["a", "b", "n", 2], "c": ["b", 1, 1]},
    outer: {"column": ["a", 1], "line": ["n"]},
    counted: {"n": ["n"], "m": [1]},
    image_rows: {"image": ["a", "b", "n", 3]},
}


def group_model(
    build: object, builds: object = GROUPS, graph: type[Graph] = Graph
) -> onnx.ModelProto:
    names = ("n", "m") if build is counted else ("ids", "ids2")
    kinds = dict.fromkeys(names, "int64")
    inputs = {
        name: (kinds.get(name, "float32"), shape)
        for name, shape in builds[build].items()  # type: ignore[index]
    }
    g = graph(**inputs)  # type: ignore[arg-type]
    return g.model(**build(g))  # type: ignore[operator]


def feed_for(build: object, sizes: tuple[int, ...]) -> dict[str, np.ndarray]:
    numbers = dict(zip("abn", sizes, strict=True))
    random = np.random.default_rng(sum(sizes))
    found = {}
    for name, shape in GROUPS[build].items():  # type: ignore[index]
        dims = [numbers.get(d, d) for d in shape]  # type: ignore[call-overload]
        found[name] = random.normal(0, 2, dims).astype(np.float32)
        if build is counted:
            found[name] = found[name].astype(np.int64)
        if build is embedded:
            found[name] = random.integers(0, 5, dims)
    return found
