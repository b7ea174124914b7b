"""Types that contain a map, which the graph library has not.

A value of such a type has no `type`; its `meta` holds what the file declares.
"""

from __future__ import annotations

import onnx
import onnx_ir as ir

_KEY = "onnx_type"


def map_type(value: ir.Value) -> onnx.TypeProto | None:
    """The type of a map, or of a sequence of maps; None for any other value."""
    found = value.meta.get(_KEY)
    return found if isinstance(found, onnx.TypeProto) else None


def set_map_type(value: ir.Value, kind: onnx.TypeProto) -> None:
    """Keep the type of a value that is a map, which onnx_ir has no type for."""
    value.meta[_KEY] = kind


def is_map(kind: onnx.TypeProto) -> bool:
    """Whether a type is a map, or a sequence or optional of maps."""
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        return is_map(getattr(kind, which).elem_type)
    return bool(which == "map_type")


def type_text(kind: onnx.TypeProto) -> str:
    """As ONNX Runtime writes it: `seq(map(int64,tensor(float)))`."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return f"seq({type_text(kind.sequence_type.elem_type)})"
    if which == "optional_type":
        return f"optional({type_text(kind.optional_type.elem_type)})"
    if which == "map_type":
        key = _name(kind.map_type.key_type)
        return f"map({key},{type_text(kind.map_type.value_type)})"
    return f"tensor({_name(kind.tensor_type.elem_type)})"


def _name(code: int) -> str:
    return str(onnx.TensorProto.DataType.Name(code)).lower()


def map_annotation(kind: onnx.TypeProto) -> str:
    """The Python type: `list[dict[int, float]]`."""
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return f"list[{map_annotation(kind.sequence_type.elem_type)}]"
    if which == "map_type":
        key = _python(kind.map_type.key_type)
        return f"dict[{key}, {map_annotation(kind.map_type.value_type)}]"
    return _python(kind.tensor_type.elem_type)


def _python(code: int) -> str:
    dtype = ir.DataType(code)
    if dtype == ir.DataType.STRING:
        return "str"
    return "float" if dtype.is_floating_point() else "int"
