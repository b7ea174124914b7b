"""Searches over a decoder, as ONNX Runtime's converter for GPT-2 writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCABULARY, WIDTH, HEADS, LONGEST = 20, 16, 2, 32
EOS, PAD = 3, 0


def gpt2(layers: int = 2, seed: int = 0) -> onnx.GraphProto:
    """Tokens, positions, a mask and a cache in; logits and the cache out."""
    random = np.random.default_rng(seed)
    weights: list[onnx.TensorProto] = []

    def weight(name: str, *shape: int, scale: float = 0.5) -> str:
        array = (random.standard_normal(shape) * scale).astype(np.float32)
        weights.append(numpy_helper.from_array(array, name))
        return name

    def node(op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> str:
        domain = "com.microsoft" if op == "Attention" else ""
        name = f"/{outputs[0].replace('.', '/')}/{op}"
        nodes.append(helper.make_node(op, inputs, outputs, name, None, domain, **attrs))
        return outputs[0]

    nodes: list[onnx.NodeProto] = []
    tokens = node(
        "Gather", [weight("wte.weight", VOCABULARY, WIDTH), "input_ids"], ["t"]
    )
    places = node(
        "Gather", [weight("wpe.weight", LONGEST, WIDTH), "position_ids"], ["p"]
    )
    x = node("Add", [tokens, places], ["x"])
    for i in range(layers):
        scale, shift = weight(f"h.{i}.ln.weight", WIDTH), weight(
            f"h.{i}.ln.bias", WIDTH
        )
        y = node("LayerNormalization", [x, scale, shift], [f"h.{i}.ln"])
        qkv = weight(f"h.{i}.attn.weight", WIDTH, 3 * WIDTH)
        bias = weight(f"h.{i}.attn.bias", 3 * WIDTH)
        y = node(
            "Attention",
            [y, qkv, bias, "attention_mask", f"past_{i}"],
            [f"h.{i}.attn", f"present_{i}"],
            num_heads=HEADS,
            unidirectional=1,
        )
        x = node("Add", [x, y], [f"h.{i}.sum"])
    node("MatMul", [x, weight("lm_head.weight", WIDTH, VOCABULARY)], ["logits"])
    info, int32 = helper.make_tensor_value_info, TensorProto.INT32
    cache = (2, "batch", HEADS, "past", WIDTH // HEADS)
    longer = (2, "batch", HEADS, "total", WIDTH // HEADS)
    inputs = [
        info("input_ids", int32, ["batch", "length"]),
        info("position_ids", int32, ["batch", "length"]),
        info("attention_mask", int32, ["batch", "total"]),
        *(info(f"past_{i}", TensorProto.FLOAT, cache) for i in range(layers)),
    ]
    logits = ["batch", "length", VOCABULARY]
    outputs = [
        info("logits", TensorProto.FLOAT, logits),
        *(info(f"present_{i}", TensorProto.FLOAT, longer) for i in range(layers)),
    ]
    return helper.make_graph(nodes, "gpt2", inputs, outputs, weights)


def search(
    op: str,
    inputs: dict[str, Any],
    given: str = "",
    outputs: tuple[str, ...] = ("sequences",),
    decoder: onnx.GraphProto | None = None,
    **attrs: Any,
) -> onnx.ModelProto:
    """A search whose inputs, in order, are constants but for those in `given`."""
    fixed, infos = [], []
    info = helper.make_tensor_value_info
    for name, array in inputs.items():
        if name in given.split():
            free = ["batch", "length"] if np.ndim(array) == 2 else ["batch"]
            dims = free + list(np.shape(array))[len(free) :]
            dims = dims if np.ndim(array) > 1 else list(np.shape(array))
            kind = helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype)
            infos.append(info(name, kind, dims))
        elif array is not None:
            fixed.append(numpy_helper.from_array(np.asarray(array), name))
    names = ["" if array is None else name for name, array in inputs.items()]
    attrs = {"eos_token_id": EOS, "pad_token_id": PAD, **attrs}
    node = helper.make_node(
        op,
        names,
        list(outputs),
        "search",
        domain="com.microsoft",
        decoder=decoder or gpt2(),
        **attrs,
    )
    ends = [
        info(n, TensorProto.INT32 if n == "sequences" else TensorProto.FLOAT, None)
        for n in outputs
    ]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "search", infos, ends, fixed)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def int32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def float32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)
