"""Operators over whole rows as Triton spells them, and which axes a row has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import onnx_ir as ir

from ...spelling.expr import Expr
from ..helpers import triton as helpers_triton
from ..node_view import NodeView
from .elementwise import FLOATS, KernelOp


class _Row(Protocol):
    """A row on chip; lanes past its end may hold anything, unless it is `zeroed`.

    `max` may miss NaN, which `largest` and `smallest` give where there is one.
    """

    tl: Any
    count: Expr  # of elements
    eps: Expr

    def let(self, name: str, value: Expr, zeroed: bool = False) -> Expr: ...
    def sum(self, x: Expr) -> Expr: ...
    def max(self, x: Expr) -> Expr: ...
    def largest(self, x: Expr) -> Expr: ...
    def smallest(self, x: Expr) -> Expr: ...
    def prod(self, x: Expr) -> Expr: ...
    def cumsum(self, x: Expr, **options: bool) -> Expr: ...
    def argmax(self, order: Expr) -> Expr: ...


@dataclass(frozen=True)
class RowSpelling(KernelOp):
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


def _layer_norm(row: _Row, n: NodeView, x: Any, weight: Any, bias: Any = None) -> Any:
    mean = row.let("mean", row.sum(x) / row.count)
    centred = row.let("centred", x - mean, zeroed=True)
    variance = row.let("variance", row.sum(centred * centred) / row.count)
    y = centred * row.tl.rsqrt(variance + row.eps) * weight
    return y if bias is None else y + bias


def _rms_norm(row: _Row, n: NodeView, x: Any, weight: Any) -> Any:
    mean_square = row.let("mean_square", row.sum(x * x) / row.count)
    return x * row.tl.rsqrt(mean_square + row.eps) * weight


def _softmax(row: _Row, n: NodeView, x: Any) -> Any:
    # The largest exponent is 0, so nothing overflows; NaN gets into the sum.
    powers = row.let("powers", row.tl.exp(x - row.max(x)), zeroed=True)
    return powers / row.sum(powers)


def _log_softmax(row: _Row, n: NodeView, x: Any) -> Any:
    shifted = row.let("shifted", x - row.max(x))
    return shifted - row.tl.log(row.sum(row.tl.exp(shifted)))


def _log_sum_exp(row: _Row, n: NodeView, x: Any) -> Any:
    # Shifted as in a softmax, but for what infinity less itself would be.
    shift = row.let("shift", row.tl.helper(helpers_triton.finite)(row.max(x)))
    return shift + row.tl.log(row.sum(row.tl.exp(x - shift)))


def _cumsum(row: _Row, n: NodeView, x: Any) -> Any:
    if n.attr("exclusive", 0):
        n.refuse("CumSum without the element itself in a kernel")
    return row.cumsum(x, **({"reverse": True} if n.attr("reverse", 0) else {}))


def _argmax(row: _Row, n: NodeView, x: Any) -> Any:
    """The first of equals."""
    if n.attr("select_last_index", 0):
        n.refuse(f"{n.node.op_type} of the last of equals in a kernel")
    x = x if n.node.op_type == "ArgMax" else -x
    return row.argmax(row.let("order", row.tl.helper(helpers_triton.order_of)(x)))


MOST_LARGEST = 16  # of a row, which are found one after another


def _top_k(row: _Row, n: NodeView, x: Any) -> Any:
    """What the places are found by; they are stored as they are found."""
    order = row.tl.helper(helpers_triton.order_of)(x)
    return row.let("order", order if n.attr("largest", 1) else ~order)


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
        word="layer_norm",
    ),
    "RMSNormalization": RowSpelling(
        _rms_norm,
        "{0} / sqrt(mean({0} * {0}) + eps) * {1}",
        True,
        ("weight",),
        1e-5,
        lambda F, n, eps, x, w: F.rms_norm(x, w.shape, w, eps),
        word="rms_norm",
    ),
    "GroupNormalization": RowSpelling(
        _layer_norm,
        "({0} - mean({0})) / sqrt(var({0}) + eps) * {1}",
        True,
        ("weight", "bias"),
        1e-5,
        lambda F, n, eps, x, w, b: F.group_norm(x, channel_groups(n), w, b, eps),
        word="group_norm",
    ),
    "InstanceNormalization": RowSpelling(
        _layer_norm,
        "({0} - mean({0})) / sqrt(var({0}) + eps) * {1}",
        True,
        ("weight", "bias"),
        1e-5,
        lambda F, n, eps, x, w, b: F.instance_norm(x, weight=w, bias=b, eps=eps),
        word="instance_norm",
    ),
    "Softmax": RowSpelling(_softmax, "exp({0}) / sum(exp({0}))", True, result="probs"),
    "LogSoftmax": RowSpelling(
        _log_softmax, "{0} - log(sum(exp({0})))", True, word="log_softmax"
    ),
    "ReduceSum": RowSpelling(
        lambda row, n, x: row.sum(x), "sum({0})", False, result="sums"
    ),
    "ReduceMean": RowSpelling(
        lambda row, n, x: row.sum(x) / row.count, "mean({0})", False, result="mean"
    ),
    "ReduceMax": RowSpelling(
        lambda row, n, x: row.largest(x), "max({0})", False, result="largest"
    ),
    "ReduceMin": RowSpelling(
        lambda row, n, x: row.smallest(x), "min({0})", False, result="smallest"
    ),
    "ReduceProd": RowSpelling(
        lambda row, n, x: row.prod(x), "prod({0})", False, result="product"
    ),
    "ReduceL1": RowSpelling(
        lambda row, n, x: row.sum(row.tl.abs(x)), "sum(abs({0}))", False, result="sums"
    ),
    "ReduceLogSum": RowSpelling(
        lambda row, n, x: row.tl.log(row.sum(x)),
        "log(sum({0}))",
        False,
        result="log_sum",
        word="log_sum",
    ),
    "ReduceLogSumExp": RowSpelling(
        _log_sum_exp, "log(sum(exp({0})))", False, result="log_sum", word="log_sum_exp"
    ),
    "CumSum": RowSpelling(_cumsum, "cumsum({0})", True, result="sums"),
    "ReduceSumSquare": RowSpelling(
        lambda row, n, x: row.sum(x * x),
        "sum({0} * {0})",
        False,
        result="squares",
        word="sum_square",
    ),
    "ArgMax": RowSpelling(
        _argmax,
        "argmax({0})",
        False,
        result="index",
        word="argmax",
        dtype=ir.DataType.INT64,
    ),
    "ArgMin": RowSpelling(
        _argmax,
        "argmin({0})",
        False,
        result="index",
        word="argmin",
        dtype=ir.DataType.INT64,
    ),
    "TopK": RowSpelling(_top_k, "topk({0})", False, result="values", word="top_k"),
    "ReduceL2": RowSpelling(
        lambda row, n, x: row.tl.sqrt(row.sum(x * x)),
        "sqrt(sum({0} * {0}))",
        False,
        result="length",
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
