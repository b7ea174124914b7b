"""Operators that only move elements, as arithmetic on indices: nothing is copied.

An element of the result is one of an operand: where, follows from its own indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import onnx_ir as ir

from ...graph.dims import Dim, same
from ..node_view import NodeView
from ..onnx.resize import ROUND, onnx_places, targets_of
from .elementwise import KernelOp


@dataclass(frozen=True)
class Place:
    """An index of an operand: `step` times that of the result's `axis`, and `shift`."""

    axis: int
    step: int = 1
    shift: int = 0

    def of(self, index: tuple[Where, ...]) -> Where:
        """This where the result's own indices are these."""
        inner = index[self.axis]
        if isinstance(inner, Place):
            shift = self.step * inner.shift + self.shift
            return Place(inner.axis, self.step * inner.step, shift)
        plain = self.step == 1 and self.shift == 0
        return inner if plain else Formula(f"{{}} * {self.step} + {self.shift}", inner)


_IN_PYTHON = SimpleNamespace(minimum=min, maximum=max, abs=abs)


@dataclass(frozen=True, init=False)
class Formula:
    """An index of an operand that is another function: `{}` are the parts."""

    text: str
    parts: tuple[Where, ...]

    def __init__(self, text: str, *parts: Where) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "parts", parts)

    def of(self, index: tuple[Where, ...]) -> Where:
        """The formula where an element of the result is at `index`."""
        parts = [part.of(index) for part in self.parts]
        ones = [part.shift for part in parts if is_one(part)]
        if not parts or len(ones) < len(parts):
            return Formula(self.text, *parts)
        # The same for all elements. The texts are those of this file: eval is safe.
        return Place(0, 0, int(eval(self.text.format(*ones), {"tl": _IN_PYTHON})))


@dataclass(frozen=True)
class Size:
    """A size that is known at run time, as a part of a formula."""

    size: Dim

    def of(self, index: tuple[Where, ...]) -> Where:
        """Itself, wherever the element is."""
        return self


Where: TypeAlias = Place | Formula | Size


def is_one(place: Where) -> TypeGuard[Place]:
    """Whether it is the same for all elements."""
    return isinstance(place, Place) and place.step == 0


@dataclass(frozen=True)
class Piece:
    """What of an operand is taken, for indices of an axis from `low` to below `high`.

    `bounds` are axis, low and high; without any a piece is the whole result. Outside of
    the only piece the result is `fill`.
    """

    operand: int
    places: tuple[Where, ...]
    bounds: tuple[tuple[int, int | None, int | None], ...] = ()
    fill: Any = None

    def meets(self, index: tuple[Where, ...]) -> bool:
        """Whether an element may be of it, as far as that is known beforehand."""
        ones = [(index[axis], low, high) for axis, low, high in self.bounds]
        return all(
            (low is None or at.shift >= low) and (high is None or at.shift < high)
            for at, low, high in ones
            if is_one(at)
        )


@dataclass(frozen=True)
class Moves(KernelOp):
    """`pieces(n, i)` are what result i of an operator is put together from."""

    pieces: Callable[[NodeView, int], list[Piece]]


def _identity(rank: int) -> list[Where]:
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
    if len({n.value(i) for i in range(n.arity)}) == 1 < n.arity:  # of one, again
        whole = _identity(rank)
        whole[axis] = Formula(f"{{}} % {sizes[0]}", Place(axis))
        return [Piece(0, tuple(whole))]
    pieces = []
    for i, high in enumerate(accumulate(sizes)):
        places, low = _identity(rank), high - sizes[i]
        places[axis] = Place(axis, 1, -low)
        bounds = ((axis, low, high),) if len(sizes) > 1 else ()
        pieces.append(Piece(i, tuple(places), bounds))
    return pieces


def _transpose(n: NodeView, output: int) -> list[Piece]:
    rank = n.rank(0)
    order = n.attr("perm") or list(range(rank))[::-1]
    places = {int(source): Place(axis) for axis, source in enumerate(order)}
    return [Piece(0, tuple(places[axis] for axis in range(rank)))]


def _pad(n: NodeView, output: int) -> list[Piece]:
    rank, mode = n.rank(0), n.attr("mode", "constant")
    pads = n.known_ints(1, "pads")
    axes = n.known_ints(3, "axes") if n.has(3) else list(range(rank))
    fill = n.const(2) if n.has(2) else np.zeros(1, n.dtype(0).numpy())
    if mode not in ("constant", "reflect", "edge") or fill is None:
        n.refuse(f"Pad in mode {mode}, or with a value of run time, in a kernel")
    places, bounds = _identity(rank), []
    for i, axis in enumerate(a % rank for a in axes):
        before, after = pads[i], pads[i + len(axes)]
        if before == after == 0:
            continue
        size = _static(n, n.dims(0), axis)
        inner = Place(axis, 1, -before)
        places[axis] = inner
        if mode == "constant":
            low = before if before > 0 else None
            bounds.append((axis, low, before + size if after > 0 else None))
        elif mode == "edge":
            places[axis] = Formula(
                f"tl.minimum(tl.maximum({{}}, 0), {size - 1})", inner
            )
        elif max(before, after) < size:
            last = size - 1
            places[axis] = Formula(f"{last} - tl.abs({last} - tl.abs({{}}))", inner)
        else:
            n.refuse("Pad that reflects more than once in a kernel")
    kept = tuple(b for b in bounds if b[1:] != (None, None))
    return [Piece(0, tuple(places), kept, fill.reshape(-1)[0] if kept else None)]


def _depth_to_space(n: NodeView, output: int) -> list[Piece]:
    block = int(n.attr("blocksize"))
    for axis in (1, 2, 3):
        _static(n, n.dims(0), axis)
    channels, column_first = n.size(0, 1) // block**2, n.attr("mode", "DCR") == "DCR"
    text = f"{{}} % {block} * {block} + {{}} % {block}"
    channel = f"({text}) * {channels} + {{}}"
    parts = (Place(2), Place(3), Place(1))
    if not column_first:
        channel, parts = f"{{}} * {block**2} + {text}", (Place(1), Place(2), Place(3))
    pixel = [Formula(f"{{}} // {block}", Place(axis)) for axis in (2, 3)]
    return [Piece(0, (Place(0), Formula(channel, *parts), *pixel))]


def _space_to_depth(n: NodeView, output: int) -> list[Piece]:
    block, channels = int(n.attr("blocksize")), n.size(0, 1)
    for axis in (2, 3):
        _static(n, n.dims(0), axis)
    if n.attr("mode", "DCR") != "DCR":
        n.refuse("SpaceToDepth in another mode than DCR in a kernel")
    row = f"{{}} * {block} + {{}} // {channels * block}"
    column = f"{{}} * {block} + {{}} // {channels} % {block}"
    places = (
        Formula(f"{{}} % {channels}", Place(1)),
        Formula(row, Place(2), Place(1)),
        Formula(column, Place(3), Place(1)),
    )
    return [Piece(0, (Place(0), *places))]


def _expand(n: NodeView, output: int) -> list[Piece]:
    return [Piece(0, tuple(_identity(len(n.out_dims()))))]


def _tile(n: NodeView, output: int) -> list[Piece]:
    places = _identity(n.rank(0))
    for axis, count in enumerate(n.known_ints(1, "repeats")):
        if count != 1:
            size = _static(n, n.dims(0), axis)
            places[axis] = Formula(f"{{}} % {size}", Place(axis))
    return [Piece(0, tuple(places))]


def _reshape(n: NodeView, output: int) -> list[Piece]:
    """Axes of both shapes go together in runs of equal products, from the last on.

    Those of one element go with none.
    """
    old = [size for size in n.dims(0) if size != 1]
    new = [(i, size) for i, size in enumerate(n.out_dims()) if size != 1]
    places: list[Where] = []
    while old and new:
        run, made = [old.pop()], [new.pop()]
        while same(prod(run), prod(d for _, d in made)) is not True:
            fewer = len(old) > len(new)
            if all(isinstance(d, int) for d in (*run, *(d for _, d in made))):
                fewer = prod(run) < prod(d for _, d in made)
            if not (old if fewer else new):
                n.refuse("Reshape along sizes known at run time, in a kernel")
            if fewer:
                run.insert(0, old.pop())
            else:
                made.insert(0, new.pop())
        places = [*_reshaped(n, run, made), *places]
    if old or new or not n.out_dims():
        n.refuse("Reshape along sizes known at run time, in a kernel")
    found = iter(places)
    first = Place(0, 0)
    return [Piece(0, tuple(first if d == 1 else next(found) for d in n.dims(0)))]


def _reshaped(n: NodeView, old: list[Dim], new: list[tuple[int, Dim]]) -> list[Where]:
    """Where axes of sizes `old` are read, by axes of the result and their sizes."""
    if len(old) == len(new) == 1:
        return [Place(new[0][0])]
    parts: list[Where] = [Place(new[0][0])]
    text = "{}"
    for axis, size in new[1:]:
        spelled, sizes = _product([size])
        text = f"{text if text == '{}' else f'({text})'} * {spelled} + {{}}"
        parts += [*sizes, Place(axis)]
    own = text if text == "{}" else f"({text})"
    places: list[Where] = []
    for i, size in enumerate(old):
        inner, divisors = _product(old[i + 1 :])
        whole, sizes = _product([size])
        inner = f"({inner})" if " " in inner else inner
        at = f"{own} // {inner}" if inner != "1" else own if i else text
        every = (*parts, *divisors, *(sizes if i else ()))
        places.append(Formula(f"{at} % {whole}" if i else at, *every))
    return places


def _product(sizes: Sequence[Dim]) -> tuple[str, list[Where]]:
    """As the text of a formula, and its parts."""
    known = prod(d for d in sizes if isinstance(d, int))
    others: list[Where] = [Size(d) for d in sizes if not isinstance(d, int)]
    factors = [str(known)] if known != 1 or not others else []
    return " * ".join([*factors, *["{}"] * len(others)]), others


def _resize(n: NodeView, output: int) -> list[Piece]:
    """To the nearest, by a whole factor: each element is one of the operand's."""
    targets = targets_of(n)
    if n.attr("mode", "nearest") != "nearest" or targets is None:
        n.refuse("Resize in another mode than nearest in a kernel")
    places = _identity(n.rank(0))
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


def _static(n: NodeView, dims: tuple[object, ...] | None, axis: int) -> int:
    size = None if dims is None else dims[axis]
    if not isinstance(size, int):
        n.refuse(f"{n.node.op_type} along a size known at run time, in a kernel")
    return size


MOVES: dict[str, Moves] = {
    "Concat": Moves(_concat, result="joined"),
    "DepthToSpace": Moves(
        pieces=_depth_to_space, result="pixels", word="depth_to_space"
    ),
    "Expand": Moves(_expand, result="repeated"),
    "Pad": Moves(_pad, result="padded"),
    "Flatten": Moves(_reshape),
    "Reshape": Moves(_reshape),
    "Resize": Moves(_resize, result="resized"),
    "Slice": Moves(_slice, result="part"),
    "SpaceToDepth": Moves(
        pieces=_space_to_depth, result="blocks", word="space_to_depth"
    ),
    "Split": Moves(_split, result="part"),
    "Squeeze": Moves(_reshape),
    "Tile": Moves(_tile, result="repeated"),
    "Transpose": Moves(_transpose, result="turned"),
    "Unsqueeze": Moves(_reshape),
}


RESHAPES = frozenset(name for name, mover in MOVES.items() if mover.pieces is _reshape)


def moves(node: ir.Node) -> Moves | None:
    """How the operator moves elements; None if it computes something."""
    return MOVES.get(node.op_type) if node.domain in ("", "ai.onnx") else None


def moved_axes(pieces: list[Piece]) -> set[int]:
    """The axes, from 0, along which a result isn't its operand."""
    found = {axis for piece in pieces for axis, _, _ in piece.bounds}
    for piece in pieces:
        for axis, place in enumerate(piece.places):
            if place != Place(axis):
                found |= {axis, *_axes(place)}
    return found


def _axes(place: Where) -> set[int]:
    if isinstance(place, Place):
        return {place.axis}
    if isinstance(place, Size):
        return set()
    return {axis for part in place.parts for axis in _axes(part)}
