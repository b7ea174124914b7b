"""Conversions of type, and operators that do nothing at inference."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ..facts import sizes_elementwise
from ..helpers import casts as helpers
from ..node_view import NodeView
from ..operands import BITS, FLOAT8_MAX, SMALL_FLOATS, converted, signed
from ..registry import ONE_TO_ONE, operator


def cast(t: Any, n: NodeView, x: Any, source: ir.DataType) -> Any:
    """x, which is of type `source`, in the type of the output."""
    target = n.out_dtype()
    if target in FLOAT8_MAX:
        return _cast_float8(t, n, x, source)
    if target in BITS:
        return t.helper(helpers.wrap_bits)(x, BITS[target], t.dtype(target))
    if target in SMALL_FLOATS:
        x = x.float() if source.bitwidth == 8 and source.is_floating_point() else x
        return t.helper(helpers.round_float)(x, *SMALL_FLOATS[target])
    if target == ir.DataType.FLOAT8E8M0:
        mode = n.attr("round_mode", "up")
        options = {} if mode == "up" else {"mode": mode}
        options |= {} if n.attr("saturate", 1) == 1 else {"saturate": False}
        return t.helper(helpers.power_of_two)(x, **options)
    return converted(t, x, target)


def _cast_float8(t: Any, n: NodeView, x: Any, source: ir.DataType) -> Any:
    target, dtype = n.out_dtype(), t.dtype(n.out_dtype())
    if source == ir.DataType.BOOL:
        return x.to(dtype)
    small = not source.is_floating_point() and source.bitwidth <= 16
    if small or source.bitwidth < 16 or signed(source) != source:
        # The bounds are no int16; float8, and unsigned numbers, have few operations.
        x = x.float()
    if n.attr("saturate", 1) == 1:
        # What PyTorch makes of larger values depends on its version.
        bound = FLOAT8_MAX[target]
        return x.clamp(-bound, bound).to(dtype)
    if target == ir.DataType.FLOAT8E4M3FN:
        # From 464, half way to the number after the largest, there is only NaN.
        x = x if source.is_floating_point() else x.float()
        return x.masked_fill(x.abs() > 464, float("nan")).to(dtype)
    return x.to(dtype)


@operator("Cast", since=6, mapping=ONE_TO_ONE, flops=0, carries=(0,))
def _cast(t: Any, n: NodeView, x: Any, like: Any = None) -> Any:
    """A float out of an integer type's range is undefined in ONNX, and in PyTorch."""
    source, target = n.dtype(0), n.out_dtype()
    return x if source == target else cast(t, n, x, source)


operator(
    "CastLike",
    since=15,
    mapping=ONE_TO_ONE,
    shape=sizes_elementwise.like_input,
    flops=0,
)(_cast)


@operator(
    "BitCast",
    since=26,
    mapping=ONE_TO_ONE,
    shape=sizes_elementwise.like_input,
    flops=0,
    traceable=False,  # PyTorch records no view of another type
)
def _bit_cast(t: Any, n: NodeView, x: Any) -> Any:
    return x if n.dtype(0) == n.out_dtype() else x.view(t.dtype(n.out_dtype()))


# ---- nothing at all


operator("Identity", since=1, mapping=ONE_TO_ONE, views=True)(lambda t, n, x: x)
