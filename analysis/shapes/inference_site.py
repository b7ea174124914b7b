"""A node as onnx.shape_inference shows it to a rule written in Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

Size = int | str | None  # a number, a name, or unknown


class InferenceSite:
    """A node, as onnx shows it during inference."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def attr(self, name: str, default: Any = None) -> Any:
        found = self._context.get_attribute(name)
        return default if found is None else onnx.helper.get_attribute_value(found)

    def element(self, i: int) -> int:
        found = self._type(i)
        return 0 if found is None else found.elem_type

    def dims(self, i: int) -> list[Size] | None:
        found = self._type(i)
        if found is None or not found.HasField("shape"):
            return None
        return [
            d.dim_value if d.HasField("dim_value") else d.dim_param or None
            for d in found.shape.dim
        ]

    def size(self, i: int, axis: int) -> Size:
        """One size of input i, where it is known."""
        dims = self.dims(i)
        return None if dims is None or axis >= len(dims) else dims[axis]

    def rank(self, i: int) -> int | None:
        dims = self.dims(i)
        return None if dims is None else len(dims)

    def give(self, j: int, element: int, dims: Sequence[Size] | None) -> None:
        """Set the type of output j; sizes that are None are unknown."""
        if j >= self._context.get_num_outputs() or not element:
            return
        proto = onnx.TypeProto()
        proto.tensor_type.elem_type = element
        if dims is not None:
            proto.tensor_type.shape.SetInParent()
            for size in dims:
                added = proto.tensor_type.shape.dim.add()
                if isinstance(size, int):
                    added.dim_value = size
                elif size:
                    added.dim_param = size
        self._context.set_output_type(j, proto)

    def _type(self, i: int) -> Any:
        if i >= self._context.get_num_inputs() or not self._context.has_input(i):
            return None
        found = self._context.get_input_type(i)
        return None if found is None else found.tensor_type
