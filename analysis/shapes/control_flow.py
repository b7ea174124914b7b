"""Sizes inside the bodies of Loop, Scan and SequenceMap, and of what they give.

A state has in each iteration the sizes that the one before left. It is taken to keep
its sizes; where the body's end shows that it does not, the size becomes a symbol of
its own, and the body is gone through again. That takes knowledge away, so it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np
import onnx_ir as ir
import sympy

from ..graph.dims import Dim, invented, same
from ..graph.shape_facts import NodeFacts, PartialDims, ShapeFacts


class _Walk(Protocol):
    """What going through a body needs of the walk through the model."""

    shapes: ShapeFacts

    def begin(self, value: ir.Value, dims: PartialDims | None) -> None:
        """Settle an input of a body."""

    def attempt(self, body: ir.Graph) -> bool:
        """Go through a body's nodes; False if some of them can't fit."""

    def declared_sizes(self, value: ir.Value) -> list[int]:
        """The sizes that onnx and the file know, 0 for the others."""

    def forget(self, body: ir.Graph) -> Callable[[], None]:
        """Note how things stand; the result brings them back."""

    # What is known not to hold in a body stays so when a body around it is gone
    # through again: or the work would grow with every level.
    state_sizes: dict[ir.Graph, list[PartialDims | None]]


def _loop(walk: _Walk, site: NodeFacts, body: ir.Graph) -> list[PartialDims | None]:
    """Sizes of a Loop's results: carried values as they stay, then what is stacked."""
    outside = walk.shapes.anchored()
    count = len(body.inputs) - 2
    initial = [_sizes(site, 2 + k, body.inputs[2 + k]) for k in range(count)]

    def begin() -> None:
        for value, kind in zip(
            body.inputs[:2], ("iteration", "condition"), strict=False
        ):
            rank = len(value.shape or ())  # a file may declare [1]
            walk.begin(value, [1] * rank)
            if kind == "iteration":
                number = invented(value.name or "i")
                walk.shapes.learn_elements(value, np.full([1] * rank, number, object))

    states = body.outputs[1 : 1 + count]
    settled = _settle(walk, body, begin, body.inputs[2:], states, initial)
    if _runs(site):  # what a state begins with isn't what the loop leaves
        settled = [walk.shapes.dims(value) for value in states]
    found: list[PartialDims | None] = [_outside(dims, outside) for dims in settled]
    trips = _trips(site, body)
    for value in body.outputs[1 + count :]:
        walk.shapes.declared_sizes[value] = walk.declared_sizes(value)
        dims = _outside(walk.shapes.dims(value), outside)
        found.append(None if dims is None else [trips, *dims])
    return found


def _runs(site: NodeFacts) -> bool:
    """Whether a Loop is known to run once at least."""
    first, numbers = site.input(1), site.numbers(0)
    count = numbers[0] if numbers else None
    counted = site.input(0) is None or (isinstance(count, int) and count > 0)
    return counted and (first is None or _is_true(first))


def _trips(site: NodeFacts, body: ir.Graph) -> Dim | None:
    """How often a Loop runs, where its condition never ends it."""
    numbers = site.numbers(0)
    first, going = site.input(1), body.outputs[0]
    node = going.producer()
    if node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        going = node.inputs[0]
    ends = going is not body.inputs[1] and not _is_true(going)
    if not numbers or ends or not (first is None or _is_true(first)):
        return None
    number = numbers[0]
    if isinstance(number, int):
        return max(number, 0)
    return number if isinstance(number, sympy.Symbol) else None


def _is_true(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.size == 1 and bool(tensor.numpy().all())


def _scan(walk: _Walk, site: NodeFacts, body: ir.Graph) -> list[PartialDims | None]:
    """Sizes of a Scan's results: states as they stay, then what is stacked."""
    outside = walk.shapes.anchored()
    scanned = site.attr("num_scan_inputs")
    count = len(body.inputs) - scanned
    initial = [_sizes(site, k, body.inputs[k]) for k in range(count)]
    axes = site.attr("scan_input_axes") or [0] * scanned
    rows = [site.dims(count + k) for k in range(scanned)]
    length: Dim | None = None

    def begin() -> None:
        nonlocal length
        for value, dims, axis in zip(body.inputs[count:], rows, axes, strict=True):
            if dims is None:
                walk.begin(value, None)
                continue
            length = dims[axis] if length is None else length
            at = axis % len(dims)
            walk.begin(value, [*dims[:at], *dims[at + 1 :]])

    states = body.outputs[:count]
    settled = _settle(walk, body, begin, body.inputs[:count], states, initial)
    found: list[PartialDims | None] = [_outside(dims, outside) for dims in settled]
    items = body.outputs[count:]
    axes = site.attr("scan_output_axes") or [0] * len(items)
    for value, axis in zip(items, axes, strict=True):
        walk.shapes.declared_sizes[value] = walk.declared_sizes(value)
        dims = _outside(walk.shapes.dims(value), outside)
        if dims is not None:
            dims.insert(axis % (len(dims) + 1), length)
        found.append(dims)
    return found


def _sequence_map(
    walk: _Walk, site: NodeFacts, body: ir.Graph
) -> list[PartialDims | None]:
    for i, value in enumerate(body.inputs):
        walk.begin(value, _sizes(site, i, value))
    walk.attempt(body)
    return []


BODIES = {"Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}


def _sizes(site: NodeFacts, index: int, value: ir.Value) -> PartialDims | None:
    """Sizes of what a body is given; no more than their number if the body tells it."""
    dims = site.dims(index)
    if dims is None:
        return None if value.shape is None else [None] * len(value.shape)
    return list(dims)


def _settle(
    walk: _Walk,
    body: ir.Graph,
    begin: Callable[[], None],
    inputs: Sequence[ir.Value],
    outputs: Sequence[ir.Value],
    sizes: list[PartialDims | None],
) -> list[PartialDims | None]:
    """Sizes of the states that hold before, in and after every iteration."""
    undo = walk.forget(body)
    known = walk.state_sizes.get(body, sizes)
    sizes = [_weaker(a, b) for a, b in zip(sizes, known, strict=True)]
    while True:
        begin()
        for value, dims in zip(inputs, sizes, strict=True):
            walk.begin(value, dims)
        fits = walk.attempt(body)
        weaker = [
            _weaker(dims, walk.shapes.dims(value))
            for dims, value in zip(sizes, outputs, strict=True)
        ]
        if not fits:  # perhaps for a size that does change: assume less, step by step
            unsure = any(d is not None for dims in sizes for d in dims or ())
            weaker = [[None] * len(d) if d and unsure else None for d in sizes]
        walk.state_sizes[body] = weaker
        if weaker == sizes:
            found = (walk.shapes.dims(value) for value in inputs)
            return [None if dims is None else list(dims) for dims in found]
        sizes = weaker
        undo()


def _weaker(
    assumed: PartialDims | None, ends: PartialDims | None
) -> PartialDims | None:
    """What was assumed of a state, less what its next value does not keep."""
    if assumed is None or ends is None or len(ends) != len(assumed):
        return None
    return [
        d if d is not None and end is not None and same(d, end) else None
        for d, end in zip(assumed, ends, strict=True)
    ]


def _outside(
    dims: Iterable[Dim | None] | None, outside: frozenset[sympy.Symbol]
) -> list[Dim | None] | None:
    """Sizes in symbols that are known around the body; None for the others."""
    if dims is None:
        return None
    return [
        (
            d
            if isinstance(d, int) or (d is not None and d.free_symbols <= outside)
            else None
        )
        for d in dims
    ]
