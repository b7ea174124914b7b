"""Pooling over windows and over everything."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..facts import Facts
from ..pattern import Operator
from .contraction import window, window_attributes
from .read_write import (
    Draft,
    Input,
    NoReading,
    Reading,
    attribute,
    define,
    dims_of,
    given,
    plain,
    whole,
)

GlobalAveragePool = plain("GlobalAveragePool", 1)
GlobalMaxPool = plain("GlobalMaxPool", 1)


def _read(node: ir.Node, facts: Facts) -> Reading:
    """Per-axis parameters have an entry for every axis; `ceil` is 0 or 1."""
    x = given(node, 0)
    sizes = dims_of(x, facts)
    kernel = (1, 1, *attribute(node, "kernel_shape", ()))
    if len(kernel) != len(sizes):
        raise NoReading(f"{node.op_type} with a window of {len(kernel) - 2} axes")
    found: dict[str, Any] = {"kernel": kernel, **window(node, sizes, kernel)}
    # With auto_pad the number of places is rounded in a way of its own.
    explicit = attribute(node, "auto_pad", "NOTSET") == "NOTSET"
    found["ceil"] = int(attribute(node, "ceil_mode", 0)) if explicit else 0
    return Reading((x,), found)


def _read_average(node: ir.Node, facts: Facts) -> Reading:
    """Whether pads count is left open by a node without any: then they do."""
    found = _read(node, facts)
    counted = int(attribute(node, "count_include_pad", 0))
    if not any((*found.parameters["low"], *found.parameters["high"])):
        counted = 1 - found.parameters["ceil"]
    found.parameters["pads_count"] = counted
    return found


def _attributes(parameters: dict[str, Any]) -> dict[str, Any]:
    ceil = {"ceil_mode": 1} if parameters["ceil"] else {}
    kernel = whole(parameters["kernel"])[2:]
    return {"kernel_shape": kernel, **window_attributes(parameters), **ceil}


def _write_average(inputs: list[Input], parameters: dict[str, Any]) -> Draft:
    padded = any((*parameters["low"], *parameters["high"]))
    counted = {"count_include_pad": 1} if parameters["pads_count"] and padded else {}
    return Draft("AveragePool", inputs, {**_attributes(parameters), **counted})


_WINDOW = ("kernel", "stride", "dilation", "low", "high", "ceil")

MaxPool = define(
    Operator("MaxPool", _WINDOW),
    _read,
    lambda inputs, p: Draft("MaxPool", inputs, _attributes(p)),
)
# `pads_count` is the attribute count_include_pad.
AveragePool = define(
    Operator("AveragePool", (*_WINDOW, "pads_count")), _read_average, _write_average
)
