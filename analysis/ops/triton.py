"""Operators as Triton spells them: inside a kernel, on values that are on chip.

`pointwise` spellings take and give elements, `rows` spellings take whole rows. Like
`torch=` of the operator table they have two readings: with `Language("tl.")` they print
a kernel's source, with `Language("")` the formula of its docstring. Floats are float32
by then, whatever type the tensors have. What is not here stays a PyTorch call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from ..spell import ATOM, UNARY, Expr, HelperRef, spell, text_expr
from . import helpers_triton
from .table import NodeView

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
WHOLE = frozenset({ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL})
TYPES = FLOATS | WHOLE


class Language:
    """Triton's functions under a prefix: Language("tl.").exp(x) prints tl.exp(x)."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Expr:
        return Expr(f"{self._prefix}{name}")

    def helper(self, function: Callable[..., Any]) -> Expr:
        return HelperRef(function)


def number(value: Any) -> Expr:
    """A scalar constant, as the shortest literal of its own type; no name for any."""
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return spell(value)
    wide = float(value)
    if np.isnan(wide) or np.isinf(wide):
        return spell(wide)
    text = repr(float(str(value)) if isinstance(value, np.float32) else wide)
    return text_expr(text, UNARY if text.startswith("-") else ATOM)


Spelling = Callable[..., Any]
POINTWISE: dict[str, Spelling] = {}
# What works on whole numbers and truth values too.
_ON_WHOLE = frozenset(
    """Add And Cast Equal Greater GreaterOrEqual Identity Less LessOrEqual Mul Neg Not
    Or Sub Where Xor""".split()
)


def pointwise(node: ir.Node) -> Spelling | None:
    """How one element of the result is computed; None if Triton can't, or not well."""
    found = POINTWISE.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    if found is None or node.op_type in _ON_WHOLE:
        return found
    types = {v.dtype for v in node.inputs if v is not None}
    return found if types <= FLOATS else None


# ---- functions of one number


def _gelu(tl: Any, n: NodeView, x: Any) -> Any:
    if n.attr("approximate", "none") == "none":
        return 0.5 * x * (1 + tl.erf(x * number(math.sqrt(0.5))))
    inner = number(math.sqrt(2 / math.pi)) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + tl.helper(helpers_triton.tanh)(inner))


def _swish(tl: Any, n: NodeView, x: Any) -> Any:
    alpha = n.attr("alpha", 1.0)
    return x * tl.sigmoid(x if alpha == 1 else number(alpha) * x)


def _hard_sigmoid(tl: Any, n: NodeView, x: Any) -> Any:
    alpha, beta = n.attr("alpha", np.float32(0.2)), n.attr("beta", np.float32(0.5))
    return _clamp(tl, number(alpha) * x + number(beta), 0.0, 1.0)


def _leaky_relu(tl: Any, n: NodeView, x: Any) -> Any:
    return tl.where(x < 0, number(n.attr("alpha", np.float32(0.01))) * x, x)


def _elu(tl: Any, n: NodeView, x: Any) -> Any:
    alpha = number(n.attr("alpha", np.float32(1)))
    return tl.where(x < 0, alpha * (tl.exp(x) - 1), x)


def _thresholded_relu(tl: Any, n: NodeView, x: Any) -> Any:
    return tl.where(x > number(n.attr("alpha", np.float32(1))), x, 0.0)


POINTWISE |= {
    "Abs": lambda tl, n, x: tl.abs(x),
    "Ceil": lambda tl, n, x: tl.ceil(x),
    "Cos": lambda tl, n, x: tl.cos(x),
    "Elu": _elu,
    "Erf": lambda tl, n, x: tl.erf(x),
    "Exp": lambda tl, n, x: tl.exp(x),
    "Floor": lambda tl, n, x: tl.floor(x),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda tl, n, x: x * _clamp(tl, x / 6 + 0.5, 0.0, 1.0),
    "Identity": lambda tl, n, x: x,
    "LeakyRelu": _leaky_relu,
    "Log": lambda tl, n, x: tl.log(x),
    "Mish": lambda tl, n, x: (
        x * tl.helper(helpers_triton.tanh)(tl.helper(helpers_triton.softplus)(x))
    ),
    "Neg": lambda tl, n, x: -x,
    "Not": lambda tl, n, x: ~x,
    "Reciprocal": lambda tl, n, x: 1 / x,
    "Relu": lambda tl, n, x: tl.where(x < 0, 0.0, x),  # NaN stays
    "Sigmoid": lambda tl, n, x: tl.sigmoid(x),
    "Sin": lambda tl, n, x: tl.sin(x),
    "Softplus": lambda tl, n, x: tl.helper(helpers_triton.softplus)(x),
    "Softsign": lambda tl, n, x: x / (1 + tl.abs(x)),
    "Sqrt": lambda tl, n, x: tl.sqrt(x),
    "Swish": _swish,
    "Tanh": lambda tl, n, x: tl.helper(helpers_triton.tanh)(x),
    "ThresholdedRelu": _thresholded_relu,
}


# ---- of several operands


def _clamp(tl: Any, x: Any, low: Any, high: Any) -> Any:
    """Comparisons leave NaN as it is, which tl.clamp doesn't promise."""
    if low is not None:
        x = tl.where(x < low, low, x)
    if high is not None:
        x = tl.where(x > high, high, x)
    return x


def _clip(tl: Any, n: NodeView, x: Any, low: Any = None, high: Any = None) -> Any:
    return _clamp(tl, x, low, high)


def _pow(tl: Any, n: NodeView, x: Any, power: Any) -> Any:
    """Powers that are products or roots; the others stay PyTorch's."""
    known = n.const(1)
    exponent = float(known.reshape(-1)[0]) if known is not None else None
    if exponent in (1.0, 2.0, 3.0):
        return reduce(lambda a, b: a * b, [x] * int(exponent))
    if exponent == 0.5:
        return tl.sqrt(x)
    n.refuse("Pow with another exponent than 1, 2, 3 and 0.5 in a kernel")


def _extreme(function: str) -> Spelling:
    def spelling(tl: Any, n: NodeView, *xs: Any) -> Any:
        call = getattr(tl, function)
        every = tl.PropagateNan.ALL
        return reduce(lambda a, b: call(a, b, propagate_nan=every), xs)

    return spelling


def _cast(tl: Any, n: NodeView, x: Any) -> Any:
    """Floats are float32 on chip, rounded first where the graph has a smaller type."""
    to = n.out_dtype()
    if to == ir.DataType.BOOL:
        return x != 0
    if to not in FLOATS:
        return x.to(tl.int32 if to == ir.DataType.INT32 else tl.int64)
    if not n.is_float(0):
        x = x.to(tl.float32)
    if to == ir.DataType.FLOAT:
        return x
    small = tl.float16 if to == ir.DataType.FLOAT16 else tl.bfloat16
    return x.to(small).to(tl.float32)


POINTWISE |= {
    "Add": lambda tl, n, a, b: a + b,
    "And": lambda tl, n, a, b: a & b,
    "Cast": _cast,
    "Clip": _clip,
    "Div": lambda tl, n, a, b: a / b,
    "Equal": lambda tl, n, a, b: a == b,
    "Greater": lambda tl, n, a, b: a > b,
    "GreaterOrEqual": lambda tl, n, a, b: a >= b,
    "Less": lambda tl, n, a, b: a < b,
    "LessOrEqual": lambda tl, n, a, b: a <= b,
    "Max": _extreme("maximum"),
    "Min": _extreme("minimum"),
    "Mul": lambda tl, n, a, b: a * b,
    "Or": lambda tl, n, a, b: a | b,
    "PRelu": lambda tl, n, x, slope: tl.where(x < 0, slope * x, x),
    "Pow": _pow,
    "Sub": lambda tl, n, a, b: a - b,
    "Sum": lambda tl, n, *xs: reduce(lambda a, b: a + b, xs),
    "SwiGLU": lambda tl, n, gate, x: _swish(tl, n, gate) * x,
    "Where": lambda tl, n, condition, a, b: tl.where(condition, a, b),
    "Xor": lambda tl, n, a, b: a ^ b,
}


# ---- over whole rows


class Row(Protocol):
    """A row on chip; lanes past its end may hold anything, unless it is `zeroed`."""

    tl: Any
    count: Expr  # of elements
    eps: Expr

    def let(self, name: str, value: Expr, zeroed: bool = False) -> Expr: ...
    def sum(self, x: Expr) -> Expr: ...
    def max(self, x: Expr) -> Expr: ...
    def min(self, x: Expr) -> Expr: ...
    def argmax(self, keys: Expr) -> Expr: ...


@dataclass(frozen=True)
class RowSpelling:
    """`lines(row, n, *operands)` gives the result; `formula(*operands)` says it.

    `keeps` tells whether the result is a row again, not one number. `names` are what
    the operands after the first are called.
    """

    lines: Callable[..., Expr]
    formula: str
    keeps: bool
    names: tuple[str, ...] = ()
    eps: float | None = None  # of the operator's attribute epsilon, if it has one
    # In PyTorch, of the node, eps as an argument, and the operands.
    twin: Callable[..., Expr] | None = None


def _layer_norm(row: Row, n: NodeView, x: Any, weight: Any, bias: Any = None) -> Any:
    mean = row.let("mean", row.sum(x) / row.count)
    centred = row.let("centred", x - mean, zeroed=True)
    variance = row.let("variance", row.sum(centred * centred) / row.count)
    y = centred * row.tl.rsqrt(variance + row.eps) * weight
    return y if bias is None else y + bias


def _rms_norm(row: Row, n: NodeView, x: Any, weight: Any) -> Any:
    mean_square = row.let("mean_square", row.sum(x * x) / row.count)
    return x * row.tl.rsqrt(mean_square + row.eps) * weight


def _softmax(row: Row, n: NodeView, x: Any) -> Any:
    # The largest exponent is 0, so nothing overflows.
    powers = row.let("powers", row.tl.exp(x - row.max(x)), zeroed=True)
    return powers / row.sum(powers)


def _log_softmax(row: Row, n: NodeView, x: Any) -> Any:
    shifted = row.let("shifted", x - row.max(x))
    return shifted - row.tl.log(row.sum(row.tl.exp(shifted)))


def _argmax(row: Row, n: NodeView, x: Any) -> Any:
    """The first of equals."""
    if n.attr("select_last_index", 0):
        n.refuse(f"{n.node.op_type} of the last of equals in a kernel")
    return row.argmax(_keys(row, x, n.node.op_type == "ArgMax"))


def _keys(row: Row, x: Any, largest: bool) -> Expr:
    """What the largest of is looked for; NaN counts as infinite, as in PyTorch."""
    number = row.tl.where(x == x, x if largest else -x, text_expr('float("inf")'))
    return row.let("keys", number)


MOST_LARGEST = 16  # of a row, which are found one after another


def _top_k(row: Row, n: NodeView, x: Any) -> Any:
    """What the places are found by; they are stored as they are found."""
    return _keys(row, x, bool(n.attr("largest", 1)))


def top_of(n: NodeView) -> int:
    """How many elements of each row TopK finds; 0 where a kernel can't, or it isn't."""
    if n.node.op_type != "TopK" or n.node.domain or not n.rank(0):
        return 0
    count, width = n.known_ints(1, "k")[0], n.dims(0)[-1]
    if not 0 < count <= MOST_LARGEST:
        n.refuse(f"TopK of {count} in a kernel, which finds up to {MOST_LARGEST}")
    return count if isinstance(width, int) and count <= width else 0


ROWS: dict[str, RowSpelling] = {
    "LayerNormalization": RowSpelling(
        _layer_norm,
        "({0} - mean({0})) / sqrt(var({0}) + eps) * {1}",
        True,
        ("weight", "bias"),
        1e-5,
        lambda F, n, eps, x, w, *b: F.layer_norm(x, w.shape, w, *(b or (None,)), eps),
    ),
    "RMSNormalization": RowSpelling(
        _rms_norm,
        "{0} / sqrt(mean({0} * {0}) + eps) * {1}",
        True,
        ("weight",),
        1e-5,
        lambda F, n, eps, x, w: F.rms_norm(x, w.shape, w, eps),
    ),
    "GroupNormalization": RowSpelling(
        _layer_norm,
        "({0} - mean({0})) / sqrt(var({0}) + eps) * {1}",
        True,
        ("weight", "bias"),
        1e-5,
        lambda F, n, eps, x, w, b: F.group_norm(x, channel_groups(n), w, b, eps),
    ),
    "InstanceNormalization": RowSpelling(
        _layer_norm,
        "({0} - mean({0})) / sqrt(var({0}) + eps) * {1}",
        True,
        ("weight", "bias"),
        1e-5,
        lambda F, n, eps, x, w, b: F.instance_norm(x, weight=w, bias=b, eps=eps),
    ),
    "Softmax": RowSpelling(_softmax, "exp({0}) / sum(exp({0}))", True),
    "LogSoftmax": RowSpelling(_log_softmax, "{0} - log(sum(exp({0})))", True),
    "ReduceSum": RowSpelling(lambda row, n, x: row.sum(x), "sum({0})", False),
    "ReduceMean": RowSpelling(
        lambda row, n, x: row.sum(x) / row.count, "mean({0})", False
    ),
    "ReduceMax": RowSpelling(lambda row, n, x: row.max(x), "max({0})", False),
    "ReduceMin": RowSpelling(lambda row, n, x: row.min(x), "min({0})", False),
    "ReduceSumSquare": RowSpelling(
        lambda row, n, x: row.sum(x * x), "sum({0} * {0})", False
    ),
    "ArgMax": RowSpelling(_argmax, "argmax({0})", False),
    "ArgMin": RowSpelling(_argmax, "argmin({0})", False),
    "TopK": RowSpelling(_top_k, "topk({0})", False),
    "ReduceL2": RowSpelling(
        lambda row, n, x: row.tl.sqrt(row.sum(x * x)), "sqrt(sum({0} * {0}))", False
    ),
}


def whole_rows(node: ir.Node) -> RowSpelling | None:
    """How a row is reduced or normalised; None for other operators."""
    found = ROWS.get(node.op_type) if node.domain in ("", "ai.onnx") else None
    types = {v.dtype for v in node.inputs[:1] if v is not None}
    return found if types <= FLOATS else None


def is_channel_norm(node: ir.Node) -> bool:
    """Whether channels are normalised together with what lies behind them."""
    return node.op_type in ("GroupNormalization", "InstanceNormalization")


def channel_groups(n: NodeView) -> int:
    """Into how many groups a norm divides the channels, which it normalises apart."""
    each = n.node.op_type == "InstanceNormalization"
    return n.size(0, 1, "number of channels") if each else int(n.attr("num_groups"))


def reduced_axes(n: NodeView) -> list[int] | None:
    """The axes, from 0, that a row has; None where they follow at run time."""
    rank = n.shapes.rank(n.value(0))
    if not rank or is_channel_norm(n.node):
        return None
    if n.node.op_type.endswith("Normalization"):
        return list(range(int(n.attr("axis", -1)) % rank, rank))
    if n.node.op_type in ("Softmax", "LogSoftmax"):
        return [int(n.attr("axis", -1)) % rank]
    if n.node.op_type in ("ArgMax", "ArgMin", "TopK"):
        default = -1 if n.node.op_type == "TopK" else 0
        return [int(n.attr("axis", default)) % rank]
    if n.has(1):
        axes = n.const(1)
        if axes is None:
            return None
        return sorted({int(a) % rank for a in axes.reshape(-1)}) or None
    return None if n.attr("noop_with_empty_axes", 0) else list(range(rank))


def trailing_axes(n: NodeView) -> int | None:
    """How many axes, from the last, a row has; None if others are reduced."""
    rank, axes = n.shapes.rank(n.value(0)), reduced_axes(n)
    if rank is None or not axes or axes != list(range(rank - len(axes), rank)):
        return None
    return len(axes)
