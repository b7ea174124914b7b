"""Operators that ONNX itself defines by others, and that have no spelling here.

Such a definition may depend on the node: its attributes, graphs among them, and the
types of its inputs.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx_ir as ir

from ...analysis.graph.traversal import all_nodes
from ...analysis.ops import lookup
from ...analysis.shapes.control_flow import BODIES
from .cleanup import inline_functions


def expandable(model: ir.Model) -> list[ir.Node]:
    """The nodes that can be expanded, and are not spelled as they stand."""
    return [
        node
        for node in all_nodes(model.graph)
        if lookup(node) is None
        and (node.domain or node.op_type not in BODIES)
        and _schema(node) is not None
    ]


def expand(model: ir.Model, nodes: list[ir.Node]) -> None:
    """Put definitions in the place of nodes; the types of their inputs are known."""
    for number, node in enumerate(nodes):
        body = definition(node)
        if body is None or not _is_closed(body):
            continue
        body.overload = node.overload = str(number)
        for name, attribute in list(node.attributes.items()):
            if attribute.type == ir.AttributeType.GRAPH:  # it is in the definition now
                del node.attributes[name]
                if name in body.attribute:
                    body.attribute.remove(name)
        function = ir.serde.deserialize_function(body)
        model.functions[function.identifier()] = function
    inline_functions(model)


def _schema(node: ir.Node) -> Any:
    """The schema of a node whose operator is defined by others, or None."""
    version = node.version or onnx.defs.onnx_opset_version()
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)
    except onnx.defs.SchemaError:
        return None
    defined = schema.has_function or schema.has_context_dependent_function
    return schema if defined else None


def definition(node: ir.Node) -> onnx.FunctionProto | None:
    """The definition of the newest opset; None if it can't be made for such inputs."""
    schema = _schema(node)
    if schema.has_function:
        return _parsed(schema.function_body.SerializeToString())
    types = [
        _type(value).SerializeToString() if value is not None else b""
        for value in node.inputs
    ]
    version = schema.context_dependent_function_opset_versions[-1]
    make = schema.get_context_dependent_function_with_opset_version
    try:
        text = make(version, ir.to_proto(node).SerializeToString(), types)
    except (RuntimeError, ValueError):
        return None  # the node is none that ONNX can define
    return _parsed(text) if text else None


def _parsed(text: bytes) -> onnx.FunctionProto:
    body = onnx.FunctionProto()
    body.ParseFromString(text)
    return body


def _is_closed(body: onnx.FunctionProto) -> bool:
    """Whether a definition reads nothing from outside, as a node's graph may."""
    known = {"", *body.input}
    for node in body.node:
        if not known.issuperset(node.input):
            return False
        known.update(node.output)
    return True


def _type(value: ir.Value) -> onnx.TypeProto:
    found: onnx.TypeProto = ir.to_proto(value).type
    return found
