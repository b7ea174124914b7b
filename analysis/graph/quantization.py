"""Which operators round what is computed at run time to integers."""

from __future__ import annotations

import onnx
import onnx_ir as ir

_ROUND = ("QLinear", "QGemm", "QAttention", "DynamicQuantize", "QuantizeLinear")
_IN_INT8 = 4  # the level of accuracy at which a product rounds what it multiplies


def quantises(node: ir.Node | onnx.NodeProto) -> bool:
    """Whether a node rounds activations: itself, or as the first step of a product."""
    name = node.op_type
    return (
        name.startswith(_ROUND)
        or (name == "MatMulNBits" and _number(node, "accuracy_level") == _IN_INT8)
        # ONNX Runtime's kernel of 8 bits in blocks; it computes others in floats.
        or (
            name == "QMoE"
            and _number(node, "expert_weight_bits") == 8
            and _number(node, "block_size") > 0
        )
    )


def _number(node: ir.Node | onnx.NodeProto, name: str) -> int:
    if isinstance(node, ir.Node):
        return node.attributes.get_int(name, 0)
    return next((a.i for a in node.attribute if a.name == name), 0)
