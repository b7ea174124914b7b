"""What is known about the sizes and small integer tensors of one model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import sympy

from .dims import Dim, Dims, at_least, is_bulky
from .element_types import is_whole
from .weight_access import is_weight

Told = TypeVar("Told")

# None stands for one size, or one element, that the rule can't tell.
PartialDims: TypeAlias = Sequence[Dim | None]
Content: TypeAlias = npt.NDArray[np.object_]

# One entry per output; a missing or None entry leaves that output to onnx.
DimsResult: TypeAlias = Sequence[PartialDims | None] | None
ContentResult: TypeAlias = Content | Sequence[Content] | None

MAX_CONTENT = 64  # elements; longer integer tensors are data, not shapes

FLOATS: dict[ir.DataType, type[np.floating[Any]]] = {
    ir.DataType.FLOAT: np.float32,
    ir.DataType.DOUBLE: np.float64,
    ir.DataType.FLOAT16: np.float16,
}


def elements_of(tensor: ir.TensorProtocol) -> Content | None:
    """Elements of a small stored tensor; None for text and exotic types."""
    if tensor.dtype.is_integer() or tensor.dtype in (ir.DataType.BOOL, *FLOATS):
        return np.asarray(tensor.numpy()).astype(object)
    return None


class ShapeFacts:
    """What is known about the sizes and small integer tensors of a model."""

    def __init__(self) -> None:
        self.inputs: Sequence[ir.Value] = ()  # of the model
        self.unfit: set[ir.Graph] = set()  # bodies whose nodes can't fit each other
        # Sizes of what a loop collects, 0 where onnx can't tell: ONNX Runtime gives
        # these if the loop does not run at all.
        self.declared_sizes: dict[ir.Value, list[int]] = {}
        # Sizes that are at least 1 wherever the model runs at all, and whether an
        # element isn't known since one that may be negative is divided.
        self.filled: set[sympy.Expr] = set()
        self.unsure = False
        # Of each node whose sizes are all numbers, what they were found from.
        self.visited: dict[ir.Node, tuple[object, ...]] = {}
        self.settled: set[ir.Value] = set()  # whose readers take one rank alone
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

    def never_negative(self, size: Dim) -> bool:
        """Whether a whole number is at least 0 wherever the model runs at all."""
        if at_least(size, 0) or any(at_least(size, one - 1) for one in self.filled):
            return True
        self.unsure |= not isinstance(size, int)
        return False

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

    def agrees(self, other: ShapeFacts, value: ir.Value) -> bool:
        """Whether both know the same sizes and elements of `value`."""
        if self.dims(value) != other.dims(value):
            return False
        a, b = self.elements(value), other.elements(value)
        return a is b or (a is not None and b is not None and bool(np.all(a == b)))

    def take(self, other: ShapeFacts, node: ir.Node) -> None:
        """Know what another knows of a node and of its outputs."""
        self.visited[node] = other.visited[node]
        for value in node.outputs:
            if value in other._dims:
                self._dims[value] = other._dims[value]
            if value in other._elements:
                self._elements[value] = other._elements[value]

    def forget(self, value: ir.Value) -> None:
        """Know no more than the file says."""
        self._dims.pop(value, None)
        self._elements.pop(value, None)

    def learn_elements(self, value: ir.Value, elements: Content) -> None:
        """Set the elements of `value`; None stands for an unknown one."""
        for place, element in np.ndenumerate(elements):
            bulky = isinstance(element, sympy.Expr) and is_bulky(element)
            if bulky or _overflows(element, value.dtype):
                elements = elements.copy()
                elements[place] = None
        if not all(e is None for e in elements.flat):
            self._elements[value] = elements

    def _stored(self, value: ir.Value) -> Content | None:
        tensor = value.const_value
        if tensor is not None:
            return elements_of(tensor) if tensor.size <= MAX_CONTENT else None
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


def _overflows(element: Any, dtype: ir.DataType | None) -> bool:
    """Whether a number is none of its type, where programs wrap it around or fault."""
    if not isinstance(element, int) or dtype is None or not dtype.is_integer():
        return False
    return not dtype.min <= element <= dtype.max


def _is_whole(value: ir.Value) -> bool:
    dtype = value.dtype
    return dtype is not None and (dtype.is_integer() or dtype == ir.DataType.BOOL)


class NodeFacts:
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

    def ask(self, rule: Callable[..., Told], *given: Any) -> Told | None:
        """What a rule tells of the node, what is `given`, and the sizes of as many
        leading inputs as it takes besides; None where one of these isn't known."""
        count = rule.__code__.co_argcount - 1 - len(given)
        dims = [self.dims(i) for i in range(count)]
        return None if any(d is None for d in dims) else rule(self, *given, *dims)

    def content(self, index: int) -> Content | None:
        """Elements of a small input, None where unknown; None if none can be told.

        Of weights that another is made from only whole numbers are told, as those that
        a table is resized to: it will be folded, or stays a parameter.
        """
        value = self.input(index)
        if value is None or (not is_whole(value) and self._makes_weight()):
            return None
        return self.shapes.elements(value)

    def contents(self, count: int) -> list[Content] | None:
        """Those of the leading inputs; None unless all can be told."""
        if self._makes_weight():
            return None
        found: dict[int, Content] = {}
        for i in sorted(range(count), key=self._takes_weight):  # not looked at in vain
            value = self.input(i)
            content = None if value is None else self.shapes.elements(value)
            if content is None:
                return None
            found[i] = content
        return [found[i] for i in range(count)]

    def _takes_weight(self, index: int) -> bool:
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

    def out_dims(self) -> Dims | None:
        """Sizes of the first output."""
        return self.shapes.dims(self.node.outputs[0])

    def dtype(self, index: int) -> ir.DataType | None:
        """Element type of the input at `index`."""
        value = self.input(index)
        return None if value is None else value.dtype


def _from_front(axis: int, rank: int) -> int:
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} is outside a tensor of rank {rank}")
    return axis % rank if rank else 0
