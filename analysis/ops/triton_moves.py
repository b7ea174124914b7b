"""Operators that only move elements, as arithmetic on indices: nothing is copied.

An element of the result is one of an operand: where, follows from its own indices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

import onnx_ir as ir

from .table import NodeView


@dataclass(frozen=True)
class Place:
    """An index of an operand: `step` times that of the result's `axis`, and `shift`."""

    axis: int
    step: int = 1
    shift: int = 0

    def after(self, other: Place) -> Place:
        """This of the index that `other` gives."""
        shift = self.step * other.shift + self.shift
        return Place(other.axis, self.step * other.step, shift)


@dataclass(frozen=True)
class Piece:
    """What of an operand is taken, for indices of `axis` from `low` to below `high`.

    Axes are counted from 0; -1 stands for a piece that is the whole result.
    """

    operand: int
    places: tuple[Place, ...]
    axis: int = -1
    low: int = 0
    high: int = 0


Moves: TypeAlias = Callable[[NodeView, int], list[Piece]]


def _identity(rank: int) -> list[Place]:
    return [Place(axis) for axis in range(rank)]


def _split(n: NodeView, output: int) -> list[Piece]:
    rank = n.rank(0)
    axis = int(n.attr("axis", 0)) % rank
    sizes = [_static(n, n.shapes.dims(v), axis) for v in n.node.outputs]
    places = _identity(rank)
    places[axis] = Place(axis, 1, sum(sizes[:output]))
    return [Piece(0, tuple(places))]


def _slice(n: NodeView, output: int) -> list[Piece]:
    rank = n.rank(0)
    starts, ends = n.known_ints(1, "starts"), n.known_ints(2, "ends")
    axes = n.known_ints(3, "axes") if n.has(3) else list(range(len(starts)))
    steps = n.known_ints(4, "steps") if n.has(4) else [1] * len(starts)
    places = _identity(rank)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = _static(n, n.dims(0), axis % rank)
        first, _, stride = slice(start, end, step).indices(size)
        places[axis % rank] = Place(axis % rank, stride, first)
    return [Piece(0, tuple(places))]


def _concat(n: NodeView, output: int) -> list[Piece]:
    rank = n.rank(0)
    axis = int(n.attr("axis")) % rank
    sizes = [_static(n, n.dims(i), axis) for i in range(n.arity)]
    pieces = []
    for i, high in enumerate(accumulate(sizes)):
        places, low = _identity(rank), high - sizes[i]
        places[axis] = Place(axis, 1, -low)
        pieces.append(Piece(i, tuple(places), axis, low, high))
    return pieces


def _transpose(n: NodeView, output: int) -> list[Piece]:
    rank = n.rank(0)
    order = n.attr("perm") or list(range(rank))[::-1]
    places = {int(source): Place(axis) for axis, source in enumerate(order)}
    return [Piece(0, tuple(places[axis] for axis in range(rank)))]


def _static(n: NodeView, dims: tuple[object, ...] | None, axis: int) -> int:
    size = None if dims is None else dims[axis]
    if not isinstance(size, int):
        n.refuse(f"{n.node.op_type} along a size known at run time, in a kernel")
    return size


MOVES: dict[str, Moves] = {
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
}


def moves(node: ir.Node) -> Moves | None:
    """How the operator moves elements; None if it computes something."""
    return MOVES.get(node.op_type) if node.domain in ("", "ai.onnx") else None


def moved_axes(pieces: list[Piece]) -> set[int]:
    """The axes, from 0, along which a result isn't its operand."""
    found = {p.axis for p in pieces if p.axis >= 0}
    for piece in pieces:
        for axis, place in enumerate(piece.places):
            if place != Place(axis):
                found |= {axis, place.axis}
    return found
