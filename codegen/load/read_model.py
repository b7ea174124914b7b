"""ONNX file -> ir.Model. Everything in the file is untrusted.

The weights are never copied: the file is memory-mapped, a skeleton without weights is
parsed and checked (partial_parse.py, validate_graph.py), and the tensors of the result
are views of the mapping. A model of 440 MB loads in a few MB of memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count
from math import prod
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from ...analysis.errors import FairhandError, LoadError
from ...analysis.graph.map_types import is_map, set_map_type
from ...analysis.graph.weight_access import FileTensor, is_data
from ...analysis.graph.weightless import CUT_PREFIX, quiet, skeleton
from ...analysis.literals import one_line
from .partial_parse import SMALLEST_CUT, skim
from .placement import Placed, take_placement
from .tensor_storage import Cut, Payloads, map_file
from .validate_graph import check, first_line
from .validate_tensors import nodes_of

TEXTUAL = ".onnxtxt"  # ONNX's textual syntax, which ONNX Runtime can't read

# The parser of ONNX text calls itself for every bracket; too many end the process.
_DEEPEST_TEXT = 200

# What people feed a compiler by mistake, by the first bytes.
_MISTAKEN = {
    b"version https://git-lfs": "it is a Git LFS pointer; run `git lfs pull`",
    b"PK\x03\x04": "it is a zip archive, such as a PyTorch checkpoint; export to ONNX",
    b"\x80\x02": "it is a Python pickle; export the model to ONNX",
    b"\x1f\x8b": "it is compressed; unpack it first",
    b"<": "it is a web page or XML; download the model file itself",
    b"{": "it is JSON; save the model in the binary format",
    b"ORTM": "it is of ONNX Runtime's own format; compile the .onnx it was made from",
    b"TFL3": "it is a TensorFlow Lite model; convert it by tf2onnx",
}


@dataclass(frozen=True)
class Loaded:
    """A model that passed all checks, and what is known about where it came from.

    `sha256` covers the bytes of the model file, then those of each external data file
    in the order in which the model first mentions them. For a model passed as an
    object there is no file: it covers a deterministic serialisation, and `path` and
    `folder` are None. `node_count` counts the nodes as they stand in the file, with
    those inside branches and loops, but not the bodies of functions. `opset` is the
    version of ai.onnx. `outline` is a hash of all but the content of the weights,
    `placed` what the file says of devices.
    `shapes` are those that a user gave to inputs (given_shapes.py).
    """

    model: ir.Model
    digest: Callable[[], str]
    name: str
    folder: Path | None
    opset: int
    node_count: int
    path: Path | None
    external_data: tuple[str, ...] = ()  # as the model names them, first mention first
    outline: str = ""
    placed: Mapping[str, Placed] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int | str | None]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The file's name as it is; of a model in memory its own, as a line."""
        return self.path.name if self.path is not None else one_line(self.name)

    @cached_property
    def sha256(self) -> str:
        """Computed when it is asked for: it takes as long as to read all weights."""
        return self.digest()


@dataclass(frozen=True)
class _Source:
    """The bytes of a model as protobuf, and the bytes that identify it."""

    view: memoryview
    identity: memoryview
    path: Path | None
    cuts: Sequence[Cut] = ()


def load(source: str | Path | onnx.ModelProto | ir.Model) -> Loaded:
    """Read a model from a `.onnx` or `.onnxtxt` file, or take one that is in memory.

    A model passed as an object is not changed, and shares no values with the result.
    The tensors of the result are read-only, lazy where they can be. Raises LoadError
    for whatever can't be loaded, and no other exception.
    """
    where = str(source) if isinstance(source, str | Path) else "the model object"
    try:
        with quiet():
            return _load(_source(source))
    except FairhandError:
        raise
    except Exception as error:
        reason = first_line(error.__cause__ or error)
        raise LoadError("the model can't be read", where, reason) from error


def _source(source: str | Path | onnx.ModelProto | ir.Model) -> _Source:
    if isinstance(source, ir.Model):
        proto, tensors = skeleton(source, SMALLEST_CUT)
        view = memoryview(proto.SerializeToString(deterministic=True))
        return _Source(view, view, None, tensors)
    if isinstance(source, onnx.ModelProto):
        # 2 GiB is as much as protobuf can write; the error says so.
        view = memoryview(source.SerializeToString(deterministic=True))
        return _Source(view, view, None)
    path = Path(source)
    view = map_file(path, "the model file")
    if not view:
        raise LoadError("the model file is empty", f"file {path}")
    if path.suffix == TEXTUAL:
        return _Source(memoryview(_from_text(view)), view, path)
    return _Source(view, view, path)


def _from_text(view: memoryview) -> bytes:
    """ONNX's textual syntax, as protobuf."""
    text = bytes(view).decode("utf-8")
    depth = deepest = 0
    for character in text:
        depth += (character in "({[<") - (character in ")}]>")
        deepest = max(deepest, depth)
    if deepest > _DEEPEST_TEXT:
        raise LoadError(f"the text nests brackets more than {_DEEPEST_TEXT} deep")
    try:
        return onnx.parser.parse_model(text).SerializeToString()
    except onnx.parser.ParseError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise LoadError(
            "the file is not a model in ONNX's textual syntax",
            hint=" ".join(lines)[:300],
        ) from None


def _load(source: _Source) -> Loaded:
    proto, cuts = _parse(source)
    payloads = Payloads(source.path, [*source.cuts, *cuts])
    opset, placed = check(proto, payloads), take_placement(proto)
    node_count = sum(1 for _ in nodes_of(proto.graph.node))
    outline = _outline(proto, payloads)
    maps = _lift_maps(proto.graph)
    model = ir.from_proto(proto)
    for value in (*model.graph.inputs, *model.graph.outputs):
        if value.name in maps:
            set_map_type(value, maps[value.name])
    # A file may hold its nodes in any order; a model can be cloned in one order alone.
    for body in (model.graph, *(f.graph for f in model.functions.values())):
        body.sort()
    _bind(model, payloads)
    _part_outputs(model.graph)
    for graph in [model.graph, *(f.graph for f in model.functions.values())]:
        graph.opset_imports.setdefault("", opset)
    path = source.path
    return Loaded(
        model=model,
        digest=partial(_digest, source, payloads),
        name=path.stem if path else proto.graph.name or "model",
        folder=path.parent.resolve() if path else None,
        opset=opset,
        node_count=node_count,
        path=path.resolve() if path else None,
        external_data=tuple(payloads.files),
        outline=outline,
        placed=placed,
    )


def _part_outputs(graph: ir.Graph) -> None:
    """Give an output that is listed twice, which ONNX Runtime admits, a second name."""
    names = {value.name for value in graph.outputs}
    seen: set[ir.Value] = set()
    for i, value in enumerate(graph.outputs):
        if value in seen:
            node = ir.node("Identity", [value])
            graph.append(node)
            again = node.outputs[0]
            again.name = next(
                name for k in count(2) if (name := f"{value.name}_{k}") not in names
            )
            names.add(again.name)
            again.type, again.shape = value.type, value.shape
            graph.outputs[i] = again
        seen.add(value)


def _lift_maps(graph: onnx.GraphProto) -> dict[str, onnx.TypeProto]:
    """Take out the types that the graph library can't read; they contain maps."""
    found: dict[str, onnx.TypeProto] = {}
    for info in (*graph.input, *graph.output, *graph.value_info):
        if is_map(info.type):
            found[info.name] = onnx.TypeProto()
            found[info.name].CopyFrom(info.type)
            info.type.Clear()
    return found


def _parse(source: _Source) -> tuple[onnx.ModelProto, Sequence[Cut]]:
    """The skeleton of a model and the payloads cut from it."""
    try:
        skimmed = skim(source.view)
        proto = onnx.ModelProto()
        proto.ParseFromString(skimmed.skeleton)
    except (LoadError, DecodeError) as error:
        # Every writer puts the IR version first. A file that begins otherwise is no
        # damaged model but something else.
        begins = bytes(source.view[:32])
        if isinstance(error, LoadError) and begins[:1] == b"\x08":
            where = f"{source.path or 'the model object'}, {error.where}"
            raise LoadError(error.what, where, error.hint) from None
        # A FlatBuffer says what it is behind an offset of four bytes.
        hints = (
            h for m, h in _MISTAKEN.items() if m in (begins[: len(m)], begins[4:8])
        )
        raise LoadError(
            "the file is not an ONNX model",
            f"file {source.path}" if source.path else "the model object",
            next(hints, "it is damaged, or of another format"),
        ) from None
    return proto, skimmed.cuts


def _bind(model: ir.Model, payloads: Payloads) -> None:
    """Give every tensor that was cut out a view of its bytes."""
    graphs = [model.graph, *(f.graph for f in model.functions.values())]
    for graph in [inner for g in graphs for inner in (g, *g.subgraphs())]:
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = payloads.tensor(value.const_value)
        for node in graph:
            _bind_attributes(node.attributes, payloads)
    for value in model.graph.initializers.values():
        value.const_value = _own(value)
    for function in model.functions.values():
        _bind_attributes(function.attributes, payloads)


def _own(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of an initializer; of weights, one that knows if it was read."""
    tensor = value.const_value
    if tensor is None or not is_data(tensor.dtype, tensor.size):
        return tensor
    if isinstance(tensor, ir.TensorProtoTensor):  # reads it anew each time
        array = np.array(tensor.numpy())
        tensor = ir.Tensor(array, tensor.dtype, shape=tensor.shape, name=tensor.name)
    return FileTensor(tensor, value.name or "")


def _outline(proto: onnx.ModelProto, payloads: Payloads) -> str:
    """The hash of a model in which weights are types and shapes."""
    bare = onnx.ModelProto()
    bare.CopyFrom(proto)
    cuts = dict(enumerate(payloads.cuts))
    for tensor in bare.graph.initializer:
        if not is_data(ir.DataType(tensor.data_type), prod(tensor.dims)):
            continue
        for entry in tensor.external_data:
            cuts.pop(int(entry.value.removeprefix(CUT_PREFIX)), None)
        dims, kind, name = list(tensor.dims), tensor.data_type, tensor.name
        tensor.CopyFrom(onnx.TensorProto(dims=dims, data_type=kind, name=name))
    digest = hashlib.sha256(bare.SerializeToString(deterministic=True))
    for cut in cuts.values():
        digest.update(cut if isinstance(cut, memoryview) else cut.tobytes())
    return digest.hexdigest()


def _bind_attributes(
    attributes: MutableMapping[str, ir.Attr], payloads: Payloads
) -> None:
    for name, attribute in list(attributes.items()):
        if attribute.is_ref() or attribute.value is None:
            continue
        if attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if isinstance(tensor, ir.ExternalTensor):
                attributes[name] = ir.AttrTensor(name, payloads.tensor(tensor))
        elif attribute.type == ir.AttributeType.TENSORS:
            found = [
                payloads.tensor(t) if isinstance(t, ir.ExternalTensor) else t
                for t in attribute.as_tensors()
            ]
            attributes[name] = ir.AttrTensors(name, found)


def _digest(source: _Source, payloads: Payloads) -> str:
    digest = hashlib.sha256(source.identity)
    for tensor in source.cuts:
        digest.update(tensor if isinstance(tensor, memoryview) else tensor.tobytes())
    for file in payloads.files.values():
        digest.update(file)
    return digest.hexdigest()
