"""One definition of an operator, read two ways: it runs on tensors, or prints itself.

An operator is spelled once, as an ordinary function `spelling(t, n, *inputs)`. Given
tensors and `Running()` for `t` it computes; given `Expr` operands and `Printing()` it
builds the source of the same computation. An `Expr` keeps the graph values it reads as
leaves, so that the planner can see what is used, name it, or inline its producer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from ..graph.dims import Dim
from ..literals import literal

# How tightly an expression binds, in Python's own order.
LOWEST, COMPARE, BIT_OR, BIT_XOR, BIT_AND, SHIFT = 0, 1, 2, 3, 4, 5
ADD, MUL, UNARY, POWER, ATOM = 6, 7, 8, 9, 10


_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")
_FUNCTION = re.compile(r"(F|torch)\.\w+")

_Operator = Callable[["Expr", Any], "Expr"]


def _binary(symbol: str, binds: int) -> tuple[_Operator, _Operator]:
    """The method of an operator, and its reflected twin."""
    # Comparisons chain in Python (a < b < c), so neither side may hold a bare one.
    left = binds + 1 if binds == COMPARE else binds

    def forward(self: Expr, other: Any) -> Expr:
        right = (spell(other), binds + 1)
        return Expr((self, left), f" {symbol} ", right, binds=binds)

    def backward(self: Expr, other: Any) -> Expr:
        return forward(spell(other), self)

    return forward, backward


class Expr:
    """Source pieces and (operand, least binding power) pairs; immutable.

    Python's operators, calls, attributes and subscripts build larger expressions.
    `weight` is 1 for a call and 0 otherwise: nesting of calls is what tires a reader.
    """

    __slots__ = ("_binds", "_pieces", "_weight")
    __array_ufunc__ = None  # NumPy scalars on the left leave the operator to us

    def __init__(
        self,
        *pieces: str | tuple[Expr, int],
        binds: int = ATOM,
        weight: int = 0,
    ) -> None:
        self._pieces = pieces
        self._binds = binds
        self._weight = weight

    def __getattr__(self, name: str) -> Expr:
        if name.startswith("_"):
            raise AttributeError(name)
        return Expr((self, ATOM), f".{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Expr:
        pieces: list[str | tuple[Expr, int]] = [(self, ATOM), "("]
        for i, arg in enumerate(args):
            pieces += [", " if i else "", (spell(arg), LOWEST)]
        for i, (key, arg) in enumerate(kwargs.items()):
            comma = ", " if args or i else ""
            pieces += [f"{comma}{key}=", (spell(arg), LOWEST)]
        return Expr(*pieces, ")", weight=1)

    def __getitem__(self, key: Any) -> Expr:
        items = key if isinstance(key, tuple) else (key,)
        pieces: list[str | tuple[Expr, int]] = [(self, ATOM), "["]
        for i, item in enumerate(items):
            pieces.append(", " if i else "")
            pieces += _subscript(item)
        return Expr(*pieces, "]")

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError("an Expr can't be unpacked; return it whole")

    def __bool__(self) -> bool:
        raise TypeError("an Expr has no truth value; decide on facts of the node")

    __add__, __radd__ = _binary("+", ADD)
    __sub__, __rsub__ = _binary("-", ADD)
    __mul__, __rmul__ = _binary("*", MUL)
    __truediv__, __rtruediv__ = _binary("/", MUL)
    __floordiv__, __rfloordiv__ = _binary("//", MUL)
    __mod__, __rmod__ = _binary("%", MUL)
    __matmul__, __rmatmul__ = _binary("@", MUL)
    __and__, __rand__ = _binary("&", BIT_AND)
    __or__, __ror__ = _binary("|", BIT_OR)
    __xor__, __rxor__ = _binary("^", BIT_XOR)
    __lshift__, __rlshift__ = _binary("<<", SHIFT)
    __rshift__, __rrshift__ = _binary(">>", SHIFT)
    __lt__, __gt__ = _binary("<", COMPARE)[0], _binary(">", COMPARE)[0]
    __le__, __ge__ = _binary("<=", COMPARE)[0], _binary(">=", COMPARE)[0]
    __eq__ = _binary("==", COMPARE)[0]  # type: ignore[assignment]
    __ne__ = _binary("!=", COMPARE)[0]  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __neg__(self) -> Expr:
        return Expr("-", (self, UNARY), binds=UNARY)

    def __invert__(self) -> Expr:
        if self._pieces[1:2] == (" == ",):  # of numbers that are none, != is true too
            left, _, right = self._pieces
            return Expr(left, " != ", right, binds=COMPARE)
        return Expr("~", (self, UNARY), binds=UNARY)

    def __pow__(self, other: Any) -> Expr:
        return Expr((self, ATOM), " ** ", (spell(other), UNARY), binds=POWER)

    def __rpow__(self, other: Any) -> Expr:
        return spell(other) ** self


class Leaf(Expr):
    """What a rendering must name, or a planner may exchange."""

    __slots__ = ()


class Ref(Leaf):
    """A value of the graph: a variable, an inlined producer, or a member."""

    __slots__ = ("value",)

    def __init__(self, value: ir.Value) -> None:
        super().__init__()
        self.value = value


class DimOf(Leaf):
    """A symbolic size, e.g. `batch` or `past + 1`; read off a tensor when used."""

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        super().__init__()
        self.dim = dim


class DeviceOf(Leaf):
    """The device the function works on: that of its first tensor argument."""

    __slots__ = ()


class HelperRef(Leaf):
    """A function that is copied into the emitted module when used."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function.__name__)
        self.function = function


@dataclass(frozen=True)
class Function:
    """A function of PyTorch as a value: F.relu."""

    text: str


def spell(value: Any) -> Expr:
    """An Expr as it is; anything else as a literal, tuples and lists item by item."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Function):
        return Expr(value.text)
    if isinstance(value, (tuple, list)):
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ")")
        pieces: list[str | tuple[Expr, int]] = [opening]
        for i, item in enumerate(value):
            pieces += [", " if i else "", (spell(item), LOWEST)]
        if isinstance(value, tuple) and len(value) == 1:
            pieces.append(",")
        return Expr(*pieces, closing)
    text = literal(value)
    return Expr(text, binds=UNARY if text.startswith("-") else ATOM)


def _subscript(item: Any) -> list[str | tuple[Expr, int]]:
    if item is Ellipsis:
        return ["..."]
    if not isinstance(item, slice):
        return [(spell(item), LOWEST)]
    pieces: list[str | tuple[Expr, int]] = []
    if item.start is not None:
        pieces.append((spell(item.start), LOWEST))
    pieces.append(":")
    if item.stop is not None:
        pieces.append((spell(item.stop), LOWEST))
    if item.step is not None:
        pieces += [":", (spell(item.step), LOWEST)]
    return pieces


def leaves(expr: Expr) -> Iterator[Leaf]:
    """The leaves from left to right, with repeats."""
    if isinstance(expr, Leaf):
        yield expr
    for piece in expr._pieces:
        if isinstance(piece, tuple):
            yield from leaves(piece[0])


def substitute(expr: Expr, replace: Callable[[Leaf], Expr | None]) -> Expr:
    """The same expression with each leaf exchanged where `replace` returns an Expr."""
    if isinstance(expr, Leaf):
        found = replace(expr)
        return expr if found is None else found
    if not any(isinstance(piece, tuple) for piece in expr._pieces):
        return expr
    if expr._pieces[0] == "~" and isinstance(expr._pieces[1], tuple):
        return ~substitute(expr._pieces[1][0], replace)
    pieces = [
        (substitute(piece[0], replace), piece[1]) if isinstance(piece, tuple) else piece
        for piece in expr._pieces
    ]
    return Expr(*pieces, binds=expr._binds, weight=expr._weight)


def renamed(expr: Expr, values: Mapping[Any, ir.Value]) -> Expr:
    """The same expression on other values, for those that have one in `values`."""

    def other(leaf: Leaf) -> Expr | None:
        if isinstance(leaf, Ref) and leaf.value in values:
            return Ref(values[leaf.value])
        return None

    return substitute(expr, other)


def exchange_texts(expr: Expr, replace: Callable[[str], Expr | None]) -> Expr:
    """The same for each number and function that is written out, from left to right."""
    if isinstance(expr, Leaf):
        return expr
    if len(expr._pieces) == 1 and isinstance(expr._pieces[0], str):
        text = expr._pieces[0]
        told = _NUMBER.fullmatch(text) or _FUNCTION.fullmatch(text)
        found = replace(text) if told else None
        return expr if found is None else found
    pieces = [
        (
            (exchange_texts(piece[0], replace), piece[1])
            if isinstance(piece, tuple)
            else piece
        )
        for piece in expr._pieces
    ]
    return Expr(*pieces, binds=expr._binds, weight=expr._weight)


def depth(expr: Expr) -> int:
    """How many calls are nested in each other at the deepest place."""
    inner = [depth(piece[0]) for piece in expr._pieces if isinstance(piece, tuple)]
    return expr._weight + max(inner, default=0)


def render(expr: Expr, name: Callable[[Leaf], str] | None = None) -> str:
    """Source text; `name` gives the text of every leaf but a HelperRef."""
    if isinstance(expr, Leaf) and not isinstance(expr, HelperRef):
        if name is None:
            raise ValueError("this expression holds graph values that have no name yet")
        return name(expr)
    parts = []
    for piece in expr._pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        inner, level = piece
        text = render(inner, name)
        parts.append(f"({text})" if inner._binds < level else text)
    return "".join(parts)


def text_expr(text: str, binds: int = ATOM) -> Expr:
    """An Expr of finished source text, e.g. a variable's name."""
    return Expr(text, binds=binds)


# ONNX element type -> name in torch. What is missing has no torch dtype. Types of less
# than 8 bits are held by the smallest type that has all their numbers.
TORCH_DTYPES: dict[ir.DataType, str] = {
    ir.DataType.FLOAT: "float32",
    ir.DataType.DOUBLE: "float64",
    ir.DataType.FLOAT16: "float16",
    ir.DataType.BFLOAT16: "bfloat16",
    ir.DataType.INT64: "int64",
    ir.DataType.INT32: "int32",
    ir.DataType.INT16: "int16",
    ir.DataType.INT8: "int8",
    ir.DataType.UINT8: "uint8",
    ir.DataType.UINT16: "uint16",
    ir.DataType.UINT32: "uint32",
    ir.DataType.UINT64: "uint64",
    ir.DataType.BOOL: "bool",
    ir.DataType.COMPLEX64: "complex64",
    ir.DataType.COMPLEX128: "complex128",
    ir.DataType.FLOAT8E4M3FN: "float8_e4m3fn",
    ir.DataType.FLOAT8E5M2: "float8_e5m2",
    ir.DataType.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    ir.DataType.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    ir.DataType.FLOAT8E8M0: "float8_e8m0fnu",
    ir.DataType.INT4: "int8",
    ir.DataType.UINT4: "uint8",
    ir.DataType.INT2: "int8",
    ir.DataType.UINT2: "uint8",
    ir.DataType.FLOAT4E2M1: "float8_e4m3fn",
    ir.DataType.FLOAT6E2M3: "float8_e4m3fn",
    ir.DataType.FLOAT6E3M2: "float8_e4m3fn",
}


class Printing:
    """`t` of a spelling that prints: t.relu is `torch.relu`, t.F.gelu is `F.gelu`."""

    def __init__(self) -> None:
        self.F = Names("F")
        self.math = Names("math")
        self.np = Names("np")

    def __getattr__(self, name: str) -> Expr:
        return Expr(f"torch.{name}")

    @property
    def device(self) -> Expr:
        return DeviceOf()

    def dtype(self, dtype: ir.DataType) -> Expr:
        return Expr(f"torch.{TORCH_DTYPES[dtype]}")

    def helper(self, function: Callable[..., Any]) -> Any:
        return HelperRef(function)


class Running:
    """`t` of a spelling that computes: the same names, from torch itself."""

    device = "cpu"

    def __init__(self) -> None:
        import math

        import numpy
        import torch

        self._torch = torch
        self.F = torch.nn.functional
        self.math = math
        self.np = numpy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    def dtype(self, dtype: ir.DataType) -> Any:
        return getattr(self._torch, TORCH_DTYPES[dtype])

    def helper(self, function: Callable[..., Any]) -> Any:
        return function


class Names:
    """Stands in for a module: Names("F").relu(x) prints F.relu(x)."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Expr:
        return Expr(f"{self._prefix}.{name}")
