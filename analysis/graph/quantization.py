"""Which operators round what is computed at run time to integers."""

from __future__ import annotations

import onnx
import onnx_ir as ir


def quantises(node: ir.Node | onnx.NodeProto) -> bool:
    """Whether a node makes integers of floats by a scale."""
    name = node.op_type
    return name.startswith(("QLinear", "QGemm", "QAttention", "DynamicQuantize")) or (
        name == "QuantizeLinear"
    )
