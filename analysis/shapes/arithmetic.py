"""Arithmetic and comparison on the elements of small tensors; see contents.py.

Elements of float tensors are followed too, since some exporters divide sizes as floats:
as a Python float where the number is known, rounded to its type, and as a sympy
expression where it is not, only as long as float32 arithmetic gives it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import sympy

from ..graph.dims import (
    Dim,
    at_least,
    floor,
    floordiv,
    maximum,
    minimum,
    same,
    simplify,
)
from .node_facts import Content, ContentResult, ShapeSite, Table, registering
from .shape_values import FLOATS, output_shape, pack

RULES: Table[Callable[..., ContentResult]] = {}
rule = registering(RULES)


def as_rational(number: Any) -> Dim | None:
    """The number as sympy has it, if a product with a size up to 65536 is exact.

    A float32 has 24 bits: 8 for the factor, zeros at the end not counted, 16 for the
    size.
    """
    if not isinstance(number, float):
        return None if number is None else number
    if not math.isfinite(number):
        return None
    ratio = sympy.Rational(number)
    digits = abs(ratio.p) // (ratio.p & -ratio.p or 1)
    return simplify(ratio) if digits < 256 and ratio.q <= 65536 else None


def _is_exact(expr: Dim) -> bool:
    """Whether float arithmetic may go on from here without a rounding error."""
    if isinstance(expr, int) or expr.is_integer:
        return True
    return all(r.q & (r.q - 1) == 0 for r in expr.atoms(sympy.Rational))


def _map(function: Callable[..., Any], *arrays: Content) -> Content:
    """Apply to broadcast elements; an unknown element gives an unknown one."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    flat = [np.broadcast_to(array, shape).flat for array in arrays]
    rows = zip(*flat, strict=True)
    return pack(
        (None if any(x is None for x in row) else function(*row) for row in rows), shape
    )


@rule("Cast", "CastLike")
def cast(site: ShapeSite, x: Content) -> ContentResult:
    """Between integers, floats and truth values."""
    like = site.node.op_type == "CastLike"
    target = site.dtype(1) if like else ir.DataType(site.attr("to"))
    if target is None:
        return None
    return _map(lambda element: _cast(element, target), x)


def _cast(element: Any, target: ir.DataType) -> Any:
    known = isinstance(element, bool | int | float)
    if target in FLOATS:
        return float(FLOATS[target](element)) if known else element
    if target == ir.DataType.BOOL:
        return bool(element) if known else (at_least(element, 1) or None)
    if not target.is_integer() or (known and not math.isfinite(element)):
        return None
    if known:
        return int(element)
    if element.is_integer:
        return element
    return floor(element) if at_least(element, 0) else None


def _as_float(result: float, dtype: ir.DataType) -> float:
    return float(FLOATS[dtype](result))


@rule("Add", "Sub", "Mul", "Div", "Mod")
def arithmetic(site: ShapeSite, a: Content, b: Content) -> ContentResult:
    """Exact on sizes; on floats rounded as the type rounds, or given up."""
    op, dtype = site.node.op_type, site.dtype(0)
    if dtype in FLOATS:
        return _map(lambda x, y: _float_arithmetic(op, x, y, dtype), a, b)
    if op == "Mod" and site.attr("fmod", 0):
        return None
    return _map(_INTEGER[op], a, b)


def _divided(a: Dim, b: Dim) -> Dim | None:
    """ONNX rounds towards zero, which is floor only where both are positive."""
    if isinstance(a, int) and isinstance(b, int):
        return (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1) if b else None
    positive = at_least(a, 0) and at_least(b, 0)
    return floordiv(a, b) if positive and b != 0 else None


def _remainder(a: Dim, b: Dim) -> Dim | None:
    if isinstance(b, int) and b > 0:
        return simplify(a - b * floordiv(a, b))
    return a % b if isinstance(a, int) and isinstance(b, int) and b else None


_INTEGER: dict[str, Callable[[Dim, Dim], Dim | None]] = {
    "Add": lambda a, b: simplify(a + b),
    "Sub": lambda a, b: simplify(a - b),
    "Mul": lambda a, b: simplify(a * b),
    "Div": _divided,
    "Mod": _remainder,
}


def _float_arithmetic(op: str, a: Any, b: Any, dtype: ir.DataType) -> Any:
    if isinstance(a, float) and isinstance(b, float):
        return _float_numbers(op, a, b, dtype)
    left, right = as_rational(a), as_rational(b)
    if left is None or right is None or not (_is_exact(left) and _is_exact(right)):
        return None
    if op != "Div":
        return None if op == "Mod" else _INTEGER[op](left, right)
    # A whole number over a whole number rounds, but never across a whole number.
    if right == 0 or not isinstance(right, int):
        return None
    return simplify(sympy.sympify(left) / right)


def _float_numbers(op: str, a: float, b: float, dtype: ir.DataType) -> float | None:
    if (op == "Div" and b == 0) or op == "Mod":
        return None
    results = {"Add": a + b, "Sub": a - b, "Mul": a * b}
    # Double, then rounded: for these four the same as rounding once.
    return _as_float(results[op] if op in results else a / b, dtype)


@rule("Floor", "Ceil")
def rounded(site: ShapeSite, x: Content) -> ContentResult:
    """Down or up to a whole number."""
    down = site.node.op_type == "Floor"

    def whole(element: Any) -> Any:
        if isinstance(element, float):
            return float(math.floor(element) if down else math.ceil(element))
        return floor(element) if down else simplify(-floor(-element))

    return _map(whole, x)


@rule("Neg", "Abs", "Sign", "Not")
def unary(site: ShapeSite, x: Content) -> ContentResult:
    """On one element at a time."""
    return _map(_UNARY[site.node.op_type], x)


def _absolute(x: Dim) -> Dim | None:
    if at_least(x, 0):
        return x
    return simplify(-x) if at_least(0, x) else None


def _sign(x: Dim) -> Dim | None:
    if isinstance(x, int):
        return (x > 0) - (x < 0)
    return 1 if at_least(x, 1) else None


_UNARY: dict[str, Callable[[Any], Any]] = {
    "Neg": lambda x: -x if isinstance(x, float) else simplify(-x),
    "Abs": lambda x: abs(x) if isinstance(x, float) else _absolute(x),
    "Sign": _sign,
    "Not": lambda x: not x,
}


@rule("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor")
def decided(site: ShapeSite, a: Content, b: Content) -> ContentResult:
    """True or False where the answer holds for all sizes."""
    return _map(_COMPARE[site.node.op_type], a, b)


def _at_least(a: Any, b: Any) -> bool | None:
    if isinstance(a, float) or isinstance(b, float):
        both = isinstance(a, float) and isinstance(b, float)
        return a >= b if both else None
    return at_least(a, b)


def _above(a: Any, b: Any) -> bool | None:
    below = _at_least(b, a)
    return None if below is None else not below


_COMPARE: dict[str, Callable[[Any, Any], bool | None]] = {
    "Equal": lambda a, b: a == b if isinstance(a, float) else same(a, b),
    "Less": lambda a, b: _above(b, a),
    "Greater": _above,
    "LessOrEqual": lambda a, b: _at_least(b, a),
    "GreaterOrEqual": _at_least,
    "And": lambda a, b: a and b,
    "Or": lambda a, b: a or b,
    "Xor": lambda a, b: a != b,
}


@rule("Where")
def where(site: ShapeSite, cond: Content, a: Content, b: Content) -> ContentResult:
    """The side that is decided, or both sides if they are the same."""
    shape = np.broadcast_shapes(cond.shape, a.shape, b.shape)
    flat = [np.broadcast_to(array, shape).flat for array in (cond, a, b)]
    return pack((_choose(*row) for row in zip(*flat, strict=True)), shape)


def _choose(cond: bool | None, a: Any, b: Any) -> Any:
    if cond is None:
        return a if a is not None and a == b else None
    return a if cond else b


@rule("Min", "Max")
def extreme(site: ShapeSite) -> ContentResult:
    """The smallest or largest of the inputs, element by element."""
    parts = [site.content(i) for i in range(len(site.node.inputs))]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return reduce(lambda a, b: _map(_EXTREME[site.node.op_type], a, b), known)


def _extreme(exact: Callable[[Dim, Dim], Dim], rough: Any) -> Callable[..., Any]:
    def choose(a: Any, b: Any) -> Any:
        if isinstance(a, float) and isinstance(b, float):
            return rough(a, b)
        left, right = as_rational(a), as_rational(b)
        return None if left is None or right is None else exact(left, right)

    return choose


_EXTREME = {"Min": _extreme(minimum, min), "Max": _extreme(maximum, max)}


@rule("Clip")
def clip(site: ShapeSite, x: Content) -> ContentResult:
    """No less than the second input, no more than the third."""
    for index, op in ((1, "Max"), (2, "Min")):
        bound = site.content(index)
        if bound is not None:
            x = _map(_EXTREME[op], x, bound)
        elif site.has(index):
            return None
    return x


@rule("ReduceProd", "ReduceSum", "ReduceMin", "ReduceMax")
def folded(site: ShapeSite, x: Content) -> ContentResult:
    """The elements along the axes given, put together."""
    out, op = output_shape(site), site.node.op_type
    axes = site.axes(1, x.ndim) if site.has(1) or site.attr("axes") else []
    if out is None or axes is None or site.dtype(0) in FLOATS:
        return None
    if not axes and not site.attr("noop_with_empty_axes", 0):
        axes = list(range(x.ndim))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    length = math.prod(x.shape[axis] for axis in axes)
    rows = x.transpose(kept + axes).reshape(math.prod(out), length)
    step = _FOLD[op]
    folded = (
        None if any(e is None for e in row) else reduce(step, row) for row in rows
    )
    return pack(folded, out) if length else None


_FOLD: dict[str, Callable[[Dim, Dim], Dim | None]] = {
    "ReduceProd": _INTEGER["Mul"],
    "ReduceSum": _INTEGER["Add"],
    "ReduceMin": minimum,
    "ReduceMax": maximum,
}
