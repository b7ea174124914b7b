"""Memory that was copied from other memory, and the calls that only do that.

A call that puts elements elsewhere and looks at none is told by where they come from:
what is joined, split, rolled and joined again is seen as what it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from .digests import digest
from .layout import (
    Dims,
    View,
    Window,
    equal,
    merged,
    product,
    quotient,
    row_major,
    side_by_side,
    through,
)
from .sizes import Size, less, normal

_AT = torch.ops.aten
SizeText = Callable[[Size], object]
Source = tuple["Memory", View]
Needs = Callable[[Size, Size], bool]  # that a < b, where a call can't run otherwise


class Piece(NamedTuple):
    """Some columns of each row of a memory: the elements of a view, in order.

    `space` is that view, in the memory `source`; of its dimensions those before `at`
    are the rows.
    """

    source: Memory
    space: View
    at: int
    columns: Window


class Memory:
    """Elements that a call made, or a run is given, or copies of such.

    Two of one name hold the same. What was copied has `rows`, and the pieces that each
    is made of.
    """

    def __init__(
        self,
        name: str,
        dtype: torch.dtype,
        rows: Size = 1,
        pieces: Sequence[Piece] = (),
    ) -> None:
        self.name, self.dtype, self.rows, self.pieces = name, dtype, rows, pieces
        self._opposite: Memory | None = None

    def behind(self, view: View) -> Source:
        """What a view of this memory sees, as a view of what that was copied from."""
        for piece in self.pieces:
            found: View | None = view
            if len(self.pieces) > 1:
                wide = piece.columns.stop - piece.columns.start
                whole = self.pieces[-1].columns.stop
                rows = ((self.rows, wide), (whole, 1))
                found = through(view, rows, piece.columns)
            if found is not None:
                found = through(found, piece.space.dims)
            if found is not None:
                offset = found.offset + piece.space.offset
                return piece.source.behind(View(found.dims, offset))
        return self, view

    def columns(self, view: View, text: SizeText) -> Memory | None:
        """What a view sees that goes over some columns of all rows; None of another."""
        dims = merged(view.dims)
        if len(self.pieces) < 2 or len(dims) > 2 or equal(_count(dims), self.size):
            return None
        return joined([(self, View(dims, view.offset))], len(dims) - 1, text)

    @property
    def opposite(self) -> Memory:
        """What holds these numbers negated, or these truths denied."""
        if self._opposite is None:
            self._opposite = Memory(digest("opposite", self.name), self.dtype)
            self._opposite._opposite = self
        return self._opposite

    @property
    def size(self) -> Size:
        """The number of elements of a memory that has pieces."""
        return self.rows * self.pieces[-1].columns.stop


def copied(source: Memory, space: View, text: SizeText) -> Memory:
    """A memory with the elements of a view of another one, in order."""
    if merged(space.dims) == merged(((_count(space.dims), 1),)) and space.offset == 0:
        return source
    return joined([(source, space)], 0, text)


def joined(parts: Sequence[Source], at: int, text: SizeText) -> Memory:
    """A memory with the elements of views, next to each other along a dimension."""
    pieces: list[Piece] = []
    for source, space in parts:
        for piece in _pieces(source, space, at):
            before = pieces[-1] if pieces else None
            both = _both(before, piece) if before is not None else None
            if both is not None:
                pieces[-1] = both
                continue
            start = before.columns.stop if before is not None else 0
            wide = piece.columns.stop - piece.columns.start
            pieces.append(piece._replace(columns=Window(start, start + wide)))
    rows = _count(parts[0][1].dims[:at])
    told = [
        (
            piece.source.name,
            View(merged(piece.space.dims[: piece.at]), 0).texts(text),
            View(merged(piece.space.dims[piece.at :]), piece.space.offset).texts(text),
        )
        for piece in pieces
    ]
    return Memory(digest("copied", text(rows), told), parts[0][0].dtype, rows, pieces)


def _count(dims: Dims) -> Size:
    return product(size for size, _ in dims)


def _pieces(source: Memory, space: View, at: int) -> Sequence[Piece]:
    """A view as it is joined to others: what it copies, or is joined of itself."""
    rows, wide = _count(space.dims[:at]), _count(space.dims[at:])
    if equal(wide, 0):
        return []
    source, seen = source.behind(space)
    inside = _inside(source, seen, rows, wide)
    if inside is not None:
        return inside
    seen = View(tuple(d for d in seen.dims if not equal(d[0], 1)), seen.offset)
    return [Piece(source, seen, _rows_of(seen, rows), Window(0, wide))]


def _inside(
    source: Memory, seen: View, rows: Size, wide: Size
) -> Sequence[Piece] | None:
    """The pieces that a view of some columns of all rows sees; None for another one."""
    if not source.pieces or not equal(source.rows, rows):
        return None
    row = source.pieces[-1].columns.stop
    if merged(seen.dims) != merged(((rows, row), (wide, 1))):
        return None
    start, stop = seen.offset, seen.offset + wide
    found = []
    for piece in source.pieces:
        begin, end = piece.columns
        if not (less(begin, start + 1) or less(start, begin + 1)):
            return None
        if not (less(end, stop + 1) or less(stop, end + 1)):
            return None
        low = start if less(begin, start + 1) else begin
        high = end if less(end, stop + 1) else stop
        if less(high, low + 1):
            continue
        if not less(low, high):
            return None
        dims = ((rows, end - begin), (high - low, 1))
        part = through(View(dims, low - begin), piece.space.dims)
        if part is None:
            return None
        view = View(
            tuple(d for d in part.dims if not equal(d[0], 1)),
            part.offset + piece.space.offset,
        )
        found.append(Piece(piece.source, view, _rows_of(view, rows), Window(low, high)))
    total = sum((piece.columns.stop - piece.columns.start for piece in found), 0)
    return found if equal(total, wide) else None


def _rows_of(view: View, rows: Size) -> int:
    """How many of its dimensions, the outermost, have so many elements."""
    count: Size = 1
    for at, (size, _) in enumerate(view.dims):
        if equal(count, rows):
            return at
        count = count * size
    return len(view.dims)


def _both(one: Piece, other: Piece) -> Piece | None:
    """Two pieces as one, if the second goes on where the first ends."""
    if one.source is not other.source or one.at != other.at:
        return None
    views = [one.space, other.space]
    if one.at == len(one.space.dims) or one.at == len(other.space.dims):
        return None
    space = side_by_side(views, one.at)
    if space is None:
        return None
    wide = other.columns.stop - other.columns.start
    columns = Window(one.columns.start, one.columns.stop + wide)
    return Piece(one.source, space, one.at, columns)


def _cat(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Any:
    ranks = {len(view.dims) for _, view in sources}
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    rank = min(ranks)
    return joined(sources, dim % rank, text) if rank and len(ranks) == 1 else None


def opposite(source: Source) -> Source:
    """What a view sees, negated or denied."""
    memory, seen = source[0].behind(source[1])
    if memory is NUMBERS:
        return memory, View(tuple((n, -step) for n, step in seen.dims), -seen.offset)
    return memory.opposite, seen


def _turn(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Memory:
    return copied(*opposite(sources[0]), text)


def _deny(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Any:
    is_truth = sources[0][0].dtype == torch.bool
    return _turn(sources, args, kwargs, text) if is_truth else None


def _flip(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Memory:
    ((source, (dims, offset)),) = sources
    turned = {axis % len(dims) for axis in args[1]} if dims else set()
    for axis in turned:
        size, stride = dims[axis]
        offset = offset + (size - 1) * stride
    steps = ((n, -t if i in turned else t) for i, (n, t) in enumerate(dims))
    return copied(source, View(tuple(steps), offset), text)


def _repeat(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Any:
    ((source, (dims, offset)),) = sources
    times = [n if isinstance(n, int) else normal(n.node.expr) for n in args[1]]
    padded = [(1, 0)] * (len(times) - len(dims)) + [*dims]
    pairs = zip(times, padded, strict=True)
    spread = tuple(each for count, dim in pairs for each in ((count, 0), dim))
    return copied(source, View(spread, offset), text)


def _roll(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Any:
    ((source, view),) = sources
    steps, axes = (
        [each] if isinstance(each, int) else [*each] for each in (*args[1:], [])[:2]
    )
    if len(axes) != len(steps) or not all(isinstance(step, int) for step in steps):
        return None
    for step, axis in zip(steps, axes, strict=True):
        at = axis % len(view.dims)
        size, stride = view.dims[at]
        step = step % size if isinstance(size, int) else step
        if not less(abs(step), size + 1):
            return None
        first = size - step if step >= 0 else -step  # it comes to the front
        parts = [
            (source, View((*view.dims[:at], (n, stride), *view.dims[at + 1 :]), offset))
            for n, offset in (
                (size - first, view.offset + first * stride),
                (first, view.offset),
            )
        ]
        source = joined(parts, at, text)
        view = View(row_major([size for size, _ in view.dims]), 0)
    return copied(source, view, text)


def _shuffle(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Any:
    ((source, (dims, offset)),) = sources
    r = args[1]
    *rest, (c, by_c), (h, by_h), (w, by_w) = dims
    channels = quotient(c, r * r)
    if channels is None:
        return None
    spread = ((channels, r * r * by_c), (h, by_h), (r, r * by_c), (w, by_w), (r, by_c))
    return copied(source, View((*rest, *spread), offset), text)


def _stack(sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText) -> Any:
    dim = args[1] if len(args) > 1 else kwargs.get("dim", 0)
    at = dim % (len(sources[0][1].dims) + 1)
    parts = [
        (source, View((*view.dims[:at], (1, 1), *view.dims[at:]), view.offset))
        for source, view in sources
    ]
    return joined(parts, at, text)


def _unshuffle(
    sources: Sequence[Source], args: Any, kwargs: Any, text: SizeText
) -> Any:
    ((source, (dims, offset)),) = sources
    r = args[1]
    *rest, channel, (h, by_h), (w, by_w) = dims
    high, wide = quotient(h, r), quotient(w, r)
    if high is None or wide is None:
        return None
    spread = ((r, by_h), (r, by_w), (high, r * by_h), (wide, r * by_w))
    return copied(source, View((*rest, channel, *spread), offset), text)


# Each whole number at its own place: what counts, or holds sizes, is a view of these.
NUMBERS = Memory("whole numbers", torch.int64)


def counted(x: Source, rank: int) -> View | None:
    """What whole numbers are at each place, as a view of NUMBERS of so many dimensions;
    None of others."""
    memory, seen = x[0].behind(x[1])
    if memory is not NUMBERS or len(seen.dims) != len(x[1].dims):
        return None  # or one of them goes on in two directions
    dims = tuple((n, 0) if equal(n, 1) else (n, step) for n, step in seen.dims)
    return View((((1, 0),) * (rank - len(dims))) + dims, seen.offset)


def numbers(values: Sequence[int], text: SizeText) -> Memory:
    """Memory that holds these whole numbers."""
    return joined([(NUMBERS, View(((1, 0),), value)) for value in values], 0, text)


def _is_within(view: View, size: Size, needs: Needs) -> bool:
    """Whether all numbers are at least 0, and below a size or else the call fails."""
    low = high = view.offset
    for count, step in view.dims:
        if less(-1, step):
            high = high + (count - 1) * step
        elif less(step, 1):
            low = low + (count - 1) * step
        else:
            return False
    return less(-1, low) and (less(high, size) or needs(high, size))


def indexed(
    x: Source,
    indices: Sequence[Source],
    sizes: Sequence[Size],
    text: SizeText,
    needs: Needs,
) -> Memory | None:
    """What stands in a tensor at numbers that count, of the given sizes together; None
    where the numbers do anything else, or may be none of its places."""
    source, (dims, offset) = x
    steps: list[Size] = [0] * len(sizes)
    for (size, stride), index in zip(dims, indices, strict=False):
        seen = counted(index, len(sizes))
        if seen is None or not _is_within(seen, size, needs):
            return None
        offset = offset + stride * seen.offset
        for at, (_, step) in enumerate(seen.dims):
            steps[at] = steps[at] + stride * step
    spread = tuple(zip(sizes, steps, strict=True))
    return copied(source, View((*spread, *dims[len(indices) :]), offset), text)


# Calls that put elements elsewhere and look at none but to turn them into their
# opposites, as the memory that they make.
MOVES: dict[Any, Callable[..., Memory | None]] = {
    _AT.bitwise_not.default: _deny,
    _AT.cat.default: _cat,
    _AT.clone.default: lambda x, _, __, text: copied(x[0][0], x[0][1], text),
    _AT.flip.default: _flip,
    _AT.neg.default: _turn,
    _AT.pixel_shuffle.default: _shuffle,
    _AT.pixel_unshuffle.default: _unshuffle,
    _AT.repeat.default: _repeat,
    _AT.roll.default: _roll,
    _AT.stack.default: _stack,
}
