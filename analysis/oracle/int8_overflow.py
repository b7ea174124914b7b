"""What ONNX Runtime is asked where its products of 8-bit integers overflow.

Without VNNI it adds two products of uint8 and int8 in 16 bits, and keeps to the largest
number that they hold: 255 * 127 * 2 becomes 32767, which is no reference. With uint8
weights it adds in 32 bits. So int8 ones become the same numbers 128 higher, and their
zero points too.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ..graph.weightless import to_proto
from .process import UNLIMITED, Session

NOTE = (
    "int8 weights: ONNX Runtime's products of them overflow on this processor; it was"
    " given the same numbers as uint8"
)
# Of each operator that multiplies them: where weights are, and their zero points.
_WEIGHTS = {
    "MatMulInteger": ((1, 3),),
    "ConvInteger": ((1, 3),),
    "QLinearMatMul": ((3, 5),),
    "QLinearConv": ((3, 5),),
    "QGemm": ((3, 5),),
    "DynamicQuantizeMatMul": ((1, 3),),
    "MatMulIntegerToFloat": ((1, 5),),
    "DynamicQuantizeLSTM": ((1, 9), (2, 11)),
    "QAttention": ((1, 7),),
}
_HALF = 128
_PROBE = """<ir_version: 8, opset_import: ["" : 13]>
    probe (uint8[1, 2] a, int8[2, 1] b) => (int32[1, 1] y) { y = MatMulInteger(a, b) }
"""


def without_overflow(model: ir.Model) -> bytes | None:
    """The model with its int8 weights as uint8; None where nothing overflows."""
    places = _places(model)
    size = sum(v.const_value.nbytes for v in _held(model))
    if not places or size > onnx.checker.MAXIMUM_PROTOBUF or not overflows():
        return None
    copy = model.clone()
    for node, weight, zero in _places(copy):
        _raise(node, weight, zero)
    data: bytes = to_proto(copy).SerializeToString()
    return data


@cache
def overflows() -> bool:
    """Whether ONNX Runtime says so itself, on this processor."""
    probe = onnx.parser.parse_model(_PROBE).SerializeToString()
    feed = {"a": np.full((1, 2), 255, np.uint8), "b": np.full((2, 1), 127, np.int8)}
    (sums,) = Session(probe, 1, UNLIMITED).run(None, feed)
    return int(sums[0, 0]) != 255 * 127 * 2


def _held(model: ir.Model) -> list[Any]:
    held = model.graph.initializers.values()
    return [value for value in held if value.const_value is not None]


def _places(model: ir.Model) -> list[tuple[ir.Node, int, int]]:
    """The nodes with int8 weights that are stored, as are their zero points."""
    return [
        (node, weight, zero)
        for node in model.graph.all_nodes()
        for weight, zero in _WEIGHTS.get(node.op_type, ())
        if _is_int8(_input(node, weight))
        and (_input(node, zero) is None or _is_int8(_input(node, zero)))
    ]


def _input(node: ir.Node, place: int) -> ir.Value | None:
    return node.inputs[place] if place < len(node.inputs) else None


def _is_int8(value: ir.Value | None) -> bool:
    held = None if value is None else value.const_value
    return held is not None and held.dtype == ir.DataType.INT8


def _raise(node: ir.Node, weight: int, zero: int) -> None:
    assert node.graph is not None
    node.resize_inputs(max(len(node.inputs), zero + 1))
    for place in (weight, zero):
        value = node.inputs[place]
        held = None if value is None else value.const_value
        old = np.zeros((), np.int8) if held is None else held.numpy()
        name = f"{node.name or node.op_type}:{node.outputs[0].name}:{place} as uint8"
        new = ir.tensor((old.astype(np.int16) + _HALF).astype(np.uint8), name=name)
        other = ir.Value(name=name, const_value=new)
        node.graph.register_initializer(other)
        node.replace_input_with(place, other)
