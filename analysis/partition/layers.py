"""A layer that holds a matrix, and the ways in which several devices may share it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import onnx_ir as ir


class Way(Enum):
    """What each device holds of a layer's matrix.

    COLUMNS computes some of the outputs, which stay where they are; ROWS takes some of
    the inputs, and the results are added up; GATHERED is COLUMNS whose outputs are
    gathered at once; VOCABULARY are some rows of a table, whose results are added up.
    ALONG are some of what lies one behind another in a tensor, as experts do.
    """

    WHOLE = "whole"
    COLUMNS = "columns"
    ROWS = "rows"
    GATHERED = "gathered"
    VOCABULARY = "vocabulary"
    ALONG = "along"

    @property
    def exchange(self) -> str:
        """The collective behind the layer; "" where there is none."""
        sums = (Way.ROWS, Way.VOCABULARY)
        return "gather" if self is Way.GATHERED else "sum" if self in sums else ""


@dataclass(frozen=True, eq=False)
class Layer:
    """A linear layer, a table if `looks_up`, or a tensor to be cut along an axis.

    `rows` inputs, or words, become `columns` outputs; `weight_bytes` are those of the
    matrix, `bias_bytes` of the rest; `nodes` of the graph are its work, in
    their order. A tensor is its own result; its work is that of its region.
    """

    path: str
    source: ir.Value
    result: ir.Value
    rows: int
    columns: int
    weight_bytes: int
    bias_bytes: int
    nodes: tuple[ir.Node, ...]
    looks_up: bool = False
    key: str = ""  # under which the matrix is stored, where others share it
    matrix: str = ""  # its name in the graph
    along: int | None = None  # which axis a tensor may be cut along

    @property
    def stored(self) -> str:
        """Equal for layers of one matrix."""
        return self.key or self.path

    @property
    def ways(self) -> tuple[Way, ...]:
        """How it may be shared whatever its neighbours do."""
        if self.along is not None:
            return (Way.WHOLE,)
        return Way.WHOLE, Way.VOCABULARY if self.looks_up else Way.GATHERED

    def held(self, way: Way, degree: int) -> int:
        """Bytes that each of `degree` devices holds of it."""
        if way is Way.WHOLE:
            return self.weight_bytes + self.bias_bytes
        shared = way in (Way.COLUMNS, Way.GATHERED)
        bias = self.bias_bytes // degree if shared else self.bias_bytes
        return self.weight_bytes // degree + bias


def folded(path: str) -> str:
    """The path with a * for each number: the same for a block and its copies."""
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)


def fold(layers: Iterable[Layer]) -> tuple[tuple[str, int, int], ...]:
    """Equal for what is done alike in a block and in its copies."""
    return tuple(sorted((folded(x.path), x.rows, x.columns) for x in layers))
