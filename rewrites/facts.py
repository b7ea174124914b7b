"""What the rules may ask of a graph: sizes, constants, uses."""

from __future__ import annotations

from functools import cache

import numpy as np
import onnx_ir as ir

from ..analysis.dims import Dim, Dims
from ..analysis.shapes import Shapes
from .constants import RANDOM
from .uniform import uniform_element

# Reading a weight to find that it isn't one number throughout costs time; a constant
# worth removing differs from its first elements early or is small.
_PEEK = 64


class Facts:
    """The graph's sizes and constants, as matching needs them."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self._uniform: dict[ir.Value, float | int | bool | None] = {}

    def dims(self, value: ir.Value) -> Dims | None:
        """The sizes of a value; None if its rank is unknown."""
        return self.shapes.dims(value)

    def ints(self, value: ir.Value | None) -> tuple[Dim, ...] | None:
        """The elements of a small integer tensor: numbers or sizes; None if unknown."""
        if value is None:
            return None
        content = self.shapes.content(value)
        if content is not None:
            return tuple(content.flat)
        array = stored(value)
        if array is None or array.dtype.kind not in "iub" or array.size > 4096:
            return None
        return tuple(int(x) for x in array.flat)

    def is_constant(self, value: ir.Value) -> bool:
        """Whether a value doesn't depend on the model's inputs."""
        return is_constant(value)

    def uniform(self, value: ir.Value) -> float | int | bool | None:
        """The number that a stored constant is throughout; None if it isn't."""
        if value not in self._uniform:
            self._uniform[value] = _uniform(value)
        return self._uniform[value]

    def array(self, value: ir.Value) -> np.ndarray | None:
        """The elements of a stored constant."""
        return stored(value)


def stored(value: ir.Value) -> np.ndarray | None:
    """The elements of an initializer; None for any other value."""
    if value.const_value is None or value.is_graph_input():
        return None
    return value.const_value.numpy()


def is_constant(value: ir.Value, depth: int = 12) -> bool:
    """An initializer, or computed from initializers alone in a few steps."""
    if value.const_value is not None:
        return not value.is_graph_input()
    node = value.producer()
    if node is None or depth == 0 or node.domain or not node.inputs:
        return False
    if any(a.type == ir.AttributeType.GRAPH for a in node.attributes.values()):
        return False
    return node.op_type not in RANDOM and all(
        x is None or is_constant(x, depth - 1) for x in node.inputs
    )


def _uniform(value: ir.Value) -> float | int | bool | None:
    tensor = value.const_value
    if tensor is None or tensor.size == 0:
        return None
    if tensor.dtype == ir.DataType.STRING:
        return None
    element = uniform_element(tensor)
    if element is not None:
        found: float | int | bool = element.reshape(-1)[0].item()
        return found
    array = tensor.numpy()
    if array.dtype.kind not in "fiub" and array.dtype.name not in _SMALL_FLOATS:
        return None
    flat = array.reshape(-1)
    first = flat[:1]
    if not _alike(flat[:_PEEK], first) or not _alike(flat, first):
        return None
    return flat[0].item() if array.dtype.kind in "fiub" else float(flat[0])


_SMALL_FLOATS = frozenset({"bfloat16"})


def _alike(array: np.ndarray, first: np.ndarray) -> bool:
    """Bitwise, so that 0 and -0 differ."""
    width = f"u{array.dtype.itemsize}"
    return bool(
        (np.ascontiguousarray(array).view(width) == first.copy().view(width)).all()
    )


@cache
def last_place(dtype: ir.DataType) -> float:
    """The relative distance of neighbouring numbers of an element type."""
    kinds = {"FLOAT": 2.0**-23, "DOUBLE": 2.0**-52, "FLOAT16": 2.0**-10}
    return kinds.get(dtype.name, 2.0**-7)
