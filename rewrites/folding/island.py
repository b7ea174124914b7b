"""Run a handful of nodes on constants, on ONNX Runtime, and know the cost before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.lazy import lazy
from ...analysis.ops.registry import MANY_TO_MANY, OPAQUE, lookup
from ...analysis.oracle.process import Limits, RunFailed, Session

if TYPE_CHECKING:
    from onnx import reference
else:
    reference = lazy("onnx.reference")

Types = Mapping[str, tuple[ir.DataType, tuple[int, ...]]]

# Shape inference reads the elements of integers up to this many: shapes, axes, sizes.
_READABLE = 1024
_SIZES = (ir.DataType.INT64, ir.DataType.INT32)
_LIMITS = (ir.DataType.FLOAT, ir.DataType.DOUBLE)  # of a Range, where it is of floats

# What ONNX's own evaluator may take hours for, in this process: it is Python.
_SLOW = (MANY_TO_MANY, OPAQUE)

# What computing may take, beside what follows from the size of the constants.
_SECONDS, _MEMORY = 20, 1 << 30
_LONGEST_TEXT = 1 << 20  # characters of all strings of an island

# What NumPy, and so ONNX Runtime's Python interface, has types for. Of others so many
# bytes are left to ONNX's own evaluator, which rounds as the type does.
_FEEDABLE, _MOST_OTHERS = frozenset("fiubOUS"), 1 << 20


@dataclass(frozen=True)
class Island:
    """Nodes that depend on constants and each other only, in an order of computation.

    `inputs` are the constants they use; `opsets` are the imports of their model.
    """

    nodes: Sequence[ir.Node]
    opsets: Mapping[str, int]

    @property
    def inputs(self) -> list[ir.Value]:
        """The constants that its nodes read, each once, in the order of reading."""
        inner = {output for node in self.nodes for output in node.outputs}
        used = (v for node in self.nodes for v in node.inputs if v is not None)
        return list(dict.fromkeys(value for value in used if value not in inner))

    def frontier(self) -> list[ir.Value]:
        """The results that somebody outside needs."""
        members = set(self.nodes)
        return [
            output
            for node in self.nodes
            for output in node.outputs
            if output.is_graph_output()
            or any(user not in members for user, _ in output.uses())
        ]

    def model(
        self, outputs: Iterable[ir.Value], feeds: Mapping[str, np.ndarray] | None
    ) -> onnx.ModelProto:
        """The nodes as a model of their own, the constants being its inputs.

        Their shapes are those of `feeds`. Without feeds the model is for inference:
        small integers, and numbers, are initializers: the shapes they stand for follow.
        """
        graph = onnx.GraphProto(name="constants")
        for value in self.inputs:
            tensor, name = constant(value), value.name or ""
            read = tensor.dtype in _SIZES and tensor.size <= _READABLE
            read |= tensor.dtype in _LIMITS and not len(tensor.shape)
            if feeds is None and read:
                found = onnx.numpy_helper.from_array(tensor.numpy(), name)
                graph.initializer.append(found)
                continue
            shape = tensor.shape.numpy() if feeds is None else feeds[name].shape
            graph.input.append(
                onnx.helper.make_tensor_value_info(name, tensor.dtype.value, shape)
            )
        graph.node.extend(map(ir.serde.serialize_node, self.nodes))
        for value in outputs:
            graph.output.append(
                onnx.helper.make_empty_tensor_value_info(value.name or "")
            )
        imports = [onnx.helper.make_opsetid(d, v) for d, v in self.opsets.items()]
        ir_version = onnx.helper.find_min_ir_version_for(imports, ignore_unknown=True)
        return onnx.helper.make_model(
            graph, opset_imports=imports, ir_version=ir_version
        )


def constant(value: ir.Value) -> ir.TensorProtocol:
    """The tensor of a value that `is_constant`."""
    assert value.const_value is not None
    return value.const_value


def is_constant(value: ir.Value | None) -> bool:
    """Whether a value is an initializer that no caller can override."""
    if value is None or not value.is_initializer() or value.is_graph_input():
        return False
    return value.const_value is not None


def is_feedable(value: ir.Value) -> bool:
    """Whether a constant's elements are of a NumPy type, or few of bfloat16."""
    tensor = constant(value)
    few = tensor.dtype == ir.DataType.BFLOAT16 and tensor.nbytes <= _MOST_OTHERS
    return few or tensor.dtype.numpy().kind in _FEEDABLE


def infer(island: Island) -> Types:
    """Element type and shape of each result whose size is known in advance.

    Without ONNX's data propagation, which writes out the elements of whatever has one
    axis: a chain of ten nodes that double a tensor costs it gigabytes.
    """
    results = [output for node in island.nodes for output in node.outputs]
    outputs = [value for value in results if value.name]
    proto = island.model(outputs, None)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    found: dict[str, tuple[ir.DataType, tuple[int, ...]]] = {}
    for info in [*inferred.value_info, *inferred.output]:
        kind = info.type.tensor_type
        if not kind.elem_type or not kind.HasField("shape"):
            continue
        if all(dim.HasField("dim_value") for dim in kind.shape.dim):
            dims = tuple(dim.dim_value for dim in kind.shape.dim)
            found[info.name] = (ir.DataType(kind.elem_type), dims)
    return found


def run(
    island: Island, given: Mapping[str, np.ndarray] | None = None
) -> dict[ir.Value, np.ndarray] | None:
    """Compute what the outside needs; None if ONNX Runtime can't.

    The arrays of `given`, by name, are fed in place of the constants.
    """
    outputs = island.frontier()
    if not outputs:
        return {}
    feeds = given or {v.name or "": fed(constant(v)) for v in island.inputs}
    names = [value.name or "" for value in outputs]
    try:
        model = island.model(outputs, feeds)
        if all(array.dtype.kind in _FEEDABLE for array in feeds.values()):
            results = compute(model.SerializeToString(), names, feeds)
        elif any(x is None or x.mapping in _SLOW for x in map(lookup, island.nodes)):
            return None
        else:
            results = [*reference.ReferenceEvaluator(model).run(names, {**feeds})]
    except Exception:  # as in compute()
        return None
    return None if results is None else dict(zip(outputs, results, strict=True))


def compute(
    model: bytes, outputs: Sequence[str], feeds: Mapping[str, np.ndarray]
) -> list[np.ndarray] | None:
    """What a model gives; None if ONNX Runtime can't run it, or takes too much."""
    size = sum(array.nbytes for array in feeds.values())
    limits = Limits(_SECONDS + size / 2**26, _MEMORY + 8 * size)
    try:
        # One thread adds up in one order: the same weights on every machine.
        session = Session(model, 1, limits)
        results = session.run(outputs, feeds)
    except RunFailed:
        return None  # the nodes stay
    if not all(isinstance(array, np.ndarray) for array in results):
        return None
    return None if _is_bulky(results) else results


def _is_bulky(results: Iterable[np.ndarray]) -> bool:
    """Whether strings are longer than their number lets expect."""
    texts = (text for r in results if r.dtype.kind == "O" for text in r.reshape(-1))
    return sum(map(len, texts)) > _LONGEST_TEXT


def fed(tensor: ir.TensorProtocol) -> np.ndarray:
    """The elements of a constant as ONNX Runtime can read them in place."""
    array = tensor.numpy()
    if tensor.dtype == ir.DataType.STRING:
        texts = [data.decode() for data in array.reshape(-1)]
        return np.array(texts, object).reshape(array.shape)
    # A view of a model file may begin at any byte; compiled code expects it aligned.
    return np.require(array, requirements=["C", "A"])


def tensor_of(array: np.ndarray, name: str | None) -> ir.TensorProtocol:
    """A result as the tensor of an initializer."""
    if array.dtype.kind in "OU":
        texts = [str(text).encode() for text in array.reshape(-1)]
        return ir.StringTensor(texts, shape=ir.Shape(array.shape), name=name)
    return ir.Tensor(array, name=name)


def size_of(dtype: ir.DataType, shape: Sequence[int]) -> int:
    """Bytes of a tensor in memory; a string counts as 64."""
    each = 64 if dtype == ir.DataType.STRING else dtype.bitwidth / 8
    return int(prod(shape) * each)
