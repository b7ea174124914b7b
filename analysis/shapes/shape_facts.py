"""What is known about the sizes and small integer tensors of one model."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import onnx_ir as ir
import sympy

from ..graph.dims import Dim, Dims, is_bulky
from . import shape_values
from .node_facts import MAX_CONTENT, Content


class Assumption(NamedTuple):
    """Two sizes that broadcasting at `node` takes for equal; see dims.broadcast."""

    a: Dim
    b: Dim
    node: ir.Node


class ShapeFacts:
    """What is known about the sizes and small integer tensors of a model."""

    def __init__(self) -> None:
        self.assumptions: list[Assumption] = []
        self.node: ir.Node | None = None  # the one at hand, while sizes are inferred
        # Sizes of what a loop collects, 0 where onnx can't tell: ONNX Runtime gives
        # these if the loop does not run at all.
        self.told: dict[ir.Value, list[int]] = {}
        self._dims: dict[ir.Value, Dims] = {}
        self._elements: dict[ir.Value, Content | None] = {}
        self._anchors: dict[sympy.Symbol, tuple[ir.Value, int]] = {}

    def dims(self, value: ir.Value) -> Dims | None:
        """The sizes of `value`; None if its rank is unknown or it is no tensor."""
        known = self._dims.get(value)
        if known is None and value.const_value is not None:
            known = tuple(value.const_value.shape.numpy())
            self._dims[value] = known
        return known

    def rank(self, value: ir.Value) -> int | None:
        """The number of axes; None if unknown."""
        dims = self.dims(value)
        return None if dims is None else len(dims)

    def content(self, value: ir.Value) -> Content | None:
        """Elements of an integer or bool tensor as a NumPy array of sizes.

        None if any element is unknown, or for more than 64 elements.
        """
        elements = self.elements(value)
        if elements is None or not _is_whole(value):
            return None
        return None if any(e is None for e in elements.flat) else elements

    def anchor(self, size: sympy.Symbol) -> tuple[ir.Value, int] | None:
        """The value and axis that `size` is read off: a graph input if there is one."""
        return self._anchors.get(size)

    def anchored(self) -> frozenset[sympy.Symbol]:
        """All symbols that have an anchor by now."""
        return frozenset(self._anchors)

    def elements(self, value: ir.Value) -> Content | None:
        """As `content`, but of float tensors too, and None for an unknown element."""
        if value not in self._elements:
            self._elements[value] = self._stored(value)
        return self._elements[value]

    def learn_dims(self, value: ir.Value, dims: Dims) -> None:
        """Set the sizes of `value`; a symbol seen first is anchored here."""
        self._dims[value] = dims
        for axis, size in enumerate(dims):
            if isinstance(size, sympy.Symbol):
                self._anchors.setdefault(size, (value, axis))

    def forget(self, value: ir.Value) -> None:
        """Know no more than the file says."""
        self._dims.pop(value, None)
        self._elements.pop(value, None)

    def learn_elements(self, value: ir.Value, elements: Content) -> None:
        """Set the elements of `value`; None stands for an unknown one."""
        for place, element in np.ndenumerate(elements):
            if isinstance(element, sympy.Expr) and is_bulky(element):
                elements = elements.copy()
                elements[place] = None
        if not all(e is None for e in elements.flat):
            self._elements[value] = elements

    def _stored(self, value: ir.Value) -> Content | None:
        tensor = value.const_value
        if tensor is not None:
            return shape_values.constant(tensor) if tensor.size <= MAX_CONTENT else None
        shape = self.small(value)
        if shape is None or not _is_whole(value):
            return None
        return np.full(shape, None, dtype=np.object_)

    def small(self, value: ir.Value) -> tuple[int, ...] | None:
        """The shape, if it is all numbers and has few enough elements to follow."""
        dims = self.dims(value)
        if dims is None or not all(isinstance(d, int) for d in dims):
            return None
        return dims if math.prod(dims) <= MAX_CONTENT else None

    def assume(self, a: Dim, b: Dim) -> None:
        """Note that the node at hand takes two sizes for equal."""
        if self.node is not None:
            self.assumptions.append(Assumption(a, b, self.node))


def _is_whole(value: ir.Value) -> bool:
    dtype = value.dtype
    return dtype is not None and (dtype.is_integer() or dtype == ir.DataType.BOOL)
