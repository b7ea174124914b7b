"""What ONNX itself finds wrong in the types and sizes of a model."""

from __future__ import annotations

import onnx
import onnx_ir as ir
from onnx.inliner import inline_local_functions

from ...analysis.graph.weightless import quiet, skeleton
from ...analysis.literals import one_line
from ...analysis.ops.type_rules import known_to_onnx

_LARGE = 1024  # bytes of a tensor that decides nothing
_LONGEST = 300
_NUMBERS = [t for t in ir.DataType if t.is_floating_point() or t.is_integer()]
_NARROW = [t for t in _NUMBERS if t.bitwidth < 8 + t.is_floating_point()]


def misfit(model: ir.Model) -> str:
    """What onnx says of types or sizes that don't fit each other, and of which node; ""
    if they do. Its rules err in some places.

    onnx and ONNX Runtime refuse moving elements of types that NumPy lacks, which
    packages do: of files that take any, nothing is said.
    """
    if any(value.dtype in _NARROW for value in model.graph.inputs):
        return ""
    try:
        proto, _ = skeleton(model, _LARGE, noted=False)
        with quiet(), known_to_onnx(proto):
            for node in proto.graph.node:
                node.name = node.name or f"none, computes {', '.join(node.output)}"
            onnx.shape_inference.infer_shapes(
                inline_local_functions(proto) if proto.functions else proto,
                check_type=True,
                strict_mode=True,
            )
    except Exception as error:  # protobuf's, onnx's and the graph library's
        return one_line(str(error).strip(), _LONGEST)
    return ""
