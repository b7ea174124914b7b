"""A decoder as torch exports it, in ONNX Runtime's own operators and in 4 bits.

ONNX Runtime's fusions know other spellings of attention than torch's exporter writes
here, so GroupQueryAttention is put in by hand; the weights are packed by its own
MatMulNBitsQuantizer.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

LONGEST = 256  # positions that the tables of cosines and sines hold


def in_four_bits(model: onnx.ModelProto, block_size: int = 32) -> onnx.ModelProto:
    """With GroupQueryAttention and MatMulNBits."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    _group(made)
    quantizer = MatMulNBitsQuantizer(made, bits=4, block_size=block_size)
    quantizer.process()
    found: onnx.ModelProto = quantizer.model.model
    return found


def _group(model: onnx.ModelProto) -> None:
    """One GroupQueryAttention between the projections of every layer."""
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    caches = [info.name[6:] for info in graph.input if info.name.startswith("past_k")]
    softmaxes = [i for i, node in enumerate(graph.node) if node.op_type == "Softmax"]
    nodes = list(graph.node)
    for layer, start in zip(caches, softmaxes, strict=True):
        # A cache grows by a projection, reshaped, turned and, if of keys, rotated.
        rotated, turned = (makers[makers[f"present_{c}{layer}"].input[1]] for c in "kv")
        key = makers[makers[makers[rotated.input[0]].input[0]].input[0]]
        value = makers[turned.input[0]]
        projections = [key.input[0], value.input[0]]
        x = makers[projections[0]].input[0]
        query = next(n for n in graph.node if n.op_type == "MatMul" and x in n.input)
        split = next(n for n in graph.node if query.output[0] in n.input)
        end = next(n for n in graph.node[start:] if n.op_type == "Reshape")
        attention = helper.make_node(
            "GroupQueryAttention",
            [
                *(query.output[0], *projections, f"past_k{layer}", f"past_v{layer}"),
                *("last_place", "total", "cosines", "sines"),
            ],
            [end.output[0], f"present_k{layer}", f"present_v{layer}"],
            name=f"attention_{layer}",
            domain="com.microsoft",
            num_heads=int(known[split.input[1]][2]),
            kv_num_heads=int(known[key.input[1]][2]),
            do_rotary=1,
        )
        for name in attention.output[1:]:
            nodes.remove(makers[name])
        nodes[nodes.index(end)] = attention
    size = known[split.input[1]][3]
    nodes[:0] = _lengths(graph, f"past_k{caches[0]}", known["inv_freq"][: size // 2])
    _keep(graph, nodes)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def _lengths(
    graph: onnx.GraphProto, cache: str, frequencies: np.ndarray
) -> list[onnx.NodeProto]:
    """How many places there are, the last one's number, and the rotations of all."""
    angles = np.arange(LONGEST)[:, None] * frequencies
    for name, array in {
        "cosines": np.cos(angles).astype(np.float32),
        "sines": np.sin(angles).astype(np.float32),
        "one": np.array([1], np.int32),
        "scalar": np.array([], np.int64),
    }.items():
        graph.initializer.append(numpy_helper.from_array(array, name))
    return [
        helper.make_node("Shape", [cache], ["past_length"], start=2, end=3),
        helper.make_node("Cast", ["past_length"], ["last_place"], to=TensorProto.INT32),
        helper.make_node("Add", ["last_place", "one"], ["totals"]),
        helper.make_node("Reshape", ["totals", "scalar"], ["total"]),
    ]


def _keep(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    """Of some nodes and all inputs, those that the outputs need."""
    needed = {info.name for info in graph.output}
    kept = []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            needed.update(node.input)
            kept.append(node)
    del graph.node[:], graph.value_info[:]
    graph.node.extend(reversed(kept))
    for entries in (graph.input, graph.initializer):
        for entry in [e for e in entries if e.name not in needed]:
            entries.remove(entry)
