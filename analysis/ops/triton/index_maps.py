"""Operators that only move elements, as arithmetic on indices: nothing is copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from ...graph.dims import Dim, Dims, same
from ...graph.shape_facts import NodeFacts
from ..facts.index_maps import Formula, Piece, Place, Where, axes_of, unmoved
from ..node_view import NodeView
from ..onnx.resize import ROUND, onnx_places, targets_of
from ..registry import lookup
from .elementwise import KernelOp


def _pieces(n: NodeView, output: int) -> list[Piece]:
    """As the OpDef has them, where all is known that a kernel has to be told."""
    op, made = lookup(n.node), n.shapes.dims(n.node.outputs[output])
    rule = None if op is None else op.index_map
    results = NodeFacts(n.node, n.shapes).ask(rule) if rule and made else None
    found = list(results[output].pieces) if results else []
    for piece in found:
        places = zip(n.dims(piece.operand), piece.places, strict=True)
        known = (_is_known(at, size, made or (), piece) for size, at in places)
        if not piece.is_told or not all(known):
            n.refuse(f"{n.node.op_type} along a size known at run time, in a kernel")
    return found or n.refuse(f"{n.node.op_type} as run time says, in a kernel")


def _is_known(place: Where, size: Dim, made: Dims, piece: Piece) -> bool:
    """Whether elements stay along an axis, or its sizes are numbers."""
    if not isinstance(place, Place) or not place.step:
        return True
    cut, axis = {bound[0] for bound in piece.bounds}, place.axis
    kept = bool(cut) and axis not in cut
    if place == Place(axis) and (kept or same(size, made[axis]) is True):
        return True
    return isinstance(size, int) and isinstance(made[axis], int)


@dataclass(frozen=True)
class Moves(KernelOp):
    """`pieces(n, i)` are what result i of an operator is put together from."""

    pieces: Callable[[NodeView, int], list[Piece]] = _pieces


def _concat(n: NodeView, output: int) -> list[Piece]:
    pieces = _pieces(n, output)
    if len({n.value(i) for i in range(n.arity)}) == 1 < n.arity:  # of one, again
        axis = int(n.attr("axis")) % n.rank(0)
        whole = unmoved(n.rank(0))
        whole[axis] = Formula(f"{{}} % {n.dims(0)[axis]}", Place(axis))
        return [Piece(0, tuple(whole))]
    return pieces


def _pad(n: NodeView, output: int) -> list[Piece]:
    (piece,) = _pieces(n, output)
    fill = n.const(2) if n.has(2) else np.zeros(1, n.dtype(0).numpy())
    if fill is None:
        n.refuse("Pad with a value of run time, in a kernel")
    return [replace(piece, fill=fill.reshape(-1)[0] if piece.bounds else None)]


def _expand(n: NodeView, output: int) -> list[Piece]:
    return [Piece(0, tuple(unmoved(len(n.out_dims()))))]


def _resize(n: NodeView, output: int) -> list[Piece]:
    """To the nearest, by a whole factor: each element is one of the operand's."""
    targets = targets_of(n)
    if n.attr("mode", "nearest") != "nearest" or targets is None:
        n.refuse("Resize in another mode than nearest in a kernel")
    places = unmoved(n.rank(0))
    for target in targets:
        for axis in (target.old, target.new):
            if not isinstance(axis, int) or not axis:
                n.refuse("Resize of a size known at run time, in a kernel")
        ((old, new, scale),) = target.samples()
        coordinates = n.attr("coordinate_transformation_mode", "half_pixel")
        rounded = ROUND[n.attr("nearest_mode", "round_prefer_floor")]
        read = rounded(onnx_places(coordinates, old, new, scale)).clip(0, old - 1)
        factor = new // old
        if not factor or (read != np.arange(new) // factor).any():
            n.refuse("Resize that doesn't repeat each element as often, in a kernel")
        places[target.axis] = Formula(f"{{}} // {factor}", Place(target.axis))
    return [Piece(0, tuple(places))]


RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
MOVES: dict[str, Moves] = {
    "Concat": Moves(result="joined", pieces=_concat),
    "DepthToSpace": Moves(result="pixels", word="depth_to_space"),
    "Expand": Moves(result="repeated", pieces=_expand),
    "Pad": Moves(result="padded", pieces=_pad),
    "Resize": Moves(result="resized", pieces=_resize),
    "Slice": Moves(result="part"),
    "SpaceToDepth": Moves(result="blocks", word="space_to_depth"),
    "Split": Moves(result="part"),
    "Tile": Moves(result="repeated"),
    "Transpose": Moves(result="turned"),
    **dict.fromkeys(RESHAPES, Moves()),
}


def moves(node: ir.Node) -> Moves | None:
    """How the operator moves elements; None if it computes something."""
    return MOVES.get(node.op_type) if node.domain in ("", "ai.onnx") else None


def moved_axes(pieces: list[Piece]) -> set[int]:
    """The axes, from 0, along which a result isn't its operand."""
    found = {axis for piece in pieces for axis, _, _ in piece.bounds}
    for piece in pieces:
        for axis, place in enumerate(piece.places):
            if place != Place(axis):
                found |= {axis, *axes_of(place)}
    return found
