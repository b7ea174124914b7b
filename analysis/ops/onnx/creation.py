"""Operators that make tensors out of sizes, ranges and constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from ..facts import sizes_elementwise
from ..facts.requirements import BelowNumber, Between
from ..helpers import indexing as helpers
from ..node_view import NodeView
from ..operands import signed, size
from ..registry import ONE_TO_MANY, OPAQUE, operator


def _number(value: Any) -> Any:
    """A NumPy scalar as the Python number with the shortest digits that mean it.

    The bounds of a type stay NumPy's, which are printed by name: their shortest digits
    lie outside.
    """
    dtype = np.asarray(value).dtype
    if dtype.kind == "b":
        return bool(value)
    if dtype.kind == "f" and abs(value) == np.finfo(dtype).max:
        return value
    return int(value) if dtype.kind in "iu" else float(str(value))


def _with_dtype(
    t: Any, dtype: ir.DataType, usual: ir.DataType = ir.DataType.FLOAT
) -> dict[str, Any]:
    """Keywords for a new tensor; the dtype that torch picks itself is left out."""
    chosen = {} if dtype == usual else {"dtype": t.dtype(dtype)}
    return {**chosen, "device": t.device}


# ---- Shape, Size


@operator(
    "Shape",
    since=25,
    mapping=OPAQUE,
    shape=sizes_elementwise.shape_of,
    flops=0,
    traceable=True,
    result="shape",
)
def _shape(t: Any, n: NodeView, x: Any) -> Any:
    cut = n.attr("start", 0) != 0 or n.attr("end") is not None
    if n.shapes.dims(n.value(0)) is None and not cut:
        return t.tensor(x.shape, dtype=t.int64, device=t.device)  # of no axes, maybe
    rank = n.rank(0)
    start, end, _ = slice(n.attr("start", 0), n.attr("end")).indices(rank)
    if end <= start:
        return t.empty(0, dtype=t.int64, device=t.device)
    sizes = x.shape
    if (start, end) != (0, rank):
        sizes = sizes[slice(start or None, end if end < rank else None)]
    return t.tensor(sizes, device=t.device)


operator(
    "Size",
    since=25,
    mapping=OPAQUE,
    shape=sizes_elementwise.number,
    flops=0,
    result="count",
)(lambda t, n, x: t.tensor(x.numel(), device=t.device))


# ---- Range


def scalar(n: NodeView, i: int, operand: Any) -> Any:
    """A number that the emitted code needs as such: known, or read at run time."""
    known = n.const(i)
    if known is not None:
        return _number(known.reshape(-1)[0])
    found = n.sizes(i)
    return operand.item() if found is None else found[0]


def _is_number(item: Any, number: int) -> bool:
    return isinstance(item, (int, float)) and item == number


def _length(*scalars: Any) -> int:
    """The number of elements, with the rounding of ONNX Runtime."""
    start, limit, delta = (float(array.reshape(-1)[0]) for array in scalars)
    return max(math.ceil((limit - start) / delta), 0)


@operator(
    "Range",
    since=27,
    mapping=OPAQUE,
    onnx_errs=True,
    flops=0,
    traceable=True,
    requires={0: Between(0, 1), 1: Between(1, 9), 2: Between(1, 2)},
    result="positions",
)
def _range(t: Any, n: NodeView, start: Any, limit: Any, delta: Any) -> Any:
    known = [n.const(i) for i in range(3)]
    operands = (start, limit, delta)
    begin, end, step = (scalar(n, i, operand) for i, operand in enumerate(operands))
    dtype = n.out_dtype()
    floats = dtype.is_floating_point()
    made = _with_dtype(t, dtype, ir.DataType.FLOAT if floats else ir.DataType.INT64)
    if all(array is not None for array in known):
        length = _length(*known)
        if length == 0:
            return t.empty(0, dtype=t.dtype(dtype), device=t.device)
        if length != math.ceil((end - begin) / step):
            # The step is rounded, so that counting in float64 finds another end.
            return t.arange(length, **made) * step + begin
    if any(known[i] is None and n.sizes(i) is None for i in range(3)):
        options = {} if _is_number(step, 1) else {"step": step}
        return t.helper(helpers.range_of)(begin, end, **options, **made)
    if not _is_number(step, 1):
        return t.arange(begin, end, step, **made)
    return (
        t.arange(end, **made) if _is_number(begin, 0) else t.arange(begin, end, **made)
    )


# ---- ConstantOfShape, EyeLike, OneHot


def filled(t: Any, element: np.generic, wanted: Any, dtype: ir.DataType) -> Any:
    """A tensor of one number: torch.zeros(2, 3), torch.full((2, 3), 0.5).

    `wanted` is a tuple of sizes, or what gives them at run time. Sizes that the inputs
    decide stay a tuple: torch.fx traces no torch.zeros(x.shape[0], 3).
    """
    value = _number(element)
    if value in (0, 1) and not isinstance(value, bool) and math.copysign(1, value) > 0:
        make = t.ones if value else t.zeros
        known = isinstance(wanted, tuple) and all(isinstance(x, int) for x in wanted)
        args: Any = wanted if known and wanted else [wanted]
        return make(*args, **_with_dtype(t, dtype))
    usual = ir.DataType.FLOAT
    if isinstance(value, bool):
        usual = ir.DataType.BOOL
    elif isinstance(value, int):
        usual = ir.DataType.INT64
    return t.full(wanted, value, **_with_dtype(t, dtype, usual))


@operator(
    "ConstantOfShape",
    since=25,
    mapping=ONE_TO_MANY,
    flops=0,
    requires={0: Between(1, 5)},
)
def _constant_of_shape(t: Any, n: NodeView, sizes: Any) -> Any:
    value = np.asarray(n.attr("value", np.float32(0))).reshape(-1)[0]
    found = n.ints(0)
    wanted = sizes.tolist() if found is None else tuple(found)
    return filled(t, value, wanted, n.out_dtype())


@operator(
    "EyeLike", since=22, mapping=OPAQUE, shape=sizes_elementwise.like_input, flops=0
)
def _eye_like(t: Any, n: NodeView, x: Any) -> Any:
    rows, columns = (size(dim) for dim in n.dims(0))
    k = n.attr("k", 0)
    dtype = n.out_dtype()
    exact = signed(dtype)
    made = _with_dtype(t, exact)
    if k:
        eye = t.ones(rows, columns, **made).triu(k).tril(k)
    elif n.dims(0)[0] == n.dims(0)[1]:
        eye = t.eye(rows, **made)
    else:
        eye = t.eye(rows, columns, **made)
    return eye if exact == dtype else eye.to(t.dtype(dtype))


@operator(
    "OneHot",
    since=11,
    mapping=ONE_TO_MANY,
    flops=0,
    requires={0: BelowNumber(1), 1: Between(2, 9)},
)
def _one_hot(t: Any, n: NodeView, indices: Any, depth: Any, values: Any) -> Any:
    known = n.const(1)
    count = n.ints(1)
    classes: Any
    if known is not None:
        classes = int(known.reshape(-1)[0])
    else:
        classes = depth.long().item() if count is None else count[0]
    axis = n.attr("axis", -1)
    where = {} if axis == -1 else {"axis": axis}
    return t.helper(helpers.one_hot)(indices, classes, values, **where)
