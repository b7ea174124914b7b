"""Elements of integer and truth tensors of any size, as functions of their place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from ..graph.constants import stored
from ..graph.dims import Dim, Dims
from ..graph.shape_facts import ShapeFacts
from ..ops import lookup
from ..ops.facts.index_functions import (
    Count,
    Found,
    IndexFacts,
    Natural,
    Rows,
    aligned,
    constant,
    moved,
)

_STORED = 1 << 16  # elements of a constant that are looked at, at most
_FLOATS = {ir.DataType[x] for x in ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")}
_AXES = 8  # that places are given along, at most
_MOST_EXACT = 1 << 8  # whole number that floats of any type hold
DEPTH = 64  # operators between a tensor and the sizes that it comes from


class Places:
    """What is known so of the values of a graph. A value's elements never change."""

    def __init__(self, shapes: ShapeFacts) -> None:
        self.shapes = shapes
        self._known: dict[ir.Value, Found] = {}
        self._depth = 0

    def of(self, value: ir.Value | None) -> Found:
        """None if nothing is known."""
        if value is None or not (_is_whole(value) or value.dtype in _FLOATS):
            return None
        if value not in self._known:
            if self._depth == DEPTH:
                return None  # not remembered: from nearer by there may be more to say
            self._depth += 1
            found = self._found(value)
            self._known[value] = found if _is_whole(value) else _exact(found)
            self._depth -= 1
        return self._known[value]

    def _found(self, value: ir.Value) -> Found:
        dims, node = self.shapes.dims(value), value.producer()
        if dims is None:
            return None
        content = self.shapes.content(value)
        if content is not None and content.size and len(set(content.flat)) == 1:
            element = content.flat[0]
            return element if isinstance(element, bool) else constant(element, dims)
        if node is None:
            return _counted(stored(value))
        if node.domain or len(node.outputs) != 1:
            return None
        op = lookup(node)
        if op is None or op.by_index is None:
            return None
        return _along(op.by_index(IndexFacts(node, self.shapes, self.of)), dims)

    def aligned(self, value: ir.Value | None, out: Dims) -> Found:
        """The element as a function of the place in what `value` is broadcast to."""
        dims = None if value is None else self.shapes.dims(value)
        return None if dims is None else aligned(self.of(value), dims, out)

    def step(self, value: ir.Value, axis: int, component: int) -> Dim:
        """By how much the elements grow along an axis, of GatherND's places those of a
        component; 1 where that isn't known."""
        found = self.of(value)
        if isinstance(found, Rows):
            found = found.counts[component]
        return found.steps[axis] if isinstance(found, Count) else 1


def _counted(array: np.ndarray | None) -> Found:
    """Stored whole numbers that grow by a fixed step along each axis, or places."""
    if array is not None and array.dtype.name == "bfloat16":
        array = array.astype(np.float32)  # one of NumPy's own
    if array is None or array.dtype.kind not in "if" or not 0 < array.size <= _STORED:
        return None
    if array.dtype.kind == "f" and not (array.size == 1 and abs(array) <= _MOST_EXACT):
        return None  # of many, they may be trained
    steps = tuple(
        int(np.diff(np.moveaxis(array, k, 0).reshape(n, -1)[:2, 0])[0]) if n > 1 else 0
        for k, n in enumerate(array.shape)
    )
    found = Count(int(array.flat[0]), steps)
    counted = np.full(array.shape, found.first)
    for place, step in zip(np.indices(array.shape), steps, strict=True):
        counted += place * step
    if np.array_equal(array, counted):
        return found
    rank = array.shape[-1] if array.shape else 0
    parts = [_counted(array[..., [k]]) for k in range(rank if 1 < rank <= _AXES else 0)]
    rows = tuple(part for part in parts if isinstance(part, Count))
    return Rows(rows) if rows and len(rows) == rank else None


def _is_whole(value: ir.Value) -> bool:
    """Unsigned numbers are left out: their differences wrap around."""
    return value.dtype in (ir.DataType.BOOL, ir.DataType.INT32, ir.DataType.INT64)


def _exact(found: Found) -> Found:
    """Of floats, whose sums are rounded, one number that none rounds."""
    number = found.first if isinstance(found, Count) and found.is_constant else None
    number = found.number if isinstance(found, Natural) else number
    is_exact = isinstance(number, int) and abs(number) <= _MOST_EXACT
    return found if is_exact else None


def _along(found: Found, dims: Dims) -> Found:
    """Without steps along axes of size 1."""
    if not isinstance(found, Count | Natural):
        return found

    def move(count: Count) -> Count:
        steps = zip(count.steps, dims, strict=True)
        return replace(count, steps=tuple(0 if n == 1 else s for s, n in steps))

    return moved(found, move)
