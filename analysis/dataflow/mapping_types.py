"""DNNFusion's operator classes, and what becomes of two that are fused.

Niu et al., "DNNFusion: Accelerating Deep Neural Networks Execution with Advanced
Operator Fusion", PLDI 2021: the mapping types of Table 2 stand in the operator table,
the pairs of Table 3 stand here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import onnx_ir as ir

from ..graph.dims import Dims, same
from ..graph.shape_facts import ShapeFacts
from ..ops import lookup
from ..ops.facts.sizes_elementwise import broadcast_together
from ..ops.registry import (
    MANY_TO_MANY,
    ONE_TO_MANY,
    ONE_TO_ONE,
    OPAQUE,
    REORGANIZE,
    SHUFFLE,
    MappingType,
)

# Of the inputs' types an operator has the most complex (footnote 1 of the paper).
COMPLEXITY = (ONE_TO_ONE, REORGANIZE, SHUFFLE, ONE_TO_MANY, MANY_TO_MANY, OPAQUE)


class Verdict(Enum):
    """What Table 3 says about fusing a pair: green, yellow, red."""

    FUSE = "fuse"
    PROFILE = "profile"
    BREAK = "break"


@dataclass(frozen=True)
class Cell:
    """A cell of Table 3: the type of the fused operator, and whether to fuse."""

    result: MappingType
    verdict: Verdict


# Row: the first operator; column: the second, in the order of the letters: One-to-One
# (O), One-to-Many (M), Many-to-Many (X), Reorganize (R), Shuffle (S). A cell holds the
# letter of the result, capital where it is green, small where it is yellow; a dash is a
# break.
_ORDER = (ONE_TO_ONE, ONE_TO_MANY, MANY_TO_MANY, REORGANIZE, SHUFFLE)
_LETTERS = dict(zip("OMXRS", _ORDER, strict=True))
_TABLE = """
    O M X R S
    M m - m m
    X x - x x
    R m x R R
    S m x R S
"""
_BROKEN = Cell(OPAQUE, Verdict.BREAK)


def _cells() -> dict[tuple[MappingType, MappingType], Cell]:
    rows = [line.split() for line in _TABLE.split("\n") if line.strip()]
    cells = {}
    for first, row in zip(_ORDER, rows, strict=True):
        for second, letter in zip(_ORDER, row, strict=True):
            verdict = Verdict.FUSE if letter.isupper() else Verdict.PROFILE
            cells[first, second] = (
                _BROKEN if letter == "-" else Cell(_LETTERS[letter.upper()], verdict)
            )
    return cells


CELLS = _cells()


def cell(first: MappingType, second: MappingType) -> Cell:
    """What becomes of `first` and its successor `second`; opaque ones stay alone."""
    return CELLS.get((first, second), _BROKEN)


def mapping_type(node: ir.Node, shapes: ShapeFacts) -> MappingType:
    """The class of a node.

    From the table, but for what the shapes decide: an elementwise operator that
    broadcasts a computed input is One-to-Many. Constants don't count, just as the means
    and variances of a BatchNormalization make it no more than One-to-One. What follows
    from sizes alone, such as Shape and what is computed with that, reads no element of
    any tensor, and so is as simple as an operator can be.
    """
    op = lookup(node)
    if op is None:
        return OPAQUE
    if node.inputs and all(shapes.content(v) is not None for v in node.outputs):
        return ONE_TO_ONE
    training = node.attributes.get("training_mode")
    if node.op_type == "BatchNormalization" and training and training.value:
        return MANY_TO_MANY
    if op.shape is not broadcast_together or len(node.inputs) < 2:
        return op.mapping
    result = shapes.dims(node.outputs[0])
    computed = [v for v in node.inputs if v is not None and v.const_value is None]
    # One-to-Many too where the sizes aren't known well enough to rule it out.
    alike = all(_same_dims(shapes.dims(v), result) for v in computed)
    return op.mapping if alike else most_complex(op.mapping, ONE_TO_MANY)


def most_complex(*types: MappingType) -> MappingType:
    """The type of what has inputs, or parts, of these types."""
    return max(types, key=COMPLEXITY.index)


def _same_dims(a: Dims | None, b: Dims | None) -> bool:
    """Leading axes of size 1 aside."""
    if a is None or b is None:
        return False
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    extra = len(longer) - len(shorter)
    pairs = zip(longer[extra:], shorter, strict=True)
    return all(d == 1 for d in longer[:extra]) and all(
        same(x, y) is True for x, y in pairs
    )
