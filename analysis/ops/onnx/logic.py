"""Comparisons, logic, bits, tests of single numbers, and choices by a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ...graph.dims import Dims
from ...spelling.expr import DimOf
from ..facts.requirements import Between
from ..helpers import elementwise as helpers
from ..node_view import NodeView
from ..operands import FLOAT8_MAX, SIGNED, converted, exact, is_number, through_signed
from ..registry import ONE_TO_ONE, operator

# ---- comparisons


_COMPARISON: dict[str, Any] = dict(mapping=ONE_TO_ONE, scalars=(0, 1), result="mask")


@operator("Equal", since=7, **_COMPARISON)
def _equal(t: Any, n: NodeView, a: Any, b: Any) -> Any:
    n.dtype(0)  # refuses strings
    return exact(a) == exact(b)


for _name, _since, _spelling in (
    ("Greater", 7, lambda t, n, a, b: a > b),
    ("GreaterOrEqual", 12, lambda t, n, a, b: a >= b),
    ("Less", 7, lambda t, n, a, b: a < b),
    ("LessOrEqual", 12, lambda t, n, a, b: a <= b),
):
    operator(_name, since=_since, **_COMPARISON)(
        through_signed(back=False, ordered=True)(_spelling)
    )


# ---- logic and bits

for _name, _since, _spelling in (
    ("And", 7, lambda t, n, a, b: a & b),
    ("Or", 7, lambda t, n, a, b: a | b),
    ("Xor", 7, lambda t, n, a, b: a ^ b),
    ("BitwiseAnd", 18, lambda t, n, a, b: a & b),
    ("BitwiseOr", 18, lambda t, n, a, b: a | b),
    ("BitwiseXor", 18, lambda t, n, a, b: a ^ b),
):
    operator(
        _name,
        since=_since,
        mapping=ONE_TO_ONE,
        scalars=(0, 1) if _name.startswith("Bitwise") else (),
        result="" if _name.startswith("Bitwise") else "mask",
    )(through_signed()(_spelling))


operator("Not", since=1, mapping=ONE_TO_ONE, result="mask")(lambda t, n, x: ~x)


operator("BitwiseNot", since=18, mapping=ONE_TO_ONE)(
    through_signed()(lambda t, n, x: ~x)
)


@through_signed()
def _shift_bits(t: Any, n: NodeView, x: Any, y: Any) -> Any:
    return x >> y if n.attr("direction") == "RIGHT" else x << y


@operator("BitShift", since=11, mapping=ONE_TO_ONE, requires={1: Between(0, 4)})
def _shift(t: Any, n: NodeView, x: Any, y: Any) -> Any:
    """Shifts by the width of the type or more give 0, in PyTorch as in ONNX."""
    if n.dtype(0) == ir.DataType.UINT64 and n.attr("direction") == "RIGHT":
        return t.helper(helpers.uint64_shift_right)(x, y)
    return _shift_bits(t, n, x, y)


# ---- tests of single numbers


@operator("IsInf", since=10, mapping=ONE_TO_ONE, result="mask")
def _is_inf(t: Any, n: NodeView, x: Any) -> Any:
    positive, negative = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    if n.dtype(0) in FLOAT8_MAX:
        x = x.float()
    if positive and negative:
        return t.isinf(x)
    if positive:
        return t.isposinf(x)
    return t.isneginf(x) if negative else t.zeros_like(x, dtype=t.bool)


@operator("IsNaN", since=9, mapping=ONE_TO_ONE, result="mask")
def _is_nan(t: Any, n: NodeView, x: Any) -> Any:
    return t.isnan(x.float() if n.dtype(0) in FLOAT8_MAX else x)


# ---- a choice by a mask


def _covers(dims: Dims, mask: Dims) -> bool:
    """Whether a mask never makes a tensor larger, which masked_fill can't do."""
    aligned = zip(reversed(dims), reversed(mask), strict=False)
    return len(mask) <= len(dims) and all(m in (1, d) for d, m in aligned)


def _where_numbers(t: Any, dtype: ir.DataType, mask: Any, a: Any, b: Any) -> Any:
    """PyTorch makes float32 or int64 of two numbers; these hold most of other types."""
    made = ir.DataType.FLOAT if dtype.is_floating_point() else ir.DataType.INT64
    if not all(isinstance(x, DimOf) or _fits(x, made) for x in (a, b)):
        return t.where(mask, t.tensor(a, dtype=t.dtype(dtype), device=t.device), b)
    chosen = t.where(mask, a, b)
    return chosen if dtype in (made, ir.DataType.BOOL) else converted(t, chosen, dtype)


def _fits(x: Any, dtype: ir.DataType) -> bool:
    if dtype == ir.DataType.INT64:
        return int(x) < 2**63
    with np.errstate(over="ignore"):
        return bool(np.isnan(x) or float(np.float32(x)) == float(x))


@operator("Where", since=9, mapping=ONE_TO_ONE, carries=(1, 2), scalars=(1, 2))
def _where(t: Any, n: NodeView, mask: Any, a: Any, b: Any) -> Any:
    dtype = n.out_dtype()
    if is_number(a) and is_number(b):
        return _where_numbers(t, dtype, mask, exact(a), exact(b))
    if is_number(a) and dtype not in SIGNED and _covers(n.dims(2), n.dims(0)):
        return b.masked_fill(mask, exact(a))
    return t.where(mask, exact(a), exact(b))
