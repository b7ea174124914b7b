"""A hash of what a graph computes, whatever its nodes and inner values are called."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ...analysis.graph.weight_access import FileTensor, glance

_LARGE = 1 << 20  # bytes
_SAMPLE = 1 << 10  # elements

# What is hashed: bytes, the result of an earlier step, or bytes followed by one.
Part = bytes | int | tuple[bytes, int]
# A hash of parts, or that of the weight of this name.
Step = Sequence[Part] | str
# The steps, and the weights that they name.
Digested = tuple[list[Step], dict[str, ir.TensorProtocol]]


def digest(model: ir.Model) -> str:
    """Equal for graphs that are isomorphic: operators, attributes, wiring, constants.

    Inputs count by name and place, weights by element type, shape and bytes, outputs by
    name. Of large weights a sample is read: the hash of the file stands for the rest.
    """
    steps, weights = digest_steps(model)
    return finished(steps, weights)


def digest_steps(model: ir.Model) -> Digested:
    """The hashes that depend on weights of the file, and those weights by name."""
    made = _Steps()
    known: dict[ir.Value, bytes | int] = {}
    for i, value in enumerate(model.graph.inputs):
        known[value] = _hash(b"input", str(i).encode(), (value.name or "").encode())
    made.graph(model.graph, known)
    outputs: list[Part] = []
    for value in model.graph.outputs:
        name, found = (value.name or "").encode(), known[value]
        outputs.append((name, found) if isinstance(found, int) else name + found)
    made.steps.append([b"model", *outputs])
    return made.steps, made.weights


def finished(steps: Sequence[Step], weights: Mapping[str, ir.TensorProtocol]) -> str:
    """The digest of a graph, given what its weights are now."""
    done: list[bytes] = []
    for step in steps:
        if isinstance(step, str):
            done.append(_tensor(weights[step]))
            continue
        parts = []
        for part in step:
            if isinstance(part, tuple | list):
                parts.append(part[0] + done[part[1]])
            else:
                parts.append(done[part] if isinstance(part, int) else part)
        done.append(_hash(*parts))
    return done[-1].hex()


class _Steps:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.weights: dict[str, ir.TensorProtocol] = {}
        self._places: dict[str, int] = {}
        self._depth = 0  # of the body at hand in others

    def graph(self, graph: ir.Graph, known: dict[ir.Value, bytes | int]) -> None:
        for value in graph.initializers.values():
            if value not in known:
                known[value] = self._constant(value)
        for node in graph:
            inputs = [known[x] if x is not None else b"-" for x in node.inputs]
            attributes = [
                self._hash(name.encode(), self._attribute(node.attributes[name], known))
                for name in sorted(node.attributes)
            ]
            for i, output in enumerate(node.outputs):
                known[output] = self._hash(
                    node.domain.encode(),
                    node.op_type.encode(),
                    str(i).encode(),
                    str(len(node.outputs)).encode(),
                    *inputs,
                    b"|",
                    *attributes,
                )

    def _hash(self, *parts: bytes | int) -> bytes | int:
        plain = [part for part in parts if isinstance(part, bytes)]
        return _hash(*plain) if len(plain) == len(parts) else self._add(parts)

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _attribute(
        self, attribute: ir.Attr, known: dict[ir.Value, bytes | int]
    ) -> bytes | int:
        if attribute.type == ir.AttributeType.GRAPH:
            body = attribute.as_graph()
            for i, value in enumerate(body.inputs):
                known[value] = _hash(b"body" * (self._depth + 1), str(i).encode())
            self._depth += 1
            self.graph(body, known)
            self._depth -= 1
            return self._hash(*(known[value] for value in body.outputs))
        if attribute.type == ir.AttributeType.TENSOR:
            return _tensor(attribute.as_tensor())
        value = attribute.value
        return repr(list(value) if isinstance(value, list | tuple) else value).encode()

    def _constant(self, value: ir.Value) -> bytes | int:
        tensor = value.const_value
        if not isinstance(tensor, FileTensor):
            return _tensor(tensor) if tensor is not None else b"?"
        name = tensor.known_as
        if name not in self._places:
            self.weights[name] = tensor
            self._places[name] = self._add(name)
        return self._places[name]


def _tensor(tensor: ir.TensorProtocol) -> bytes:
    if tensor.dtype == ir.DataType.STRING:
        return _hash(repr(tensor.numpy().tolist()).encode())
    array = glance(tensor)
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
