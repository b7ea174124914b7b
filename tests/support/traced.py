"""Graphs as torch's exporter writes them: every node knows the modules it is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx
from support.emitter_models import Graph, Shape


class Traced(Graph):
    """`with g.module("layers.0", "Layer"):` stands for a call of that module."""

    def __init__(self, **inputs: Shape | tuple[str, Shape]) -> None:
        super().__init__(**inputs)
        self.scopes: list[tuple[str, str]] = []
        self.numbers: dict[float, str] = {}

    @contextmanager
    def module(self, name: str, kind: str) -> Iterator[None]:
        self.scopes.append((self.path(name), kind))
        yield
        self.scopes.pop()

    def path(self, name: str) -> str:
        return f"{self.scopes[-1][0]}.{name}" if self.scopes else name

    def __call__(self, op: str, *inputs: str, **options: Any) -> Any:
        return super().__call__(op, *inputs, scopes=list(self.scopes), **options)

    def param(self, name: str, *shape: int, value: Any = None) -> str:
        """A parameter of the module that is being called."""
        path = self.path(name)
        return path if path in self.weights else self.weight(path, *shape, value=value)

    def number(self, value: float) -> str:
        """A float32 that no module owns."""
        name = self.numbers.setdefault(value, f"scalar_{len(self.numbers)}")
        return self.weight(name, value=np.float32(value))

    # ---- layers

    def fc(self, x: str, name: str, wide: int, out: int, bias: bool = True) -> str:
        """nn.Linear on any number of axes."""
        with self.module(name, "Linear"):
            weight = self.param("weight", wide, out)
            y = self("MatMul", x, weight)
            return str(self("Add", y, self.param("bias", out)) if bias else y)

    def head(self, x: str, name: str, wide: int, out: int) -> str:
        """nn.Linear on two axes."""
        with self.module(name, "Linear"):
            weights = self.param("weight", out, wide), self.param("bias", out)
            return str(self("Gemm", x, *weights, transB=1))

    def conv2d(
        self,
        x: str,
        name: str,
        sizes: tuple[int, int, int],
        stride: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> str:
        """nn.Conv2d of (in, out, kernel) that keeps the picture's size."""
        wide, out, k = sizes
        form = {"kernel_shape": [k, k], "strides": [stride] * 2, "pads": [k // 2] * 4}
        with self.module(name, "Conv2d"):
            weights = [self.param("weight", out, wide // groups, k, k)]
            weights += [self.param("bias", out)] if bias else []
            return str(self("Conv", x, *weights, group=groups, **form))

    def batch_norm(self, x: str, name: str, size: int) -> str:
        with self.module(name, "BatchNorm2d"):
            random = self.random.uniform(0.5, 1.5, (4, size)).astype(np.float32)
            kinds = ("weight", "bias", "running_mean", "running_var")
            weights = [
                self.param(kind, value=value)
                for kind, value in zip(kinds, random, strict=True)
            ]
            return str(self("BatchNormalization", x, *weights))

    def layer_norm(self, x: str, name: str, size: int) -> str:
        with self.module(name, "LayerNorm"):
            weights = self.param("weight", size), self.param("bias", size)
            return str(self("LayerNormalization", x, *weights, axis=-1))

    def relu(self, x: str, name: str = "relu") -> str:
        with self.module(name, "ReLU"):
            return str(self("Relu", x))

    def max_pool(self, x: str, name: str = "pool") -> str:
        with self.module(name, "MaxPool2d"):
            return str(self("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))

    def model(self, **outputs: str) -> onnx.ModelProto:
        """Without the names that ONNX's shape inference makes up for sizes."""
        made = super().model(**outputs)
        for value in made.graph.output:
            dims = value.type.tensor_type.shape.dim
            if any(dim.dim_param.startswith("unk__") for dim in dims):
                value.CopyFrom(onnx.ValueInfoProto(name=value.name))
        return made

    # ---- attention

    def split_heads(self, x: str, heads: int, size: int) -> str:
        y = self("Reshape", x, self.ints(0, 0, heads, size))
        return str(self("Transpose", y, perm=[0, 2, 1, 3]))

    def join_heads(self, x: str, size: int) -> str:
        y = self("Transpose", x, perm=[0, 2, 1, 3])
        return str(self("Reshape", y, self.ints(0, 0, size)))

    def attend(self, q: str, k: str, v: str, scale: float, mask: str = "") -> str:
        scores = self("MatMul", q, self("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self("Mul", scores, self.number(scale))
        scores = self("Add", scores, mask) if mask else scores
        return str(self("MatMul", self("Softmax", scores, axis=-1), v))


def stripped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same computation without a name or a note that tells anything."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    ends = {v.name for v in (*graph.input, *graph.output)}
    names = {w.name: f"w{i}" for i, w in enumerate(graph.initializer)}
    for node in graph.node:
        for out in node.output:
            names.setdefault(out, f"v{len(names)}")
    names |= {name: name for name in ends} | {"": ""}
    for tensor in graph.initializer:
        tensor.name = names[tensor.name]
    for i, node in enumerate(graph.node):
        node.name = f"n{i}"
        node.input[:] = [names[x] for x in node.input]
        node.output[:] = [names[x] for x in node.output]
        del node.metadata_props[:]
    del graph.value_info[:]
    return made
