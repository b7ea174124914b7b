"""What the rules may ask of a graph: sizes, constants, uses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims
from ...analysis.graph.weight_access import glance, note_read
from ...analysis.shapes.index_functions import Places
from ...analysis.shapes.infer import ShapeFacts
from ..folding.island import RANDOM
from ..folding.uniform_tensors import uniform_element

# Reading a weight to find that it isn't one number throughout costs time; a constant
# worth removing differs from its first elements early or is small.
_PEEK = 64


class Facts:
    """The graph's sizes and constants, as matching needs them."""

    def __init__(self, shapes: ShapeFacts) -> None:
        self.shapes = shapes
        self.places = Places(shapes)
        # What was read of nodes, beside the inputs that they had then.
        self.readings: dict[ir.Node, tuple[Sequence[ir.Value | None], Any]] = {}
        # See rule_index.py; operands by whether one may be a constant of several
        # elements.
        self.forms: dict[ir.Node, Any] = {}
        self.operands: tuple[dict[ir.Value, Any], dict[ir.Value, Any]] = ({}, {})
        # Whether preconditions are met, see match.py; "" if they are.
        self.answers: dict[Hashable, str] = {}
        self.roundings: dict[Hashable, tuple[int, int] | None] = {}  # see history.py
        self._uniform: dict[ir.Value, float | int | bool | None] = {}
        self._constant: dict[ir.Value | None, bool] = {}

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
        known = self._constant.get(value)
        if known is None:
            node = value.producer()
            given = () if node is None else node.inputs
            # What depends on one that isn't constant isn't either.
            depends = any(self._constant.get(x) is False for x in given)
            known = self._constant[value] = not depends and is_constant(value)
        return known

    def replaced(self, old: ir.Value, new: ir.Value) -> None:
        """Forget what depends on `old`, whose users get `new` in its place next."""
        if self.is_constant(old) or self.is_constant(new):
            self._constant.clear()
            self.forget_forms()
        some, others = self.operands
        for user, _ in old.uses():
            self.forms.pop(user, None)
            for output in user.outputs:
                some.pop(output, None)
                others.pop(output, None)
                for further, _ in output.uses():
                    self.forms.pop(further, None)

    def forget_forms(self) -> None:
        self.forms.clear()
        for operands in self.operands:
            operands.clear()

    def uniform(self, value: ir.Value) -> float | int | bool | None:
        """The number that a stored constant is throughout; None if it isn't."""
        if value not in self._uniform:
            self._uniform[value] = uniform_number(value.const_value)
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
    if node.op_type in RANDOM:
        return False
    for x in node.inputs:
        if x is not None and not is_constant(x, depth - 1):
            return False
    return all(a.type != ir.AttributeType.GRAPH for a in node.attributes.data.values())


def uniform_number(tensor: ir.TensorProtocol | None) -> float | int | bool | None:
    """The number that a tensor is throughout; None if it isn't."""
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    size = tensor.size
    if size == 0:
        return None
    element = uniform_element(tensor) if size > 1 else None
    if element is not None:
        found: float | int | bool = element.reshape(-1)[0].item()
        return found
    array = glance(tensor)
    if array.dtype.kind not in "fiub" and array.dtype.name not in _SMALL_FLOATS:
        return None
    flat = array.reshape(-1)
    if size > 1:
        first = flat[:1]
        if not _alike(flat[:_PEEK], first) or not _alike(flat, first):
            return None
    note_read(tensor)
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
