"""The operators, by family; importing this package fills the table."""

from __future__ import annotations

from importlib import import_module

from .registry import OPS, OpDef, define, lookup

__all__ = ["FAMILIES", "OPS", "OpDef", "define", "lookup", "register"]

FAMILIES = (
    "onnx.elementwise",
    "onnx.activations",
    "onnx.casts",
    "onnx.logic",
    "onnx.reductions",
    "onnx.reshape",
    "onnx.movement",
    "onnx.slicing",
    "onnx.creation",
    "onnx.indexing",
    "onnx.scatter",
    "onnx.resize",
    "onnx.spatial",
    "onnx.matmul",
    "onnx.conv",
    "onnx.pooling",
    "onnx.roi",
    "onnx.normalization",
    "onnx.norms_by_size",
    "onnx.recurrent",
    "onnx.attention",
    "contrib.attention",
    "contrib.block_quantized",
    "contrib.qlinear",
    "contrib.mixture_of_experts",
    "contrib.tensors",
    "contrib.speech",
    "contrib.tokenizers",
    "onnx.losses",
    "onnx.signal",
    "contrib.linear_attention",
    "contrib.stateful",
    "quantized.quantize_linear",
    "quantized.integer_products",
    "onnx.random",
    "contrib.decoding_steps",
    "training.optimizers",
    "onnx.images",
    "onnx.strings",
    "ml.trees",
    "ml.labels_and_maps",
    "onnx.sequences",
)

for _family in FAMILIES:
    import_module(f".{_family}", __name__)


registered: list[OpDef] = []  # by users


def register(op: OpDef) -> OpDef:
    """Enter a user's operator; one of a built-in operator's name replaces it."""
    registered.append(op)
    return define(op, override=True)
