"""Quantisation per tensor. (Cast stands with the elementwise operators.)"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..facts import Facts
from ..pattern import Operator
from .read_write import Draft, Input, NoReading, Reading, define, given


def _read(node: ir.Node, facts: Facts) -> Reading:
    """The operand, its scale and zero point, and the element types by name."""
    odd = set(node.attributes) - {"axis"}
    if odd:
        raise NoReading(f"{node.op_type} has the attribute {min(odd)}")
    x, scale, zero = (given(node, i) for i in range(3))
    for value in (scale, zero):
        if facts.dims(value) not in ((), (1,)):
            raise NoReading(f"{node.op_type} with a scale per axis")
    if scale.dtype is None or zero.dtype is None:
        raise NoReading("the element type of a scale or zero point is unknown")
    types = {"small": zero.dtype.name, "real": scale.dtype.name}
    return Reading((x, scale, zero), types)


def _per_tensor(name: str) -> Operator:
    """`small` is the element type of the quantised numbers, `real` of the others."""

    def write(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
        return Draft(name, inputs)

    return define(Operator(name, ("small", "real")), _read, write)


QuantizeLinear = _per_tensor("QuantizeLinear")
DequantizeLinear = _per_tensor("DequantizeLinear")
