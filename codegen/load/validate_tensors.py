"""The tensors of an untrusted model: do they hold what they declare?

A tensor declares a shape and an element type, and somewhere has content. Both are the
file's word. A shape of 2**40 elements costs nothing to declare, and much to believe, so
the two are compared by counting, before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np
import onnx
import onnx_ir as ir
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from ...analysis.errors import LoadError
from .tensor_storage import Payloads, shown

_MOST_DIMS = 64  # NumPy's and PyTorch's limit
_LARGEST_SPAN = 2**58  # elements, of 16 bytes at most
_LARGEST_DENSE = 64 << 20  # bytes that a sparse tensor may expand to
# The class looks its names up anew, as slowly as it reads a field.
_GRAPH, _GRAPHS = AttributeProto.GRAPH, AttributeProto.GRAPHS

_TYPES = {kind.value for kind in ir.DataType} - {TensorProto.UNDEFINED}

# Which field holds the elements, and how many entries an element takes there.
_FIELD = {
    ir.DataType.FLOAT: ("float_data", 1),
    ir.DataType.COMPLEX64: ("float_data", 2),
    ir.DataType.DOUBLE: ("double_data", 1),
    ir.DataType.COMPLEX128: ("double_data", 2),
    ir.DataType.INT64: ("int64_data", 1),
    ir.DataType.UINT32: ("uint64_data", 1),
    ir.DataType.UINT64: ("uint64_data", 1),
    ir.DataType.STRING: ("string_data", 1),
}
_FIELDS = ("int32_data", *dict(_FIELD.values()))


def check_contents(proto: ModelProto, payloads: Payloads) -> None:
    """Check every tensor of the model; LoadError says which one is wrong.

    External tensors are settled on the way (see tensor_storage.py), and sparse ones
    become dense: the graph library has no sparse tensors.
    """
    for graph in _graphs(proto):
        for sparse in graph.sparse_initializer:
            where = f"sparse initializer {shown(sparse.values.name)}"
            graph.initializer.append(_dense(sparse, where, payloads))
        del graph.sparse_initializer[:]
        for tensor in graph.initializer:
            check_tensor(tensor, f"initializer {shown(tensor.name)}", payloads)
    _check_words(proto)
    for attribute, owner in _attributes(proto):
        where = f"attribute {shown(attribute.name)} of {owner}"
        if attribute.type == AttributeProto.SPARSE_TENSOR and attribute.name == (
            "sparse_value"
        ):
            dense = _dense(attribute.sparse_tensor, where, payloads)
            attribute.Clear()
            attribute.name, attribute.type = "value", AttributeProto.TENSOR
            attribute.t.CopyFrom(dense)
        elif "SPARSE" in AttributeProto.AttributeType.Name(attribute.type):
            raise LoadError(f"{where} is sparse, which is not supported")
        for tensor in held(attribute):
            check_tensor(tensor, where, payloads)


def _check_words(proto: ModelProto) -> None:
    """String attributes of ONNX's own operators are text, but for a Constant's."""
    for body in [proto.graph.node, *(function.node for function in proto.functions)]:
        for node in nodes_of(body):
            if node.domain not in ("", "ai.onnx") or node.op_type == "Constant":
                continue
            for attribute in node.attribute:
                try:
                    attribute.s.decode("utf-8")
                except UnicodeDecodeError:
                    where = f"attribute {shown(attribute.name)} of {called(node)}"
                    raise LoadError(f"{where} is not UTF-8") from None


def nodes_of(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """The nodes, each followed by those of the graphs inside it."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from nodes_of(graph.node)


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The graphs among a node's attributes: branches, loop bodies."""
    graphs: list[GraphProto] = []
    for attribute in node.attribute:
        kind = attribute.type
        if kind == _GRAPH:
            graphs.append(attribute.g)
        elif kind == _GRAPHS:
            graphs += attribute.graphs
    return graphs


def held(attribute: AttributeProto) -> list[TensorProto]:
    """The dense tensors of an attribute."""
    if attribute.ref_attr_name:
        return []
    if attribute.type == AttributeProto.TENSOR:
        return [attribute.t]
    return list(attribute.tensors) if attribute.type == AttributeProto.TENSORS else []


def called(node: NodeProto) -> str:
    """How an error names a node: by its name, or by what it computes."""
    if node.name:
        return f"node {shown(node.name)} ({shown(node.op_type)[1:-1]})"
    outputs = ", ".join(shown(name) for name in node.output[:3])
    kind = shown(node.op_type)[1:-1]
    return f"the node that computes {outputs or 'nothing'} ({kind})"


def _graphs(proto: ModelProto) -> list[GraphProto]:
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    inner = [g for body in bodies for node in nodes_of(body) for g in subgraphs(node)]
    return [proto.graph, *inner]


def _attributes(proto: ModelProto) -> Iterator[tuple[AttributeProto, str]]:
    """Every attribute of the model, and how an error names its owner."""
    for body in [proto.graph.node, *(function.node for function in proto.functions)]:
        for node in nodes_of(body):
            for attribute in node.attribute:
                yield attribute, called(node)
    for function in proto.functions:
        for attribute in function.attribute_proto:
            yield attribute, f"function {shown(function.name)}"


def check_tensor(tensor: TensorProto, where: str, payloads: Payloads) -> None:
    """The content of a tensor is there, and as much as its shape and type need."""
    if any(dim < 0 for dim in tensor.dims) or len(tensor.dims) > _MOST_DIMS:
        shape = list(tensor.dims[:9])
        raise LoadError(f"{where} has an impossible shape", f"dimensions {shape}")
    if tensor.data_type not in _TYPES or tensor.HasField("segment"):
        kind = tensor.data_type
        raise LoadError(f"{where} has no usable element type", f"data type {kind}")
    dtype = ir.DataType(tensor.data_type)
    count = prod(tensor.dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        if dtype == ir.DataType.STRING:
            raise LoadError(f"{where} keeps strings in a file, which ONNX forbids")
        needed, unit = (count * dtype.bitwidth + 7) // 8, "bytes"
        found = payloads.settle(tensor, needed, where).nbytes
    else:
        needed, found, unit = _inside(tensor, dtype, count, where)
    if found != needed:
        raise LoadError(
            f"{where} does not hold what it declares",
            f"shape {list(tensor.dims)} of {dtype} needs {needed:,} {unit}, "
            f"{found:,} are there",
            "the file is damaged; download or export the model again",
        )
    # Beside a size of 0 others may be of any size, but not for NumPy.
    if prod(dim or 1 for dim in tensor.dims) > _LARGEST_SPAN:
        shape = list(tensor.dims)
        raise LoadError(f"{where} has an impossible shape", f"dimensions {shape}")
    try:
        for text in tensor.string_data:
            text.decode("utf-8")
    except UnicodeDecodeError:
        raise LoadError(f"{where} holds strings that are not UTF-8") from None


def _inside(
    tensor: TensorProto, dtype: ir.DataType, count: int, where: str
) -> tuple[int, int, str]:
    """What a tensor needs, what it holds in the model itself, and in which unit."""
    name, per_element = _FIELD.get(dtype, ("int32_data", 1))
    filled = [field for field in _FIELDS if getattr(tensor, field)]
    if tensor.HasField("raw_data") and dtype != ir.DataType.STRING and not filled:
        return (count * dtype.bitwidth + 7) // 8, len(tensor.raw_data), "bytes"
    if tensor.HasField("raw_data") or filled not in ([], [name]):
        raise LoadError(f"{where} of {dtype} keeps its content in the wrong field")
    # Types of 2 and 4 bits are packed into bytes, an entry each; 6 bits are not packed.
    small = dtype != ir.DataType.STRING and dtype.bitwidth in (2, 4)
    packed = 8 // dtype.bitwidth if small else 1
    needed = (count * per_element + packed - 1) // packed
    return needed, len(getattr(tensor, name)), "entries"


def _dense(
    sparse: onnx.SparseTensorProto, where: str, payloads: Payloads
) -> TensorProto:
    """A sparse tensor written out; its indices are checked against its shape."""
    check_tensor(sparse.values, where, payloads)
    check_tensor(sparse.indices, f"the indices of {where}", payloads)
    dtype = ir.DataType(sparse.values.data_type)
    dims = list(sparse.dims)
    if any(dim < 0 for dim in dims) or dtype == ir.DataType.STRING:
        raise LoadError(f"{where} is not usable", f"shape {dims[:9]} of {dtype}")
    if prod(dims) * dtype.itemsize > _LARGEST_DENSE:
        raise LoadError(
            f"{where} is too large to be written out",
            f"shape {dims[:9]} of {dtype}",
            f"sparse tensors of up to {_LARGEST_DENSE >> 20} MB are supported",
        )
    values = payloads.array(sparse.values)
    places = payloads.array(sparse.indices)
    if places.ndim == 2 and places.shape == (values.size, len(dims)):
        inside = bool(((places >= 0) & (places < np.array(dims))).all())
        flat = np.ravel_multi_index(tuple(places.T), dims) if inside else places
    else:
        flat, inside = places, bool(((places >= 0) & (places < prod(dims))).all())
    if not inside or flat.shape != values.shape or values.ndim != 1:
        raise LoadError(f"{where} has indices that do not fit its shape {dims}")
    dense = np.zeros(prod(dims), values.dtype)
    dense[flat] = values
    return ir.to_proto(ir.Tensor(dense.reshape(dims), dtype, name=sparse.values.name))
