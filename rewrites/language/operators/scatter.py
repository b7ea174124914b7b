"""Operators that write at computed places."""

from __future__ import annotations

import onnx_ir as ir

from ..facts import Facts
from ..pattern import Operator
from .read_write import Draft, NoReading, Reading, attribute, define, given


def _read_scatter(node: ir.Node, facts: Facts) -> Reading:
    if attribute(node, "reduction", "none") != "none":
        raise NoReading("ScatterND that combines elements")
    return Reading(tuple(given(node, i) for i in range(3)), {})


ScatterND = define(
    Operator("ScatterND"), _read_scatter, lambda inputs, p: Draft("ScatterND", inputs)
)
