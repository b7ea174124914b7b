"""What the rules may ask of a graph: sizes, constants, uses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.constants import is_constant, stored, uniform_number
from ...analysis.graph.dims import Dim, Dims
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.shapes.index_functions import Places


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
        """Forget what nodes are as terms, since the graph changed."""
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
