"""An encoder and its decoder, with the inputs and outputs of T5's for a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.search_models import HEADS, VOCABULARY, WIDTH

SIZE = WIDTH // HEADS


class Drawing:
    def __init__(self, name: str, seed: int) -> None:
        self.name, self.random = name, np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, *shape: int) -> str:
        array = (self.random.standard_normal(shape) * 0.35).astype(np.float32)
        return self.constant(name, array)

    def constant(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, f"{self.name}.{name}"))
        return f"{self.name}.{name}"

    def node(self, op: str, inputs: list[str], output: str, **attrs: Any) -> str:
        name = f"/{self.name}/{output.replace('.', '/')}/{op}"
        self.nodes.append(helper.make_node(op, inputs, [output], name, **attrs))
        return output

    def linear(self, x: str, path: str, out: int = WIDTH) -> str:
        weight = self.weight(f"{path}.weight", WIDTH, out)
        return self.node("MatMul", [x, weight], f"{self.name}.{path}")

    def heads(self, x: str, name: str) -> str:
        """[rows, length, width] to [rows, heads, length, size]."""
        shape = self.constant(f"{name}.shape", np.array([0, 0, HEADS, SIZE]))
        x = self.node("Reshape", [x, shape], f"{name}.split")
        return self.node("Transpose", [x], name, perm=[0, 2, 1, 3])

    def attend(self, q: str, k: str, v: str, path: str, mask: str = "") -> str:
        name = f"{self.name}.{path}"
        k = self.node("Transpose", [k], f"{name}.turned", perm=[0, 1, 3, 2])
        scores = self.node("MatMul", [q, k], f"{name}.scores")
        if mask:
            scores = self.node("Add", [scores, mask], f"{name}.masked")
        shares = self.node("Softmax", [scores], f"{name}.shares", axis=-1)
        y = self.node("MatMul", [shares, v], f"{name}.y")
        y = self.node("Transpose", [y], f"{name}.rows", perm=[0, 2, 1, 3])
        shape = self.constant(f"{path}.shape", np.array([0, 0, WIDTH]))
        y = self.node("Reshape", [y, shape], f"{name}.joined")
        return self.linear(y, f"{path}.o")

    def mask(self) -> str:
        """What is added to the scores for words that are padding."""
        x = self.node(
            "Cast",
            ["encoder_attention_mask"],
            f"{self.name}.counts",
            to=TensorProto.FLOAT,
        )
        one = self.constant("one", np.array(1, np.float32))
        low = self.constant("low", np.array(-1e9, np.float32))
        axes = self.constant("axes", np.array([1, 2]))
        x = self.node("Sub", [one, x], f"{self.name}.missing")
        x = self.node("Mul", [x, low], f"{self.name}.low_scores")
        return self.node("Unsqueeze", [x, axes], f"{self.name}.mask")

    def made(self, inputs: list[Any], outputs: list[Any]) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, self.name, inputs, outputs, self.weights)


def words(name: str, length: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT32, ["batch", length])


def cache(name: str, length: str) -> onnx.ValueInfoProto:
    shape = ["batch", HEADS, length, SIZE]
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def encoder(layers: int = 2) -> onnx.GraphProto:
    """Words and a mask; the keys and values that each layer of the decoder looks at."""
    g = Drawing("encoder", 1)
    table = g.weight("embed.weight", VOCABULARY, WIDTH)
    x = g.node("Gather", [table, "encoder_input_ids"], "encoder.embed")
    q, k, v = (g.heads(g.linear(x, f"attn.{n}"), f"encoder.{n}") for n in "qkv")
    x = g.node("Add", [x, g.attend(q, k, v, "attn", g.mask())], "encoder.sum")
    names = [f"{n}_cross_{i}" for i in range(layers) for n in ("key", "value")]
    for name in names:
        g.heads(g.linear(x, f"cross.{name}"), f"present_{name}")
    outputs = [cache(f"present_{name}", "length") for name in names]
    inputs = [words(f"encoder_{x}", "length") for x in ("input_ids", "attention_mask")]
    return g.made(inputs, outputs)


def decoder(layers: int = 2) -> onnx.GraphProto:
    """One word, the encoder's mask and the caches; scores and its own longer cache."""
    g = Drawing("decoder", 2)
    table = g.weight("embed.weight", VOCABULARY, WIDTH)
    x = g.node("Gather", [table, "input_ids"], "decoder.embed")
    mask = g.mask()
    for i in range(layers):
        path = f"layers.{i}"
        q, k, v = (
            g.heads(g.linear(x, f"{path}.self.{n}"), f"decoder.{path}.{n}")
            for n in "qkv"
        )
        for name, new in (("key", k), ("value", v)):
            pair = [f"past_{name}_self_{i}", new]
            g.node("Concat", pair, f"present_{name}_self_{i}", axis=2)
        caches = [f"present_{n}_self_{i}" for n in ("key", "value")]
        y = g.attend(q, caches[0], caches[1], f"{path}.self")
        x = g.node("Add", [x, y], f"decoder.{path}.first")
        q = g.heads(g.linear(x, f"{path}.cross.q"), f"decoder.{path}.cross_q")
        caches = [f"past_{n}_cross_{i}" for n in ("key", "value")]
        y = g.attend(q, caches[0], caches[1], f"{path}.cross", mask)
        x = g.node("Add", [x, y], f"decoder.{path}.second")
    weight = g.weight("lm_head.weight", WIDTH, VOCABULARY)
    g.node("MatMul", [x, weight], "logits")
    own = [f"{n}_self_{i}" for i in range(layers) for n in ("key", "value")]
    cross = [f"{n}_cross_{i}" for i in range(layers) for n in ("key", "value")]
    inputs = [words("input_ids", 1), words("encoder_attention_mask", "length")]
    inputs += [cache(f"past_{name}", "past") for name in own]
    inputs += [cache(f"past_{name}", "length") for name in cross]
    shape = ["batch", 1, VOCABULARY]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)]
    outputs += [cache(f"present_{name}", "total") for name in own]
    return g.made(inputs, outputs)
