"""The types that signatures give to values of the graph."""

from __future__ import annotations

import onnx_ir as ir

from ...analysis.graph.map_types import map_annotation, map_type


def annotation(value: ir.Value) -> str:
    """The Python type of a value in `forward`."""
    if value.meta.get("counter"):
        return "int"
    if value.meta.get("device"):
        return "torch.device"
    kind = map_type(value)
    return map_annotation(kind) if kind is not None else _annotated(value.type)


def device_argument() -> ir.Value:
    """An argument that says where a function makes its tensors."""
    value = ir.Value(name="device")
    value.meta["device"] = True
    return value


def _annotated(type_: ir.TypeProtocol | None) -> str:
    if isinstance(type_, ir.SequenceType):
        return f"list[{_annotated(type_.elem_type)}]"
    if isinstance(type_, ir.OptionalType):
        return f"{_annotated(type_.elem_type)} | None"
    is_text = isinstance(type_, ir.TensorType) and type_.dtype == ir.DataType.STRING
    return "np.ndarray" if is_text else "Tensor"
