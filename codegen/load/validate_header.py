"""What a model declares about itself: versions, types, texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
import onnx_ir as ir
from onnx import ModelProto, OperatorSetIdProto

from ...analysis.errors import LoadError
from .tensor_storage import shown
from .validate_tensors import nodes_of

OLDEST_OPSET, NEWEST_OPSET = 1, onnx.defs.onnx_opset_version()
OLDEST_IR, NEWEST_IR = 3, onnx.IR_VERSION
_TYPES = {kind.value for kind in ir.DataType}
_KEY_TYPES = {
    kind.value
    for kind in ir.DataType
    if kind == ir.DataType.STRING or kind.is_integer()
}


def check_head(proto: ModelProto) -> None:
    """The file format is a known one, and the model says which operators it means."""
    if not OLDEST_IR <= proto.ir_version <= NEWEST_IR:
        raise LoadError(
            f"IR version {proto.ir_version} is not known",
            hint=f"IR versions {OLDEST_IR} to {NEWEST_IR} are supported",
        )
    if not proto.opset_import:
        raise LoadError(
            "the model does not say which operators it means",
            "it imports no operator set",
            "the file may be truncated; download or export the model again",
        )


def versions_of(imports: Iterable[OperatorSetIdProto], where: str) -> dict[str, int]:
    """Opset versions by domain, `ai.onnx` spelled as the empty name it stands for."""
    versions: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if not 0 < entry.version < 2**31:
            raise LoadError(
                f"{where} imports {shown(domain)} in an impossible version",
                f"version {entry.version}",
            )
        if versions.setdefault(domain, entry.version) != entry.version:
            raise LoadError(f"{where} imports {shown(domain)} in two versions")
    opset = versions.get("", NEWEST_OPSET)
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise LoadError(
            f"opset {opset} is not known",
            f"the imports of {where}",
            f"opsets {OLDEST_OPSET} to {NEWEST_OPSET} of ai.onnx are supported",
        )
    return versions


def check_text(message: Any, path: str = "") -> None:
    """Every text is UTF-8. What isn't, protobuf hands out as bytes, and silently."""
    for field, value in message.ListFields():
        here = f"{path}.{field.name}" if path else field.name
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                check_text(inner, here)
        elif field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, str | bytes) else value
            if any(isinstance(text, bytes) for text in texts):
                raise LoadError(
                    "the model has a name or text that is not UTF-8", f"field {here}"
                )


def check_type(kind: onnx.TypeProto, where: str) -> None:
    """A type is one there is, and its dimensions are not negative.

    A dimension of -1, which some exporters write, becomes unknown, and so does a type
    without an element type.
    """
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        check_type(getattr(kind, which).elem_type, where)
    elif which == "map_type":
        key = kind.map_type.key_type
        if key not in _KEY_TYPES:
            raise LoadError(f"{where} is a map with impossible keys", f"type {key}")
        check_type(kind.map_type.value_type, where)
    elif which in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(kind, which)
        if tensor.elem_type not in _TYPES:
            raise LoadError(
                f"{where} has an unknown element type", f"{tensor.elem_type}"
            )
        if tensor.elem_type == onnx.TensorProto.UNDEFINED:
            kind.Clear()
            return
        for dim in tensor.shape.dim:
            if dim.dim_value < -1:
                raise LoadError(f"{where} has a negative dimension", f"{dim.dim_value}")
            if dim.dim_value == -1:
                dim.ClearField("dim_value")


def drop_placement(proto: ModelProto) -> None:
    """Forget which devices the exporter had: they are not the ones that run this."""
    proto.ClearField("configuration")
    for body in [proto.graph.node, *(f.node for f in proto.functions)]:
        for node in nodes_of(body):
            node.ClearField("device_configurations")
