"""Models that are written without being run: what ONNX itself finds wrong in them."""

from __future__ import annotations

from contextlib import suppress

import onnx
import onnx_ir as ir
from onnx.inliner import inline_local_functions

from ...analysis.errors import LoadError, VerificationError
from ...analysis.graph.weightless import quiet, skeleton
from ...analysis.literals import one_line
from ...analysis.ops.type_rules import known_to_onnx
from ..load.read_model import Loaded
from .parity import oracle, oracle_source

_LARGE = 1024  # bytes of a tensor that decides nothing
_LONGEST = 300
_NUMBERS = [t for t in ir.DataType if t.is_floating_point() or t.is_integer()]
_NARROW = [t for t in _NUMBERS if t.bitwidth < 8 + t.is_floating_point()]


def refuse_wrong(loaded: Loaded) -> None:
    """Raise LoadError for types or sizes that don't fit each other.

    They are what onnx finds, where ONNX Runtime doesn't load the model either: onnx's
    rules err in some places. Both refuse moving elements of types that NumPy lacks,
    which packages do: of files that take any, nothing is said.
    """
    if any(value.dtype in _NARROW for value in loaded.model.graph.inputs):
        return
    try:
        with quiet(), known_to_onnx():
            proto, _ = skeleton(loaded.model, _LARGE, noted=False)
            onnx.shape_inference.infer_shapes(
                inline_local_functions(proto),
                check_type=True,
                strict_mode=True,
                data_prop=True,
            )
        return
    except Exception as error:  # protobuf's, onnx's and the graph library's
        reason = one_line(str(error).strip(), _LONGEST)
    with suppress(VerificationError):
        oracle(oracle_source(loaded))
        return
    raise LoadError("the model's types or sizes don't fit each other", reason)
