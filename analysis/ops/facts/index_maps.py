"""Operators that only move elements, by their index maps: nothing is computed.

An element of the result is one of an operand's: where, follows from its own indices.
Polyhedral compilers call that an access function, TVM an IndexMap. It is all there is
to such an operator, so that elements, functions of a place, cuts and kernels are
derived from it. A function here gives what the results are put together from, and of
what sizes: the domain, where that doesn't follow otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeGuard

import sympy

from ...graph.dims import (
    Dim,
    Dims,
    agree,
    at_least,
    broadcast,
    ceildiv,
    maximum,
    minimum,
    same,
    simplify,
    slice_range,
)
from ...graph.shape_facts import DimsResult, NodeFacts, PartialDims


@dataclass(frozen=True)
class Place:
    """An index of an operand: `step` times that of the result's `axis`, and `shift`."""

    axis: int
    step: int = 1
    shift: Dim = 0

    def of(self, index: tuple[Where, ...]) -> Where:
        """This where the result's own indices are these."""
        if self.step == 0:
            return self
        inner = index[self.axis]
        if isinstance(inner, Place):
            shift = self.step * inner.shift + self.shift
            return Place(inner.axis, self.step * inner.step, shift)
        plain = self.step == 1 and self.shift == 0
        return inner if plain else Formula(f"{{}} * {self.step} + {self.shift}", inner)


_IN_PYTHON = SimpleNamespace(minimum=min, maximum=max, abs=abs)


@dataclass(frozen=True, init=False)
class Formula:
    """An index of an operand that is another function: `{}` are the parts.

    Without a text it is told on what it hangs, and no more.
    """

    text: str
    parts: tuple[Where, ...]

    def __init__(self, text: str, *parts: Where) -> None:
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "parts", parts)

    def of(self, index: tuple[Where, ...]) -> Where:
        """The formula where an element of the result is at `index`."""
        parts = [part.of(index) for part in self.parts]
        ones = [part.shift for part in parts if is_one(part)]
        if not (self.text and parts) or len(ones) < len(parts):
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
Bound: TypeAlias = tuple[int, Dim | None, Dim | None]


def is_one(place: Where) -> TypeGuard[Place]:
    """Whether it is the same for all elements."""
    return isinstance(place, Place) and place.step == 0


@dataclass(frozen=True)
class Piece:
    """What of an operand is taken, for indices of an axis from `low` to below `high`.

    `bounds` are axis, low and high, None where there is none or it isn't known; without
    any bounds a piece is the whole result. Outside of the only piece it is `fill`.
    """

    operand: int
    places: tuple[Where, ...]
    bounds: tuple[Bound, ...] = ()
    fill: Any = None

    @property
    def is_told(self) -> bool:
        """Whether it is known for each index what is taken, in numbers."""
        return all(
            at.text if isinstance(at, Formula) else isinstance(at.shift, int)
            for at in self.places
            if not isinstance(at, Size)
        )

    def at(self, place: tuple[int, ...]) -> tuple[Dim, ...]:
        """What of the operand stands at a place of the result."""
        own = tuple(Place(0, 0, k) for k in place)
        found = (place.of(own) for place in self.places)
        return tuple(place.shift for place in found if is_one(place))

    def meets(self, index: tuple[Where, ...]) -> bool:
        """Whether an element may be of it, as far as that is known beforehand."""
        ones = [(index[axis], low, high) for axis, low, high in self.bounds]
        return all(
            (low is None or at.shift >= low) and (high is None or at.shift < high)
            for at, low, high in ones
            if is_one(at)
        )


@dataclass(frozen=True)
class Moved:
    """A result: its sizes, None where one isn't told, and what it is put together from.

    Without any sizes they follow otherwise; without any pieces nothing is told of them.
    """

    dims: PartialDims | None
    pieces: Sequence[Piece]


IndexMap: TypeAlias = Callable[..., "list[Moved] | None"]  # (site, *dims)


def sizes(index_map: IndexMap) -> Callable[[NodeFacts], DimsResult]:
    """Those of the results, as the index map has them."""
    return lambda site: [result.dims for result in site.ask(index_map) or ()]


def axes_of(place: Where) -> set[int]:
    """Those of the result that an index hangs on."""
    if isinstance(place, Place):
        return {place.axis} if place.step else set()
    parts = () if isinstance(place, Size) else place.parts
    return {axis for part in parts for axis in axes_of(part)}


def _untold(*axes: int) -> Formula:
    """An index that hangs on these axes of the result; how isn't known."""
    return Formula("", *map(Place, axes))


def unmoved(rank: int) -> list[Where]:
    """Each element stays where it is."""
    return [Place(axis) for axis in range(rank)]


def _moved(dims: PartialDims | None, places: Iterable[Where], *bounds: Bound) -> Moved:
    return Moved(dims, [Piece(0, tuple(places), bounds)])


def _anywhere(site: NodeFacts, x: Dims) -> Moved:
    """Each element is one of the operand's."""
    return _moved(None, [_untold(*range(len(site.out_dims() or ())))] * len(x))


def identity(site: NodeFacts, x: Dims) -> list[Moved]:
    """Each element, where it is."""
    return [_moved(x, unmoved(len(x)))]


def transpose(site: NodeFacts, x: Dims) -> list[Moved]:
    """Axes in the order of `perm`."""
    perm = list(site.attr("perm") or range(len(x))[::-1])
    if sorted(perm) != list(range(len(x))):
        raise ValueError(f"perm {perm} is no order of {len(x)} axes")
    places = (Place(perm.index(axis)) for axis in range(len(x)))
    return [_moved([x[axis] for axis in perm], places)]


def expand(site: NodeFacts, x: Dims) -> list[Moved] | None:
    """Broadcast with the shape given, in both directions."""
    asked, length = site.numbers(1), (site.dims(1) or (None,))[0]
    if asked is None:
        if not isinstance(length, int) or length < len(x):
            return None
        asked = [None] * length
    made, places = list[Dim | None](), list[Where]()
    rank = max(len(x), len(asked))
    pairs = zip_longest(reversed(x), reversed(asked), fillvalue=1)
    for axis, (size, wanted) in zip(range(rank)[::-1], pairs, strict=True):
        if wanted is None:
            # Against an unknown size, only a number other than 1 is certain.
            made.append(size if isinstance(size, int) and size != 1 else None)
        else:
            made += broadcast((size,), (wanted,))
        # One that is merely taken for the size asked for may be 1.
        sure = isinstance(size, int) or wanted in (1, size)
        own = Place(axis) if sure and size == made[-1] else _untold(axis)
        places.append(Place(0, 0) if size == 1 else own)
    return [_moved(made[::-1], places[: len(x)][::-1])]


def tile(site: NodeFacts, x: Dims) -> list[Moved]:
    """Again from the start behind the end."""
    repeats = site.numbers(1) or [None] * len(x)
    if len(repeats) != len(x):
        raise ValueError("repeats and axes differ in number")
    made, places = list[Dim | None](), unmoved(len(x))
    for axis, (size, count) in enumerate(zip(x, repeats, strict=True)):
        made.append(None if count is None else simplify(size * count))
        if count != 1:
            known = isinstance(size, int) and isinstance(count, int)
            again = Formula(f"{{}} % {size}", Place(axis))
            places[axis] = again if known else _untold(axis)
    return [_moved(made, places)]


def split(site: NodeFacts, x: Dims) -> list[Moved]:
    """Parts as listed, or as even as can be with the last one shorter."""
    axis, parts = site.axis(len(x)), len(site.node.outputs)
    sizes: list[Dim | None]
    listed = site.attr("split")
    if site.has(1) or listed:
        sizes = list(listed) if listed else site.numbers(1) or [None] * parts
    else:
        chunk = ceildiv(x[axis], int(site.attr("num_outputs", parts)))
        sizes = [chunk] * (parts - 1)
        sizes.append(simplify(x[axis] - chunk * (parts - 1)))
    found, places = list[Moved](), unmoved(len(x))
    shift: Dim | None = 0
    for size in sizes:
        places[axis] = _untold(axis) if shift is None else Place(axis, 1, shift)
        found.append(_moved([*x[:axis], size, *x[axis + 1 :]], places))
        shift = None if shift is None or size is None else simplify(shift + size)
    return found


def concat(site: NodeFacts, x: Dims) -> list[Moved]:
    """Sizes add up along the axis and agree elsewhere."""
    axis, every = site.axis(len(x)), range(len(site.node.inputs))
    made, pieces = [*x[:axis], 0, *x[axis + 1 :]], list[Piece]()
    for i in every:
        dims, low, places = site.dims(i), made[axis], unmoved(len(x))
        if dims is None:
            return [Moved([None if j == axis else d for j, d in enumerate(x)], ())]
        if len(dims) != len(x):
            raise ValueError("inputs differ in rank")
        for j, size in enumerate(dims):
            made[j] = simplify(low + size) if j == axis else agree(made[j], size)
        places[axis] = Place(axis, 1, simplify(-low))
        bounds = ((axis, low, made[axis]),) if len(every) > 1 else ()
        pieces.append(Piece(i, tuple(places), bounds))
    return [Moved(made, pieces)]


def slice_(site: NodeFacts, x: Dims) -> list[Moved]:
    """Bounds count from the end if negative, and are clamped to the axis."""
    starts, ends = site.numbers(1), site.numbers(2)
    count = len(starts or ends or ())
    axes = site.axes(3, len(x)) if site.has(3) else list(range(count))
    steps = site.numbers(4) if site.has(4) else [1] * count
    if axes is None:
        return [Moved([None] * len(x), _anywhere(site, x).pieces)]
    made, places = list[Dim | None](x), unmoved(len(x))
    bounds = zip_longest(axes, starts or (), ends or (), steps or ())
    for axis, start, end, step in bounds:
        size, made[axis], places[axis] = x[axis], None, _untold(axis)
        if start is None or not isinstance(step, int):
            continue
        if end is not None:
            within = end if site.node.meta.get(WITHIN) else None
            made[axis] = within or _slice_length(size, start, end, step)
        if step > 0 and at_least(start, 0):  # one behind the end leaves no place
            places[axis] = Place(axis, step, start)
        elif isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
            places[axis] = Place(axis, step, slice_range(size, start, end, step).start)
    return [_moved(made, places)]


# In a Slice's `meta`: it takes as many from 0 on as its end says, which are all there.
WITHIN = "within"


def _slice_length(size: Dim, start: Dim, end: Dim, step: int) -> Dim | None:
    if step == 0:
        raise ValueError("a slice has step 0")
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(slice_range(size, start, end, step))
    if step < 0:
        last = isinstance(start, int) and (start == -1 or start >= 2**31 - 1)
        whole = last and isinstance(end, int) and end < -(2**31) + 1
        return ceildiv(size, -step) if whole else None
    first, stop = _clamped(size, start), _clamped(size, end)
    if stop is None:
        return None
    if stop == size and size == simplify(-start):
        length = size  # of an axis without elements, too
    elif stop == size and at_least(-1, start):
        length = minimum(simplify(-start), size)
    elif stop == size and at_least(start, 0):
        length = maximum(simplify(size - start), 0)
    elif first is not None:
        length = maximum(simplify(stop - first), 0)
    else:
        return None
    return _if_plain(ceildiv(length, step))


def _clamped(size: Dim, bound: Dim) -> Dim | None:
    if bound == size:
        return size
    if at_least(bound, 0):
        return _if_plain(minimum(size, bound))
    if at_least(-1, bound):
        return _if_plain(maximum(simplify(size + bound), 0))
    return None


def _if_plain(size: Dim) -> Dim | None:
    """Not a nest of Min and Max: a symbol of its own reads better."""
    if isinstance(size, int):
        return size
    choices = [e for e in sympy.preorder_traversal(size) if isinstance(e, _CHOICES)]
    return size if len(choices) <= 1 else None


_CHOICES = (sympy.Min, sympy.Max)


def pad(site: NodeFacts, x: Dims) -> list[Moved]:
    """Begin and end added to each axis given: of another operand, or mirrored."""
    rank, mode = len(x), site.attr("mode", "constant")
    axes = site.axes(3, rank) if site.has(3) else list(range(rank))
    pads, places, bounds = site.numbers(1), unmoved(rank), list[Bound]()
    if axes is None or pads is None:
        return [Moved([None] * rank, ())]
    made, ends = list[Dim | None](x), pads[len(axes) :]
    for axis, before, after in zip(axes, pads[: len(axes)], ends, strict=True):
        size, last = x[axis], simplify(x[axis] - 1)
        if before == after == 0:
            continue
        made[axis], places[axis] = None, _untold(axis)
        if before is not None and after is not None:
            made[axis] = simplify(size + before + after)
        if (
            not isinstance(before, int)
            or not isinstance(after, int)
            or not isinstance(size, int)
        ):
            bounds.append((axis, None, None))
            continue
        inner = Place(axis, 1, -before)
        if mode == "constant":
            low = before if before > 0 else None
            high = before + size if after > 0 else None
            places[axis] = inner
            bounds += [] if low is high is None else [(axis, low, high)]
        elif mode == "edge":
            places[axis] = Formula(f"tl.minimum(tl.maximum({{}}, 0), {last})", inner)
        elif mode == "reflect" and max(before, after) < size:
            places[axis] = Formula(f"{last} - tl.abs({last} - tl.abs({{}}))", inner)
    return [_moved(made, places, *bounds)]


def depth_to_space(site: NodeFacts, x: Dims) -> list[Moved]:
    """The place in its block, and the channel, say which channel a pixel is of."""
    block = int(site.attr("blocksize"))
    if not all(isinstance(size, int) for size in x[1:]):
        return [_moved(None, [Place(0), *[_untold(1, 2, 3)] * 3])]
    text = f"{{}} % {block} * {block} + {{}} % {block}"
    channel = f"({text}) * {x[1] // block**2} + {{}}"
    parts = (Place(2), Place(3), Place(1))
    if site.attr("mode", "DCR") != "DCR":
        channel, parts = f"{{}} * {block**2} + {text}", (Place(1), Place(2), Place(3))
    pixel = [Formula(f"{{}} // {block}", Place(axis)) for axis in (2, 3)]
    return [_moved(None, [Place(0), Formula(channel, *parts), *pixel])]


def space_to_depth(site: NodeFacts, x: Dims) -> list[Moved]:
    """The channel says which pixel of a block, and of which channel."""
    block, channels = int(site.attr("blocksize")), x[1]
    known = all(isinstance(size, int) for size in x[1:])
    if not known or site.attr("mode", "DCR") != "DCR":
        return [_moved(None, [Place(0), *[_untold(1, 2, 3)] * 3])]
    row = f"{{}} * {block} + {{}} // {channels * block}"
    column = f"{{}} * {block} + {{}} // {channels} % {block}"
    places = (
        Formula(f"{{}} % {channels}", Place(1)),
        Formula(row, Place(2), Place(1)),
        Formula(column, Place(3), Place(1)),
    )
    return [_moved(None, [Place(0), *places])]


def reshape(site: NodeFacts, x: Dims) -> list[Moved]:
    """Axes of both shapes go together in runs of equal products, from the last on.

    Those of one element go with none.
    """
    old = [size for size in x if size != 1]
    new = [(i, size) for i, size in enumerate(site.out_dims() or ()) if size != 1]
    places: list[Where] = []
    while old and new:
        run, made = [old.pop()], [new.pop()]
        while same(prod(run), prod(d for _, d in made)) is not True:
            fewer = len(old) > len(new)
            if all(isinstance(d, int) for d in (*run, *(d for _, d in made))):
                fewer = prod(run) < prod(d for _, d in made)
            if not (old if fewer else new):
                return [_anywhere(site, x)]
            if fewer:
                run.insert(0, old.pop())
            else:
                made.insert(0, new.pop())
        places = [*_reshaped(run, made), *places]
    if old or new:
        return [_anywhere(site, x)]
    found = iter(places)
    return [_moved(None, (Place(0, 0) if d == 1 else next(found) for d in x))]


flatten = squeeze = unsqueeze = reshape


def _reshaped(old: list[Dim], new: list[tuple[int, Dim]]) -> list[Where]:
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
