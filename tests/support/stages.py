"""Write a model down between two stages, so that ONNX Runtime can run it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from fairhand.analysis.graph.constants import uniform_element
from fairhand.analysis.graph.weightless import CUT_PREFIX, skeleton
from fairhand.analysis.ops import OPS
from fairhand.codegen.load.validate_graph import bare
from fairhand.codegen.load.validate_tensors import nodes_of, subgraphs
from fairhand.rewrites.normalise import ADAPTERS

# A dump in one file takes three times its size in memory while it is made.
_LARGEST_INLINE = 64 << 20


def save_stage(model: ir.Model, path: str | Path) -> None:
    """Write `model` to `path` in a form that ONNX Runtime can run.

    Weights stand in the file itself, or beside it in `<path>.data` if they are large. A
    weight that is one number throughout is written as the ConstantOfShape it came from,
    whatever its size. The model is unchanged.
    """
    path = Path(path)
    proto, tensors = skeleton(model, 1024)
    total = sum(t.nbytes for t in tensors if not _is_fill(t))
    data = path.with_name(path.name + ".data")
    data.unlink(missing_ok=True)
    inner = [graph for node in nodes_of(proto.graph.node) for graph in subgraphs(node)]
    for graph in [proto.graph, *inner]:
        _restore(graph, tensors)
    _lower_opset(proto)
    large = total > _LARGEST_INLINE
    onnx.save_model(proto, path, save_as_external_data=large, location=data.name)


def _lower_opset(proto: onnx.ModelProto) -> None:
    """Declare an older opset, if some node needs that and all mean the same in it."""
    nodes = list(nodes_of(proto.graph.node))
    known = [OPS.get(("", n.op_type)) for n in nodes if not n.domain]
    last = [op.runs_until for op in known if op is not None]
    opset = min((version for version in last if version is not None), default=99)
    newest = max(adapter.until for adapter in ADAPTERS)
    imported = [entry for entry in proto.opset_import if entry.domain == ""]
    if not imported or imported[0].version <= opset or opset <= newest:
        return
    context = onnx.checker.C.CheckerContext()
    context.ir_version = proto.ir_version
    context.opset_imports = {e.domain: e.version for e in proto.opset_import}
    context.opset_imports = {**context.opset_imports, "": opset}
    try:
        for node in nodes:
            onnx.checker.check_node(bare(node), context)
    except onnx.checker.ValidationError:
        return  # some node is newer than that
    imported[0].version = opset


def _is_fill(tensor: ir.TensorProtocol) -> bool:
    """Whether ConstantOfShape can say it: one number, of a type it always had."""
    kind = tensor.dtype.numpy().kind
    return uniform_element(tensor) is not None and kind in "fiub"


def _restore(graph: onnx.GraphProto, tensors: list[ir.TensorProtocol]) -> None:
    """Put the weights back into a skeleton."""
    kept: list[onnx.TensorProto] = []
    fills: list[onnx.NodeProto] = []
    for stub in graph.initializer:
        location = stub.external_data[0].value if stub.external_data else ""
        if not location.startswith(CUT_PREFIX):
            kept.append(stub)
            continue
        tensor = tensors[int(location.removeprefix(CUT_PREFIX))]
        if _is_fill(tensor):
            shape = np.array(tensor.shape.numpy(), np.int64)
            kept.append(onnx.numpy_helper.from_array(shape, f"{stub.name}_shape"))
            fills.append(_fill(stub.name, tensor))
            continue
        del stub.external_data[:]
        stub.ClearField("data_location")
        stub.raw_data = tensor.tobytes()
        kept.append(stub)
    nodes = [*fills, *graph.node]
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend(nodes)


def _fill(name: str, tensor: ir.TensorProtocol) -> onnx.NodeProto:
    element = uniform_element(tensor)
    assert element is not None
    value = onnx.numpy_helper.from_array(element.reshape(1))
    shape = f"{name}_shape"
    return onnx.helper.make_node("ConstantOfShape", [shape], [name], value=value)
