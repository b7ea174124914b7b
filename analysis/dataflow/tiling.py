"""How an operator works on its operands row by row, which decides what a fusion costs.

Rows and tiles are explained in ops/facts/tiles.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import onnx_ir as ir

from ..cost.typical_sizes import Sizes
from ..graph.shape_facts import NodeFacts
from ..ops import lookup
from ..ops.facts.tiles import Tile
from ..ops.registry import MANY_TO_MANY, ONE_TO_MANY, REORGANIZE, MappingType


@dataclass(frozen=True)
class Tiling:
    """How an operator follows its first input: tile by tile, each used up at once.

    `held_bytes` are to be kept on chip meanwhile: the tile, and operands that all tiles
    need.
    """

    tile: Tile
    held_bytes: int


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
    op = lookup(node)
    if mapping is not MANY_TO_MANY or op is None or op.tile is None:
        return None
    needs = NodeFacts(node, sizes.shapes).ask(op.tile)
    if needs is None:
        return None
    parts = [(node.inputs[i], map(sizes.number, dims)) for i, dims in needs.held]
    held = sum(sizes.bytes(value, dims) for value, dims in parts if value is not None)
    return Tiling(needs.tile, held)
