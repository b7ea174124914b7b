"""Operands and results as spellings meet them: numbers, types, axes, subscripts.

PyTorch has storage for uint16, uint32 and uint64 but few kernels; arithmetic goes
through a signed type that holds the same values (uint64: the same bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import onnx_ir as ir

from ..graph.dims import Dim, same
from ..literals import shortest
from ..spelling.expr import DimOf, Expr
from .helpers import elementwise as helpers
from .node_view import NodeView

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
    return axis if rank is None else shown(_within(n, axis, rank), rank)


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
    return float(value) if n.dtype(0) == ir.DataType.DOUBLE else shortest(value)


def present(**options: Any) -> dict[str, Any]:
    """Options without those that are None."""
    return {name: value for name, value in options.items() if value is not None}


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
                return t.helper(helpers.uint64_from_key)(result) if back else result
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
    return int(x) - 2**63 if is_number(x) else t.helper(helpers.uint64_key)(x)


# ---- axes, sizes, subscripts

EVERYTHING = slice(None)
TO_THE_END = 2**31 - 1  # exporters write "as far as it goes" as this or more

_UNSIGNED = {
    ir.DataType.UINT16: ir.DataType.INT16,
    ir.DataType.UINT32: ir.DataType.INT32,
    ir.DataType.UINT64: ir.DataType.INT64,
}


def size(dim: Dim) -> int | Expr:
    """A size as an operand: a number, or what reads it off a tensor."""
    return dim if isinstance(dim, int) else DimOf(dim)


def equal(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are proven to be the same."""
    return len(a) == len(b) and all(same(p, q) for p, q in zip(a, b, strict=True))


def axis_of(n: NodeView, default: int = 0) -> int:
    """The attribute `axis`, counted from the front of input 0 if its rank is known."""
    axis, rank = int(n.attr("axis", default)), n.shapes.rank(n.value(0))
    return axis if rank is None else front(_within(n, axis, rank), rank)


def _within(n: NodeView, axis: int, rank: int) -> int:
    """An axis, of those there are and one behind them; the node is refused for more."""
    if rank and not -rank <= axis <= rank:
        n.refuse(f"{n.node.op_type} along axis {axis} of {rank} is impossible")
    return axis


def front(axis: int, rank: int) -> int:
    """An axis counted from the front: -1 of 3 axes is 2."""
    return axis + rank if axis < 0 else axis


def shown(axis: int, rank: int | None) -> int:
    """The way people write an axis: -1 for the last of three or more."""
    return -1 if rank is not None and axis == rank - 1 and rank >= 3 else axis


def dim_keyword(axis: int, rank: int | None) -> dict[str, int]:
    """`dim=axis`, left out where it is torch's default of 0."""
    return {"dim": shown(axis, rank)} if axis else {}


def subscript(x: Any, items: Sequence[Any]) -> Any:
    """`x[...]` from one item per axis; x itself if every item is a bare colon."""
    lead = 0
    while lead < len(items) and _is_full(items[lead]):
        lead += 1
    if lead == len(items):
        return x
    tail = len(items)
    while _is_full(items[tail - 1]):
        tail -= 1
    kept = items[:tail] if lead <= 2 else [..., *items[lead:]]
    return x[tuple(kept) if len(kept) > 1 else kept[0]]


def at_axis(x: Any, axis: int, rank: int | None, item: Any) -> Any:
    """`x[:, item]` for axis 1, and so on."""
    if axis < 0:  # of any rank
        return x[tuple([..., item, *[EVERYTHING] * (-1 - axis)])]
    items = [EVERYTHING] * (axis + 1 if rank is None else rank)
    items[axis] = item
    return subscript(x, items)


def _is_full(item: Any) -> bool:
    if not isinstance(item, slice):
        return False
    return item.start is None and item.stop is None and item.step is None


def flat_ints(found: Sequence[int | Expr] | None) -> list[int] | None:
    """The list if every element is a number, else None."""
    numbers = [item for item in found or () if isinstance(item, int)]
    return numbers if found is not None and len(numbers) == len(found) else None


COMPLEX = {ir.DataType.COMPLEX64, ir.DataType.COMPLEX128}


def signed(dtype: ir.DataType) -> ir.DataType:
    """The signed type of equal width where torch has few kernels for the unsigned."""
    return _UNSIGNED.get(dtype, dtype)


def kernel_view(t: Any, dtype: ir.DataType, x: Any) -> Any:
    """Wide unsigned integers as signed ones of the same bits.

    PyTorch moves uint16, uint32 and uint64 by few of its kernels.
    """
    return x.view(t.dtype(_UNSIGNED[dtype])) if dtype in _UNSIGNED else x


def kernel_result(t: Any, dtype: ir.DataType, x: Any) -> Any:
    """The way back from `kernel_view`."""
    return x.view(t.dtype(dtype)) if dtype in _UNSIGNED else x


# ---- results


def wanted(n: NodeView, made: Any, count: int) -> Any:
    """What the node's readers use of `made`, which evaluates to `count` results."""
    used = [j for j in range(n.outputs) if n.used(j)]
    if used == [0]:
        return made[0]
    if len(used) == 1:
        return tuple(made[j] if j in used else None for j in range(n.outputs))
    return made if n.outputs == count else made[: n.outputs]
