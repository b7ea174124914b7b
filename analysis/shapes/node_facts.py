"""A node as the shape rules see it, and the tables that they are entered in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..graph.dims import Dim, Dims
from ..graph.weight_access import is_weight

if TYPE_CHECKING:
    from .shape_facts import ShapeFacts

# None stands for one size, or one element, that the rule can't tell.
PartialDims: TypeAlias = Sequence[Dim | None]
Content: TypeAlias = npt.NDArray[np.object_]

# One entry per output; a missing or None entry leaves that output to onnx.
DimsResult: TypeAlias = Sequence[PartialDims | None] | None
ContentResult: TypeAlias = Content | Sequence[Content] | None

MAX_CONTENT = 64  # elements; longer integer tensors are data, not shapes


class ShapeSite:
    """One node, with what is known about its inputs."""

    __slots__ = ("node", "shapes")

    def __init__(self, node: ir.Node, shapes: ShapeFacts) -> None:
        self.node, self.shapes = node, shapes

    def input(self, index: int) -> ir.Value | None:
        """The value at `index`; None if the node leaves it out."""
        inputs = self.node.inputs
        return inputs[index] if index < len(inputs) else None

    def has(self, index: int) -> bool:
        """Whether the optional input at `index` is given."""
        return self.input(index) is not None

    def dims(self, index: int) -> Dims | None:
        """Sizes of the input at `index`; None if absent or of unknown rank."""
        value = self.input(index)
        return None if value is None else self.shapes.dims(value)

    def content(self, index: int) -> Content | None:
        """Elements of a small input, None where unknown; None if none can be told.

        Of a weight that is made from weights nothing is told: it will be folded.
        """
        value = self.input(index)
        if value is None or self._makes_weight():
            return None
        return self.shapes.elements(value)

    def contents(self, count: int) -> list[Content] | None:
        """Those of the leading inputs; None unless all can be told."""
        if self._makes_weight():
            return None
        found: dict[int, Content] = {}
        for i in sorted(range(count), key=self._is_weight):  # not looked at in vain
            value = self.input(i)
            content = None if value is None else self.shapes.elements(value)
            if content is None:
                return None
            found[i] = content
        return [found[i] for i in range(count)]

    def _is_weight(self, index: int) -> bool:
        value = self.input(index)
        return value is not None and is_weight(value.const_value)

    def _makes_weight(self) -> bool:
        """Whether there are weights among its inputs, and nothing but constants."""
        stored = [value.const_value for value in self.node.inputs if value is not None]
        return None not in stored and any(map(is_weight, stored))

    def numbers(self, index: int) -> list[Dim | None] | None:
        """The same as `content`, as a flat list."""
        content = self.content(index)
        return None if content is None else list(content.flat)

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value."""
        attribute = self.node.attributes.get(name)
        return default if attribute is None else attribute.value

    def axis(self, rank: int, default: int = 0, name: str = "axis") -> int:
        """An attribute that names an axis, counted from the front."""
        return _from_front(int(self.attr(name, default)), rank)

    def axes(self, index: int, rank: int) -> list[int] | None:
        """The axes in the input at `index`, from the front; None if not known.

        The attribute of the same name, of older opsets, is read too.
        """
        listed: Any = self.attr("axes") or self.numbers(index)
        if listed is None or not all(isinstance(axis, int) for axis in listed):
            return None
        return [_from_front(axis, rank) for axis in listed]

    def dtype(self, index: int) -> ir.DataType | None:
        """Element type of the input at `index`."""
        value = self.input(index)
        return None if value is None else value.dtype


def _from_front(axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank if rank else 0


Rule = TypeVar("Rule", bound=Callable[..., DimsResult | ContentResult])

# Operator -> (rule, how many leading inputs it needs to know). The rule is called with
# the site and the sizes (or the elements) of those inputs.
Table: TypeAlias = dict[str, tuple[Rule, int]]


def registering(table: Table[Rule]) -> Callable[..., Callable[[Rule], Rule]]:
    """The decorator that enters a rule for some operators in `table`."""

    def rule(*ops: str) -> Callable[[Rule], Rule]:
        def register(function: Rule) -> Rule:
            needed = int(function.__code__.co_argcount) - 1
            table.update(dict.fromkeys(ops, (function, needed)))
            return function

        return register

    return rule
