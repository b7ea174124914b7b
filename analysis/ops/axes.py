"""How axes, sizes and subscripts are written by the operators that move data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from ..graph.dims import Dim, same
from ..spelling.expr import DimOf, Expr
from .registry import NodeView

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


def axis_of(n: NodeView, default: int = 0, i: int = 0) -> int:
    """The attribute `axis`, counted from the front of input i."""
    return front(int(n.attr("axis", default)), n.rank(i))


def front(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def shown(axis: int, rank: int) -> int:
    """The way people write an axis: -1 for the last of three or more."""
    return -1 if axis == rank - 1 and rank >= 3 else axis


def dim_keyword(axis: int, rank: int) -> dict[str, int]:
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


def at_axis(x: Any, axis: int, rank: int, item: Any) -> Any:
    """`x[:, item]` for axis 1, and so on."""
    items = [EVERYTHING] * rank
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
