"""What a graph demands of integers: indices that stay inside their tables.

Read off the graph alone, on any opset and before any rewrite: a value is followed
forward through operators that pass it on unchanged (casts, reshapes, constants added)
to the operators that look something up by it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ...analysis.graph.traversal import all_nodes
from ...analysis.ops import OPS, OpDef, lookup
from ...analysis.ops.facts.requirements import (
    BelowNumber,
    IndexOf,
    PlaceIn,
    Requirement,
)
from ...analysis.ops.facts.sizes_elementwise import broadcast_together, like_input
from ...analysis.ops.registry import REQUIRES
from ...rewrites.adapters.cleanup import constant_tensor

# A size as a graph states it: a number, a symbolic dimension's name, or unknown.
Size = int | str | None

_MOST_REACHES = 2000  # a bound on the work for one value


@dataclass(frozen=True)
class Reach:
    """`node` takes the followed value, plus `offset`, as operand number `index`."""

    node: ir.Node
    index: int
    offset: int


def follow(value: ir.Value) -> Iterator[Reach]:
    """Every operand that `value` arrives at, unchanged but for constants added."""
    seen = {(value, 0)}
    waiting = [(value, 0)]
    while waiting and len(seen) < _MOST_REACHES:
        at, offset = waiting.pop()
        for node, index in at.uses():
            yield Reach(node, index, offset)
            step = _step(node, index)
            for out in node.outputs if step is not None else ():
                state = (out, offset + (step or 0))
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)


def _step(node: ir.Node, index: int) -> int | None:
    """What the node adds to operand `index`; None if it makes something else of it."""
    op = _definition(node)
    if op is not None and op.carries is not None and index in op.carries:
        return 0
    if node.op_type == "Range" and index == 1:
        return -1  # the last number lies below the limit
    if node.op_type in ("Add", "Sub"):
        other, subtracts = node.inputs[1 - index], node.op_type == "Sub"
        added = constant(other)
        if added is None and not subtracts and _counts(other):
            return 0
        if added is None or not added.size or (subtracts and index == 1):
            return None
        step = -added.min() if subtracts else added.max()
        return int(step) if np.isfinite(step) else None
    return None


def _counts(value: ir.Value | None) -> bool:
    """Whether a value is a size, or counts from 0: it lowers nothing it is added to."""
    for _ in range(16):
        node = value.producer() if value is not None else None
        if node is None or node.op_type in ("Shape", "Size"):
            return node is not None
        if node.op_type == "Range":
            first = constant(node.inputs[0])
            return first is not None and bool((first >= 0).all())
        op = _definition(node)
        if op is None or op.carries is None or 0 not in op.carries:
            return False
        value = node.inputs[0]
    return False


def _definition(node: ir.Node) -> OpDef | None:
    """ONNX Runtime's operators are like those of ONNX that took their names."""
    return lookup(node) or OPS.get(("", node.op_type))


def requirement(reach: Reach) -> Requirement | None:
    """What the node requires of the followed value; None for nothing."""
    node = reach.node
    known = REQUIRES.get((node.domain, node.op_type))
    if known is None:
        op = _definition(node)
        known = {} if op is None else op.requires
    return known.get(reach.index)


def constant(value: ir.Value | None) -> np.ndarray | None:
    """The numbers of a small constant: an initializer, or a Constant node's output."""
    found = None if value is None else _tensor(value)
    if found is None or found.size > 64 or found.dtype == ir.DataType.STRING:
        return None
    return found.numpy()


def _tensor(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of an initializer, or of a Constant node's output."""
    node = value.producer()
    if value.const_value is None and node is not None and node.op_type == "Constant":
        return constant_tensor(node, value.name)
    return value.const_value


def index_limits(value: ir.Value) -> list[tuple[int, Size]]:
    """(offset, size) of each table that `value` indexes: value + offset < size."""
    limits = []
    for reach in follow(value):
        sizes = _table_sizes(reach)
        limits += [(reach.offset, size) for size in sizes]
    return limits


def _table_sizes(reach: Reach) -> list[Size]:
    """Sizes that the value must stay below; none if the node looks nothing up by it."""
    node, required = reach.node, requirement(reach)
    if isinstance(required, BelowNumber):
        limit = constant(node.inputs[required.limit])
        return [] if limit is None else [int(limit.reshape(-1)[0])]
    if isinstance(required, PlaceIn):
        batch = node.attributes.get_int("batch_dims", 0)
        depth = size_of(node.inputs[reach.index], -1)
        last = depth if isinstance(depth, int) else 1
        return [size_of(node.inputs[required.table], batch + i) for i in range(last)]
    if isinstance(required, IndexOf) and required.table < len(node.inputs):
        axis = required.axis
        if isinstance(axis, str):
            axis = node.attributes.get_int(axis, 0)
        return [size_of(node.inputs[required.table], axis)]
    return []


def size_of(value: ir.Value | None, axis: int) -> Size:
    """The size of an axis, traced back where the value itself has no shape."""
    for _ in range(16):
        if value is None:
            return None
        tensor = _tensor(value)
        shape = value.shape if tensor is None else ir.Shape(tensor.shape.numpy())
        if shape is not None:
            return _size(shape[axis]) if -len(shape) <= axis < len(shape) else None
        node = value.producer()
        if node is None:
            return None
        if node.op_type == "Transpose":
            perm = node.attributes.get_ints("perm", None)
            axis = -1 - axis if perm is None else perm[axis]
        elif not _keeps_sizes(node):
            return None
        value = node.inputs[0]
    return None


def _keeps_sizes(node: ir.Node) -> bool:
    """Whether the result has the sizes of the first input, whatever else is read."""
    op = lookup(node)
    if op is None:
        return False
    alone = len(node.inputs) == 1 and op.shape is broadcast_together
    return alone or op.shape is like_input


def _size(dim: int | ir.SymbolicDim) -> Size:
    return dim if isinstance(dim, int) else dim.value


def length_limits(graph: ir.Graph) -> dict[str, int]:
    """Symbolic dimension -> its largest size, where it counts the rows of a table.

    Position tables: Shape -> Gather -> Range -> Gather, and Shape -> Gather -> the end
    of a Slice of a constant, which then meets a tensor of the full length.
    """
    limits: dict[str, int] = {}
    for node in all_nodes(graph):
        if node.op_type == "Shape":
            for place, name in enumerate(_dims_read(node)):
                if isinstance(name, str):
                    for size in _longest(node, place):
                        limits[name] = min(size, limits.get(name, size))
    return limits


def _dims_read(shape: ir.Node) -> list[Size]:
    """The sizes that a Shape node outputs, as far as they are known."""
    data = shape.inputs[0]
    if data is None or data.shape is None:
        return []
    start = shape.attributes.get_int("start", 0)
    end = shape.attributes.get_int("end", len(data.shape))
    return [_size(dim) for dim in data.shape[start:end]]


def _picks(shape: ir.Node, place: int) -> Iterator[ir.Value]:
    """The values that hold just the number at `place` of a Shape node's output."""
    if len(_dims_read(shape)) == 1:
        yield shape.outputs[0]
    for node, index in shape.outputs[0].uses():
        if index or node.op_type not in ("Gather", "Slice") or not node.inputs[1:]:
            continue
        first = constant(node.inputs[1])
        if first is None or first.size != 1 or int(first.reshape(-1)[0]) != place:
            continue
        if node.op_type == "Slice":
            end = constant(node.inputs[2])
            if end is None or int(end.reshape(-1)[0]) != place + 1:
                continue
        yield node.outputs[0]


def _longest(shape: ir.Node, place: int) -> Iterator[int]:
    """Sizes that the length at `place` of a Shape node's output must not exceed."""
    for reach in itertools.chain.from_iterable(map(follow, _picks(shape, place))):
        for size in _table_sizes(reach):  # value + offset < size
            if isinstance(size, int):
                yield size - reach.offset - 1
        if reach.node.op_type == "Slice" and reach.index == 2:
            size = _sliced_size(reach.node)
            if size is not None:  # value + offset <= size
                yield size - reach.offset


def _sliced_size(node: ir.Node) -> int | None:
    """The whole size of the one axis on which a Slice node takes part of a constant."""
    axes = constant(node.inputs[3]) if len(node.inputs) > 3 else None
    data = node.inputs[0]
    if axes is None or axes.size != 1 or data is None or _tensor(data) is None:
        return None
    size = size_of(data, int(axes.reshape(-1)[0]))
    return size if isinstance(size, int) else None
