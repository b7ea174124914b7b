"""Take the weights out of a serialised model without parsing them.

A protobuf parser copies every byte it reads. For a model of 440 MB that is 440 MB of
memory before any work has begun. Here the wire format is walked instead: the payload
of each large tensor is cut out and replaced by a note that says which cut it was, and
only the small rest, the skeleton, is parsed. The cuts stay where they were: in a
memory-mapped file they cost nothing until somebody reads them.

The wire format needs four facts. A message is a run of fields; a field begins with a
varint `number << 3 | kind`; kind 0 is followed by a varint, 1 by 8 bytes, 5 by 4 bytes,
2 by a varint length and that many bytes; a nested message is a field of kind 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import NamedTuple

import onnx
from google.protobuf.descriptor import Descriptor  # type: ignore[import-untyped]

from ...analysis.errors import LoadError
from ...analysis.graph.weightless import CUT_PREFIX

# Below this size a copy is cheaper than the bookkeeping of a cut.
SMALLEST_CUT = 4096


# A tensor has a field per dimension and a handful of others. One with more is written
# element by element, and listing its fields here would cost more than parsing it.
_MOST_FIELDS = 256

# Protobuf's own parser stops at 100 nested messages; what is deeper is left to it.
_DEEPEST = 100

_TENSOR = onnx.TensorProto.DESCRIPTOR
_NUMBER = {f.name: f.number for f in _TENSOR.fields}

# Payloads whose wire bytes are the tensor's bytes, and the element types they may hold.
_VERBATIM = {
    _NUMBER["raw_data"]: None,
    _NUMBER["float_data"]: {onnx.TensorProto.FLOAT, onnx.TensorProto.COMPLEX64},
    _NUMBER["double_data"]: {onnx.TensorProto.DOUBLE, onnx.TensorProto.COMPLEX128},
}
# With any of these beside it, a payload is not the only word on the tensor's content.
_RIVALS = {
    _NUMBER[name]
    for name in (
        "int32_data",
        "int64_data",
        "uint64_data",
        "string_data",
        "external_data",
    )
}


@dataclass
class Skim:
    """A model without its large payloads; CUT_PREFIX + "3" names `cuts[3]`."""

    skeleton: bytes
    cuts: list[memoryview]


class _Field(NamedTuple):
    """One field of a message; the last three say where tag, body and end lie."""

    number: int
    wire: int
    first: int
    body: int
    end: int


@dataclass
class _Walk:
    view: memoryview
    cuts: list[memoryview] = field(default_factory=list)


def skim(view: memoryview) -> Skim:
    """Split the bytes of a ModelProto into a skeleton and the payloads cut from it.

    Raises LoadError when the bytes end inside a field or aren't protobuf at all.
    """
    walk = _Walk(view)
    pieces = _message(walk, 0, len(view), onnx.ModelProto.DESCRIPTOR, 0)
    return Skim(b"".join(pieces), walk.cuts)


@cache
def _branches(message: Descriptor) -> dict[int, Descriptor]:
    """The fields of `message` below which a tensor can be found."""
    return {
        f.number: f.message_type
        for f in message.fields
        if f.message_type is not None and _holds_tensor(f.message_type, frozenset())
    }


def _holds_tensor(message: Descriptor, seen: frozenset[str]) -> bool:
    if message.full_name == _TENSOR.full_name:
        return True
    if message.full_name in seen:
        return False
    seen = seen | {message.full_name}
    children = (f.message_type for f in message.fields)
    return any(child and _holds_tensor(child, seen) for child in children)


def _message(
    walk: _Walk, start: int, end: int, kind: Descriptor, depth: int
) -> list[bytes | memoryview]:
    """The bytes of one message, with its large tensors cut."""
    if kind.full_name == _TENSOR.full_name:
        return _tensor(walk, start, end)
    branches = _branches(kind)
    pieces: list[bytes | memoryview] = []
    copied = start
    for found in _fields(walk.view, start, end):
        branch = branches.get(found.number)
        if branch is None or found.wire != 2 or depth == _DEEPEST:
            continue
        if found.end - found.body < SMALLEST_CUT:
            continue
        before = len(walk.cuts)
        inner = _message(walk, found.body, found.end, branch, depth + 1)
        if len(walk.cuts) == before:
            continue
        pieces += [walk.view[copied : found.first], _varint(found.number << 3 | 2)]
        pieces += [_varint(sum(map(len, inner))), *inner]
        copied = found.end
    return [*pieces, walk.view[copied:end]]


def _tensor(walk: _Walk, start: int, end: int) -> list[bytes | memoryview]:
    """The bytes of one tensor; a lone large payload is replaced by an external one."""
    fields = list(islice(_fields(walk.view, start, end), _MOST_FIELDS + 1))
    payloads = [f for f in fields if f.number in _VERBATIM]
    whole: list[bytes | memoryview] = [walk.view[start:end]]
    if len(fields) > _MOST_FIELDS or len(payloads) != 1:
        return whole
    if any(f.number in _RIVALS for f in fields):
        return whole
    if _last(walk.view, fields, "data_location") != onnx.TensorProto.DEFAULT:
        return whole
    payload = payloads[0]
    types = _VERBATIM[payload.number]
    if payload.wire != 2 or payload.end - payload.body < SMALLEST_CUT:
        return whole
    if types is not None and _last(walk.view, fields, "data_type") not in types:
        return whole
    note = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    note.external_data.add(key="location", value=f"{CUT_PREFIX}{len(walk.cuts)}")
    walk.cuts.append(walk.view[payload.body : payload.end])
    rest = [walk.view[start : payload.first], walk.view[payload.end : end]]
    return [*rest, note.SerializeToString()]


def _last(view: memoryview, fields: list[_Field], name: str) -> int:
    """The value of an enumeration, as a parser reads it: of several the last counts."""
    found = 0
    for f in fields:
        if f.number == _NUMBER[name] and f.wire == 0:
            found, _ = _read_varint(view, f.body, f.end)
    return found


def _fields(view: memoryview, start: int, end: int) -> Iterator[_Field]:
    """The fields of the message that lies between `start` and `end`."""
    at = start
    while at < end:
        first = at
        tag, at = _read_varint(view, at, end)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            body = at
            _, at = _read_varint(view, at, end)
        elif wire in (1, 5):
            body, at = at, at + (8 if wire == 1 else 4)
        elif wire == 2:
            length, body = _read_varint(view, at, end)
            at = body + length
        else:
            raise LoadError(
                "the file is not an ONNX model",
                f"byte {first}: no ONNX field begins with {view[first]:#04x}",
                "the file may be damaged, or of another format",
            )
        if at > end:
            raise LoadError(
                "the file is truncated",
                f"byte {first}: a field of {at - body} bytes, "
                f"of which {end - body} are there",
                "download or export the model again",
            )
        yield _Field(number, wire, first, body, at)


def _read_varint(view: memoryview, at: int, end: int) -> tuple[int, int]:
    """The number that begins at `at`, and where it ends."""
    result = shift = 0
    for position in range(at, min(end, at + 10)):
        byte = view[position]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position + 1
        shift += 7
    if at + 10 <= end:
        raise LoadError(
            "the file is not an ONNX model",
            f"byte {at}: a number of more than 64 bits",
            "the file may be damaged, or of another format",
        )
    raise LoadError(
        "the file is truncated",
        f"byte {end}, in the middle of a number",
        "download or export the model again",
    )


def _varint(number: int) -> bytes:
    pieces = bytearray()
    while number > 0x7F:
        pieces.append(number & 0x7F | 0x80)
        number >>= 7
    pieces.append(number)
    return bytes(pieces)
