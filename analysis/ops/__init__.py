"""The operators, by family; importing this package fills the table.

Those of optional domains are entered by rewrites/lowering, when a model has them.
"""

from __future__ import annotations

from importlib import import_module

from .registry import OPS, OpDef, define, lookup, register, registered

__all__ = ["FAMILIES", "OPS", "OpDef", "define", "lookup", "register", "registered"]

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
    "onnx.recurrent",
    "onnx.attention",
    "onnx.losses",
    "onnx.signal",
    "quantized.quantize_linear",
    "quantized.integer_products",
    "onnx.random",
    "onnx.images",
    "onnx.sequences",
    "onnx.strings",
)

for _family in FAMILIES:
    import_module(f".{_family}", __name__)
