"""Three small networks that several test files compile, as exporters write them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from support.emitter_models import Graph


def residual(width: int = 16, classes: int = 5) -> onnx.ModelProto:
    """Two stages of two blocks; the first of each brings its input to another size.

    `width` is that of the second stage.
    """
    g = Graph(image=["batch", 3, 8, 8])
    x = g("Relu", g.conv("image", "conv1", (3, 4, 3), at="conv1"), at="relu")
    for stage, (wide, out) in enumerate([(4, 8), (8, width)], start=1):
        for block in range(2):
            path = f"layer{stage}.{block}"
            at = f"layer{stage}/{path}"
            inner = wide if block == 0 else out
            stride = 2 if block == 0 else 1
            y = g.conv(x, f"{path}.conv1", (inner, out, 3), stride, f"{at}/conv1")
            y = normed(g, y, f"{path}.bn1", out, f"{at}/bn1")
            y = g("Relu", y, at=f"{at}/relu")
            y = g.conv(y, f"{path}.conv2", (out, out, 3), at=f"{at}/conv2")
            if block == 0:
                down = f"{path}.downsample.0"
                x = g.conv(x, down, (inner, out, 1), stride, f"{at}/downsample.0")
            x = g("Relu", g("Add", y, x, at=at), at=f"{at}/relu_1")
    x = g("Flatten", g("GlobalAveragePool", x, at="pool"))
    x = g("Identity", x)
    x = g.linear(x, "fc", width, classes, at="fc")
    return g.model(scores=x)


def normed(g: Graph, x: str, path: str, size: int, at: str) -> str:
    names = ("weight", "bias", "running_mean", "running_var")
    values = [g.weight(f"{path}.{n}", value=np.ones(size, np.float32)) for n in names]
    return str(g("BatchNormalization", x, *values, at=at))


def transformer(layers: int) -> onnx.ModelProto:
    """Layers with attention, whose sizes are computed as TorchScript does it."""
    g = Graph(tokens=["batch", "seq", 8])
    x = "tokens"
    scale = g.weight("onnx::scale", value=np.float32(2.0))
    for i in range(layers):
        path, at = f"layers.{i}", f"layers.{i}"
        heads = {}
        for name in ("query", "key", "value"):
            inside = f"{at}/{name}"
            y = g.linear(x, f"{path}.{name}", 8, 8, at=inside)
            sizes = (g.size(x, 0, at), g.size(x, 1, at), g.ints(2), g.ints(4))
            y = g.reshape(y, *sizes, at=at)
            perm = [0, 2, 3, 1] if name == "key" else [0, 2, 1, 3]
            heads[name] = g("Transpose", y, perm=perm, at=at)
        y = g("Div", g("MatMul", heads["query"], heads["key"], at=at), scale, at=at)
        y = g("MatMul", g("Softmax", y, axis=-1, at=at), heads["value"], at=at)
        y = g("Transpose", y, perm=[0, 2, 1, 3], at=at)
        y = g.reshape(y, g.size(x, 0, at), g.size(x, 1, at), g.ints(8), at=at)
        y = g.linear(y, f"{path}.out", 8, 8, at=f"{at}/out")
        x = g.norm(g("Add", x, y, at=at), f"{path}.norm", 8, at=f"{at}/norm")
    return g.model(states=x)


def looped(
    widths: Sequence[int] = (16, 16, 16),
    acts: Sequence[str] = ("Relu", "Relu", "Relu"),
    shared: str = "Tanh",
) -> onnx.ModelProto:
    """Layers that a loop calls, then one module called twice."""
    g = Graph(x=["batch", 8])
    x = "x"
    for i, (wide, act) in enumerate(zip(widths, acts, strict=True)):
        at = f"layers.{i}"
        y = g(act, g.linear(x, f"{at}.fc1", 8, wide, at=f"{at}/fc1"), at=f"{at}/act")
        gain = g.weight(f"{at}.gain", value=np.float32(0.3 + i / 10))
        y = g("Softplus", g.linear(y, f"{at}.fc2", wide, 8, at=f"{at}/fc2"), at=at)
        x = g("Add", x, g("Mul", y, gain, at=at), at=at)
    for call in ("shared", "shared_1"):
        y = g(shared, g.linear(x, "shared.fc1", 8, 8, at=f"{call}/fc1"), at=call)
        x = g.linear(y, "shared.fc2", 8, 8, at=f"{call}/fc2")
    return g.model(y=x)


def branching(
    blocks: int = 2, width: int = 24, long: str = "long", size: int = 40
) -> onnx.ModelProto:
    """Blocks of three branches, of which two together take almost as long as `long`."""
    g = Graph(image=[1, 3, size, size])
    x = g("Relu", g.conv("image", "stem", (3, 3 * width, 1), at="stem"))
    for i in range(1, blocks + 1):
        made = []
        for branch, kernels in ((long, (3, 3)), ("short", (3,)), ("other", (1,))):
            y, wide = x, 3 * width
            for k, kernel in enumerate(kernels):
                path = f"block{i}.{branch}{k}"
                at = f"block{i}/{path}"
                y = g.conv(y, path, (wide, width, kernel), at=at)
                y, wide = g("Relu", y, at=f"block{i}"), width
            made.append(y)
        x = g("Concat", *made, axis=1, at=f"block{i}")
    return g.model(features=x)


def decoder(width: int = 1024) -> onnx.ModelProto:
    """A product of one row, and a cache that grows."""
    g = Graph(
        x=[1, 1, width],
        past_k0=[1, 1, "past", 8],
        past_v0=[1, 1, "past", 8],
        past_k1=[1, 1, "past", 8],
        past_v1=[1, 1, "past", 8],
    )
    x, caches = "x", {}
    for i in range(2):
        for name in "kv":
            y = g.linear(x, f"layers.{i}.{name}", width, 8, at=f"layers.{i}/{name}")
            y = g.reshape(y, g.ints(1), g.ints(1), g.ints(1), g.ints(8), at=f"{i}")
            grown = g("Concat", f"past_{name}{i}", y, axis=2, at=f"layers.{i}")
            caches[f"present_{name}{i}"] = grown
        y = g.linear(x, f"layers.{i}.fc", width, width, at=f"layers.{i}/fc")
        y = g.linear(y, f"layers.{i}.out", width, 4 * width, at=f"layers.{i}/out")
        x = g.linear(y, f"layers.{i}.in", 4 * width, width, at=f"layers.{i}/in")
    return g.model(y=x, **caches)
