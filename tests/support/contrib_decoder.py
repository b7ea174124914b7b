"""A decoder as exporters for ONNX Runtime write it: its own operators throughout."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

VOCABULARY, WIDTH, INNER, LAYERS = 40, 64, 96, 2
HEADS, KV_HEADS, SIZE, LONGEST = 4, 2, 16, 64


def decoder(bits: int | None = 4, block_size: int = 32) -> onnx.ModelProto:
    """Llama in small: tokens, a mask and a cache in; logits and the cache out."""
    w = _Writer()
    _lengths(w)
    angles = np.arange(LONGEST)[:, None] / 100.0 ** np.linspace(0, 1, SIZE // 2)
    w.constant("cos_cache", np.cos(angles).astype(np.float32))
    w.constant("sin_cache", np.sin(angles).astype(np.float32))
    table = w.weight("model.embed_tokens.weight", VOCABULARY, WIDTH)
    x = w.add("/model/embed_tokens/Gather", [table, "input_ids"])
    scale = w.weight("model.layers.0.input_layernorm.weight", WIDTH)
    path = "/model/layers.0/input_layernorm/SimplifiedLayerNormalization"
    normed = w.add(path, [x, scale], epsilon=1e-6)
    for i in range(LAYERS):
        x, normed = _layer(w, i, x, normed)
    w.add("/lm_head/MatMul", [normed, w.weight("lm_head.weight", WIDTH, VOCABULARY)])
    w.nodes[-1].output[0] = "logits"
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(w.nodes, "decoder", _inputs(), _outputs(), w.weights)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    if bits is None:
        return model
    quantizer = MatMulNBitsQuantizer(model, bits=bits, block_size=block_size)
    quantizer.process()
    return quantizer.model.model


class _Writer:
    """Nodes and weights of a graph, in order."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(5)

    def weight(self, name: str, *shape: int) -> str:
        array = self._random.standard_normal(shape) / np.sqrt(shape[0])
        return self.constant(name, array.astype(np.float32))

    def constant(self, name: str, array: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, path: str, inputs: list[str], domain: str = "", **attrs: Any) -> str:
        """The node at `path`, whose last word is its operator; its first output."""
        outputs = attrs.pop("outputs", [f"{path}/output_0"])
        op = path.rpartition("/")[2]
        node = helper.make_node(op, inputs, outputs, path, domain=domain, **attrs)
        self.nodes.append(node)
        return str(outputs[0])

    def own(self, path: str, inputs: list[str], **attrs: Any) -> str:
        return self.add(path, inputs, "com.microsoft", **attrs)

    def linear(self, path: str, x: str, rows: int, columns: int) -> str:
        name = path.strip("/").replace("/", ".")
        return self.add(
            f"{path}/MatMul", [x, self.weight(f"{name}.weight", rows, columns)]
        )


def _lengths(w: _Writer) -> None:
    """The mask as each sample's last place, and the length of the longest."""
    path = "/model/attn_mask_reformat"
    w.constant("one", np.array([1]))
    w.constant("one_32", np.array(1, np.int32))
    w.constant("axis", np.array(1))
    sums = w.add(f"{path}/ReduceSum", ["attention_mask", "one"], keepdims=0)
    sums = w.add(f"{path}/Cast", [sums], to=TensorProto.INT32)
    w.add(f"{path}/Sub", [sums, "one_32"], outputs=["seqlens_k"])
    shape = w.add(f"{path}/Shape", ["attention_mask"])
    total = w.add(f"{path}/Gather", [shape, "axis"])
    w.add(f"{path}/total/Cast", [total], to=TensorProto.INT32, outputs=["total"])


def _layer(w: _Writer, i: int, x: str, normed: str) -> tuple[str, str]:
    """One block; gives the residual sum, and its norm for what follows."""
    path = f"/model/layers.{i}"
    widths = {"q": HEADS * SIZE, "k": KV_HEADS * SIZE, "v": KV_HEADS * SIZE}
    qkv = [
        w.linear(f"{path}/attn/{name}_proj", normed, WIDTH, width)
        for name, width in widths.items()
    ]
    cache = [f"past_key_{i}", f"past_value_{i}", "seqlens_k", "total"]
    attended = w.own(
        f"{path}/attn/GroupQueryAttention",
        [*qkv, *cache, "cos_cache", "sin_cache"],
        outputs=[f"{path}/attn/y", f"present_key_{i}", f"present_value_{i}"],
        num_heads=HEADS,
        kv_num_heads=KV_HEADS,
        do_rotary=1,
    )
    y = w.linear(f"{path}/attn/o_proj", attended, HEADS * SIZE, WIDTH)
    x, normed = _skip(w, x, y, f"{path}/post_attention_layernorm")
    gate = w.linear(f"{path}/mlp/gate_proj", normed, WIDTH, INNER)
    gate = w.own(f"{path}/mlp/act_fn/QuickGelu", [gate], alpha=1.0)
    up = w.linear(f"{path}/mlp/up_proj", normed, WIDTH, INNER)
    inner = w.add(f"{path}/mlp/Mul", [gate, up])
    y = w.linear(f"{path}/mlp/down_proj", inner, INNER, WIDTH)
    last = i == LAYERS - 1
    after = "norm" if last else f"layers.{i + 1}/input_layernorm"
    return _skip(w, x, y, f"/model/{after}")


def _skip(w: _Writer, x: str, y: str, path: str) -> tuple[str, str]:
    weight = w.weight(f"{path.strip('/').replace('/', '.')}.weight", WIDTH)
    outputs = [f"{path}/output_0", "", "", f"{path}/output_3"]
    path = f"{path}/SkipSimplifiedLayerNormalization"
    normed = w.own(path, [x, y, weight], outputs=outputs, epsilon=1e-6)
    return outputs[3], normed


def _inputs() -> list[onnx.ValueInfoProto]:
    info = helper.make_tensor_value_info
    return [
        info("input_ids", TensorProto.INT64, ["batch_size", "sequence_length"]),
        info(
            "attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"]
        ),
        *_cache("past", "past_sequence_length"),
    ]


def _outputs() -> list[onnx.ValueInfoProto]:
    shape = ["batch_size", "sequence_length", VOCABULARY]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    return [logits, *_cache("present", "total_sequence_length")]


def _cache(kind: str, length: str) -> list[onnx.ValueInfoProto]:
    shape = ["batch_size", KV_HEADS, length, SIZE]
    return [
        helper.make_tensor_value_info(f"{kind}_{part}_{i}", TensorProto.FLOAT, shape)
        for i in range(LAYERS)
        for part in ("key", "value")
    ]


def empty_cache(batch: int, room: int = 0) -> dict[str, np.ndarray]:
    """The first step's cache: empty, or with room to be filled."""
    return {
        info.name: np.zeros((batch, KV_HEADS, room, SIZE), np.float32)
        for info in _cache("past", "")
    }
