"""A hash of what a graph computes, whatever its nodes and inner values are called."""

from __future__ import annotations

import hashlib

import numpy as np
import onnx_ir as ir

_LARGE = 1 << 20  # bytes
_SAMPLE = 1 << 10  # elements


def digest(model: ir.Model) -> str:
    """Equal for graphs that are isomorphic: operators, attributes, wiring, constants.

    Inputs count by name and place, weights by element type, shape and bytes, outputs by
    name. Of large weights a sample is read: the hash of the file stands for the rest.
    """
    known: dict[ir.Value, bytes] = {}
    for i, value in enumerate(model.graph.inputs):
        known[value] = _hash(b"input", str(i).encode(), (value.name or "").encode())
    _graph(model.graph, known)
    outputs = [
        (value.name or "").encode() + known[value] for value in model.graph.outputs
    ]
    return _hash(b"model", *outputs).hex()


def _graph(graph: ir.Graph, known: dict[ir.Value, bytes]) -> None:
    for value in graph.initializers.values():
        if value not in known:
            known[value] = _constant(value)
    for node in graph:
        inputs = [known[x] if x is not None else b"-" for x in node.inputs]
        attributes = [
            _hash(name.encode(), _attribute(node.attributes[name], known))
            for name in sorted(node.attributes)
        ]
        for i, output in enumerate(node.outputs):
            known[output] = _hash(
                node.domain.encode(),
                node.op_type.encode(),
                str(i).encode(),
                str(len(node.outputs)).encode(),
                *inputs,
                b"|",
                *attributes,
            )


def _attribute(attribute: ir.Attr, known: dict[ir.Value, bytes]) -> bytes:
    if attribute.type == ir.AttributeType.GRAPH:
        body = attribute.as_graph()
        for i, value in enumerate(body.inputs):
            known[value] = _hash(b"body", str(i).encode())
        _graph(body, known)
        return _hash(*(known[value] for value in body.outputs))
    if attribute.type == ir.AttributeType.TENSOR:
        return _tensor(attribute.as_tensor())
    value = attribute.value
    listed = list(value) if isinstance(value, list | tuple) else value
    return repr(listed).encode()


def _constant(value: ir.Value) -> bytes:
    tensor = value.const_value
    return _tensor(tensor) if tensor is not None else b"?"


def _tensor(tensor: ir.TensorProtocol) -> bytes:
    if tensor.dtype == ir.DataType.STRING:
        return _hash(repr(tensor.numpy().tolist()).encode())
    array = tensor.numpy()
    if array.size > 1 and not any(array.strides):
        array = array.reshape(-1)[:1]  # one number in the guise of many
    head = f"{tensor.dtype.name} {list(tensor.shape)}".encode()
    flat = array.reshape(-1)
    if flat.nbytes > _LARGE:
        flat = flat[:: flat.size // _SAMPLE]
    return _hash(head, np.ascontiguousarray(flat).view(np.uint8).data)


def _hash(*parts: bytes | memoryview) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()
