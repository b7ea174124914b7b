"""Operands as spellings meet them: numbers, unsigned types, axes.

PyTorch has storage for uint16, uint32 and uint64 but few kernels; arithmetic goes
through a signed type that holds the same values (uint64: the same bits).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir

from ..spelling.expr import DimOf
from .axes import shown
from .registry import NodeView

SIGNED = {
    ir.DataType.UINT16: ir.DataType.INT32,
    ir.DataType.UINT32: ir.DataType.INT64,
    ir.DataType.UINT64: ir.DataType.INT64,
}
FLOAT8_MAX = {
    ir.DataType.FLOAT8E4M3FN: 448,
    ir.DataType.FLOAT8E4M3FNUZ: 240,
    ir.DataType.FLOAT8E5M2: 57344,
    ir.DataType.FLOAT8E5M2FNUZ: 57344,
}
# Integers of fewer bits than the type that holds them.
BITS = {
    ir.DataType.INT4: 4,
    ir.DataType.UINT4: 4,
    ir.DataType.INT2: 2,
    ir.DataType.UINT2: 2,
}
# Floats held by a wider one: binary places, first number that has them all, the last.
SMALL_FLOATS: dict[ir.DataType, tuple[int, float, float]] = {
    ir.DataType.FLOAT4E2M1: (1, 1.0, 6.0),
    ir.DataType.FLOAT6E2M3: (3, 1.0, 7.5),
    ir.DataType.FLOAT6E3M2: (2, 0.25, 28.0),
}


_METHODS = {
    ir.DataType.FLOAT: "float",
    ir.DataType.FLOAT16: "half",
    ir.DataType.INT64: "long",
    ir.DataType.INT32: "int",
    ir.DataType.BOOL: "bool",
}

Spelling = Callable[..., Any]


def shown_axis(n: NodeView, axis: int) -> int:
    """An axis of input 0 as people write it; as it stands for an unknown rank."""
    rank = n.shapes.rank(n.value(0))
    return axis if rank is None else shown(axis, rank)


def converted(t: Any, x: Any, dtype: ir.DataType) -> Any:
    """`x.half()` and the like where people write so, else `x.to(torch.int8)`."""
    return getattr(x, _METHODS[dtype])() if dtype in _METHODS else x.to(t.dtype(dtype))


def is_number(x: Any) -> bool:
    """Whether the operand is a Python number in the emitted code, not a tensor."""
    return isinstance(x, (int, float, np.generic, DimOf))


def is_zero(n: NodeView, i: int) -> bool:
    """Whether input i is known to be 0 throughout, such as a zero point."""
    known = n.const(i)
    return known is not None and not np.any(known)


def exact(x: Any) -> Any:
    """A float16 number with all its digits; other operands as they are.

    0.1 and the float16 next to it differ to PyTorch, which multiplies a float16 tensor
    by a number in float32.
    """
    return float(x) if isinstance(x, np.float16) else x


def whole(x: Any) -> Any:
    """2.0 as 2, for functions that take an int beside a float tensor."""
    small = isinstance(x, (float, np.floating)) and abs(x) <= 1000
    if not small or x != int(x) or (x == 0 and np.signbit(x)):
        return exact(x)
    return int(x)


def number(n: NodeView, name: str, default: float) -> float:
    """A float attribute, as the shortest literal that is the same to the tensor's type.

    ONNX stores float32; float64 tensors see that very number, digits and all.
    """
    value = np.float32(n.attr(name, default))
    return float(value) if n.dtype(0) == ir.DataType.DOUBLE else float(str(value))


def through_signed(
    *, back: bool = True, ordered: bool = False, first: bool = False
) -> Callable[[Spelling], Spelling]:
    """Decorates a spelling: unsigned operands go in, and the result comes back, signed.

    back=False is for results of another type, such as comparisons. `ordered` says that
    the result depends on which of two values is larger; for uint64 the bits alone give
    only sums, products and the like. `first`: only the first operand has the type, the
    others are axes and the like.
    """

    def decorate(spelling: Spelling) -> Spelling:
        @wraps(spelling)
        def spell(t: Any, n: NodeView, *xs: Any) -> Any:
            dtype = n.dtype(0)
            if dtype not in SIGNED:
                return spelling(t, n, *[exact(x) for x in xs])
            count = 1 if first else len(xs)
            if ordered and dtype == ir.DataType.UINT64:
                operands = [_key(t, x) for x in xs[:count]]
                result = spelling(t, n, *operands, *xs[count:])
                return _from_key(t, result) if back else result
            operands = [_signed(t, x, SIGNED[dtype]) for x in xs[:count]]
            result = spelling(t, n, *operands, *xs[count:])
            return converted(t, result, dtype) if back else result

        return spell

    return decorate


def _signed(t: Any, x: Any, dtype: ir.DataType) -> Any:
    """Numbers stay, but for uint64 ones that become the int64 of the same bits."""
    if not is_number(x):
        return converted(t, x, dtype)
    known = isinstance(x, (int, np.integer))
    return int(x) - 2**64 if known and int(x) >= 2**63 else x


def _key(t: Any, x: Any) -> Any:
    from .helpers.elementwise import uint64_key

    return int(x) - 2**63 if is_number(x) else t.helper(uint64_key)(x)


def _from_key(t: Any, key: Any) -> Any:
    from .helpers.elementwise import uint64_from_key

    return t.helper(uint64_from_key)(key)
