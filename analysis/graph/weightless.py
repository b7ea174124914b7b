"""Serialise a model without its weights.

ONNX's own tools (shape inference, the checker) take a serialised model. Its weights are
most of its bytes, and none of what those tools look at.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import onnx_ir as ir

from .map_types import map_type
from .weight_access import is_weight

# No path on any system holds a NUL, so no file can have such a name by accident.
CUT_PREFIX = "\0cut:"


def skeleton(
    model: ir.Model, smallest: int, noted: bool = True
) -> tuple[onnx.ModelProto, list[ir.TensorProtocol]]:
    """The model as protobuf, initializers of `smallest` bytes or more left out.

    In their place stand external tensors located at CUT_PREFIX + "0", "1" and so on;
    the list holds the tensors meant. Strings, and tensors in attributes, stay in. The
    model is the same afterwards. Weights that stay in count as read, unless `noted` is
    False: for who decides nothing of a package by them.
    """
    kept: list[tuple[ir.Value, ir.TensorProtocol]] = []
    changed: list[tuple[ir.Value, ir.TensorProtocol]] = []
    try:
        for graph in model.graphs():
            for value in graph.initializers.values():
                tensor = value.const_value
                if tensor is None or tensor.dtype == ir.DataType.STRING:
                    continue
                external = isinstance(tensor, ir.ExternalTensor)
                if tensor.nbytes < smallest and not external:
                    if is_weight(tensor) and not noted:
                        value.const_value = tensor.held
                        changed.append((value, tensor))
                    continue
                value.const_value = _stub(value, tensor, len(kept))
                kept.append((value, tensor))
        with quiet():
            return to_proto(model), [tensor for _, tensor in kept]
    finally:
        for value, tensor in (*kept, *changed):
            value.const_value = tensor


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """The model as protobuf, types of maps included."""
    proto = ir.to_proto(model)
    graph = model.graph
    sides = ((graph.inputs, proto.graph.input), (graph.outputs, proto.graph.output))
    for values, infos in sides:
        for value, info in zip(values, infos, strict=True):
            kind = map_type(value)
            if kind is not None:
                info.type.CopyFrom(kind)
    return proto


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the graph library's warnings from the terminal: errors say it all."""
    logger = logging.getLogger("onnx_ir")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _stub(value: ir.Value, tensor: ir.TensorProtocol, index: int) -> ir.ExternalTensor:
    shape = ir.Shape(tensor.shape.numpy())
    location = f"{CUT_PREFIX}{index}"
    return ir.ExternalTensor(
        location, None, None, tensor.dtype, shape=shape, name=value.name or ""
    )
