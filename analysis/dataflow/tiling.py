"""How an operator works on its operands row by row, which decides what a fusion costs.

A row is the innermost axis of a result. A tile is what a group works on at a time: one
or more rows, the channels of one or more pixels, or one or more channels of an image.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import onnx_ir as ir

from ..cost.typical_sizes import Sizes
from ..ops.registry import MANY_TO_MANY, ONE_TO_MANY, REORGANIZE, MappingType
from ..shapes.node_facts import ShapeSite


class Tile(Enum):
    """What an operator needs whole of its input for a part of its result."""

    ROW = "row"
    PIXEL = "pixel"
    CHANNEL = "channel"


@dataclass(frozen=True)
class Tiling:
    """How an operator follows its first input: tile by tile, each used up at once.

    `held_bytes` are to be kept on chip meanwhile: the tile, and operands that all tiles
    need.
    """

    tile: Tile
    held_bytes: int


Rule = Callable[[ShapeSite, Sizes], Tiling | None]
_RULES: dict[str, Rule] = {}


def repeats(node: ir.Node, mapping: MappingType, sizes: Sizes) -> int:
    """How many rows of the result need the same row of a computed operand.

    1 too where a single element is spread over the innermost axes: it stays at hand.
    """
    result = sizes.dims(node.outputs[0])
    if mapping is not ONE_TO_MANY or result is None:
        return 1
    return max((_repeats(dims, result) for dims in _computed(node, sizes)), default=1)


def _computed(node: ir.Node, sizes: Sizes) -> list[tuple[int, ...]]:
    computed = (v for v in node.inputs if v is not None and v.const_value is None)
    return [dims for v in computed if (dims := sizes.dims(v)) is not None]


def _repeats(dims: tuple[int, ...], result: tuple[int, ...]) -> int:
    if len(dims) > len(result):
        return 1
    padded = (1,) * (len(result) - len(dims)) + dims
    inner = len(result)
    while inner and padded[inner - 1] == 1:
        inner -= 1
    before, after = math.prod(padded[:inner]), math.prod(result[:inner])
    return max(1, after // before) if before else 1


def keeps_rows(node: ir.Node, mapping: MappingType, sizes: Sizes) -> bool:
    """Whether rows stay whole and in their order: a reshaping of the other axes."""
    if mapping is not REORGANIZE or node.inputs[0] is None:
        return False
    before, after = sizes.dims(node.inputs[0]), sizes.dims(node.outputs[0])
    return bool(before and after and before[-1] == after[-1])


def tiling(node: ir.Node, mapping: MappingType, sizes: Sizes) -> Tiling | None:
    """How a Many-to-Many operator can follow its first input.

    None where a part of the input would be needed for several tiles, and where that is
    not known.
    """
    rule = _RULES.get(node.op_type)
    if mapping is not MANY_TO_MANY or node.domain or rule is None:
        return None
    return rule(ShapeSite(node, sizes.shapes), sizes)


def _rule(*ops: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(ops, function))
        return function

    return register


def _innermost(site: ShapeSite, sizes: Sizes, axes: int) -> int | None:
    """The bytes of the innermost axes of the first input."""
    value = site.input(0)
    dims = None if value is None else sizes.dims(value)
    if value is None or dims is None or axes > len(dims):
        return None
    return sizes.bytes(value, dims[len(dims) - axes :])


def _whole(tile: Tile, held: int | None) -> Tiling | None:
    return None if held is None else Tiling(tile, held)


@_rule("AveragePool", "LpPool", "MaxPool")
def _pool(site: ShapeSite, sizes: Sizes) -> Tiling | None:
    """Windows that don't overlap; the rows under one."""
    kernel = list(site.attr("kernel_shape", ()))
    strides = list(site.attr("strides", [1] * len(kernel)))
    if any(d != 1 for d in site.attr("dilations", ())) or len(site.node.outputs) > 1:
        return None
    if not kernel or any(s < k for s, k in zip(strides, kernel, strict=True)):
        return None
    row = _innermost(site, sizes, 1)
    rows = None if row is None else row * math.prod(kernel[:-1])
    return _whole(Tile.CHANNEL, rows)


@_rule("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool")
def _global_pool(site: ShapeSite, sizes: Sizes) -> Tiling | None:
    rank = len(site.dims(0) or ())
    return _whole(Tile.CHANNEL, _innermost(site, sizes, max(rank - 2, 0)))


@_rule("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
@_rule("LayerNormalization", "RMSNormalization")
def _normalise(site: ShapeSite, sizes: Sizes) -> Tiling | None:
    """Over the innermost axis alone."""
    axis, dims = int(site.attr("axis", -1)), site.dims(0)
    if dims is None or axis not in (-1, len(dims) - 1):
        return None
    return _whole(Tile.ROW, _innermost(site, sizes, 1))


@_rule(
    *"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean".split(),
    *"ReduceMin ReduceProd ReduceSum ReduceSumSquare".split(),
)
def _reduce(site: ShapeSite, sizes: Sizes) -> Tiling | None:
    """Over the innermost axis, or all axes of an image."""
    dims = site.dims(0)
    axes = None if dims is None else site.axes(1, len(dims))
    if dims is None or not axes or not site.attr("keepdims", 1):
        return None
    if sorted(axes) == [len(dims) - 1]:
        return _whole(Tile.ROW, _innermost(site, sizes, 1))
    if len(dims) > 3 and sorted(axes) == list(range(2, len(dims))):
        return _whole(Tile.CHANNEL, _innermost(site, sizes, len(axes)))
    return None


@_rule("Conv")
def _conv(site: ShapeSite, sizes: Sizes) -> Tiling | None:
    """1x1: its weights and one row of all channels; depthwise: one whole channel."""
    weight, dims = site.input(1), site.dims(0)
    kernel = None if weight is None else sizes.dims(weight)
    if weight is None or kernel is None or dims is None or len(dims) != len(kernel):
        return None
    channels = sizes.number(dims[1])
    if kernel[1] == 1 and site.attr("group", 1) == channels:
        return _whole(Tile.CHANNEL, _innermost(site, sizes, len(dims) - 2))
    row = _innermost(site, sizes, 1)
    pointwise = all(n == 1 for n in (*kernel[2:], *site.attr("strides", ())))
    if not pointwise or any(site.attr("pads", ())) or row is None:
        return None
    return Tiling(Tile.PIXEL, sizes.bytes(weight) + channels * row)


@_rule("MatMul", "Gemm")
def _matmul(site: ShapeSite, sizes: Sizes) -> Tiling | None:
    """The right operand's matrix and one row of the left one."""
    left, right = site.input(0), site.input(1)
    dims = None if right is None else sizes.dims(right)
    if left is None or right is None or dims is None or len(dims) < 2:
        return None
    row = None if site.attr("transA", 0) else _innermost(site, sizes, 1)
    matrix = sizes.bytes(right, dims[-2:])
    return None if row is None else Tiling(Tile.ROW, row + matrix)
