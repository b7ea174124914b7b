"""Operators that only move elements, by their index maps: nothing is computed.

An element of the result is one of an operand's: where, follows from its own indices.
Polyhedral compilers call that an access function, TVM an IndexMap. It is all there is
to such an operator, so that elements, functions of a place, cuts and kernels are
derived from it. A function here gives what result `output` is put together from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import prod
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeGuard

from ...graph.dims import Dim, Dims, at_least, same, simplify, slice_range
from ...graph.shape_facts import NodeFacts


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
Sliced: TypeAlias = tuple[int, Dim | None, Dim | None, Dim | None]


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


IndexMap: TypeAlias = Callable[..., list[Piece]]  # (site, output, *dims)


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


def _anywhere(site: NodeFacts, x: Dims) -> list[Piece]:
    """Each element is one of the operand's."""
    rank = len(site.out_dims() or ())
    return [Piece(0, (_untold(*range(rank)),) * len(x))]


def identity(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """Each element, where it is."""
    return [Piece(0, tuple(unmoved(len(x))))]


def transpose(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """Axes in the order of `perm`."""
    perm = list(site.attr("perm") or range(len(x))[::-1])
    return [Piece(0, tuple(Place(perm.index(axis)) for axis in range(len(x))))]


def expand(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """The first element of axes of size 1, all along them."""
    made, places = site.out_dims() or x, list[Where]()
    asked = site.numbers(1) or [None] * len(made)
    asked = [1] * (len(made) - len(asked)) + asked
    for axis, size in enumerate(x, len(made) - len(x)):
        # One that is merely taken for the size asked for may be 1.
        sure = isinstance(size, int) or asked[axis] in (1, size)
        own = Place(axis) if sure and size == made[axis] else _untold(axis)
        places.append(Place(0, 0) if size == 1 else own)
    return [Piece(0, tuple(places))]


def tile(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """Again from the start behind the end."""
    places = unmoved(len(x))
    for axis, count in enumerate(site.numbers(1) or [None] * len(x)):
        if count != 1:
            known = isinstance(x[axis], int) and isinstance(count, int)
            again = Formula(f"{{}} % {x[axis]}", Place(axis))
            places[axis] = again if known else _untold(axis)
    return [Piece(0, tuple(places))]


def split(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """What stands behind the parts before."""
    axis, places = site.axis(len(x)), unmoved(len(x))
    before = [site.shapes.dims(value) for value in site.node.outputs[:output]]
    shift = simplify(sum((dims[axis] for dims in before if dims is not None), 0))
    places[axis] = _untold(axis) if None in before else Place(axis, 1, shift)
    return [Piece(0, tuple(places))]


def concat(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """One operand behind the other."""
    axis, pieces, low = site.axis(len(x)), list[Piece](), 0
    for i in range(len(site.node.inputs)):
        places, dims = unmoved(len(x)), site.dims(i)
        if dims is None:
            return []
        high = simplify(low + dims[axis])
        places[axis] = Place(axis, 1, simplify(-low))
        bounds = ((axis, low, high),) if len(site.node.inputs) > 1 else ()
        pieces.append(Piece(i, tuple(places), bounds))
        low = high
    return pieces


def slice_bounds(site: NodeFacts, x: Dims) -> list[Sliced] | None:
    """Axis, start, end and step, as far as they are known; None if axes aren't."""
    starts, ends = site.numbers(1), site.numbers(2)
    count = len(starts or ends or ())
    axes = site.axes(3, len(x)) if site.has(3) else list(range(count))
    steps = site.numbers(4) if site.has(4) else [1] * count
    if axes is None:
        return None
    return list(zip_longest(axes, starts or (), ends or (), steps or ()))


def slice_(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """From the start on, by the step."""
    bounds, places = slice_bounds(site, x), unmoved(len(x))
    if bounds is None:
        return _anywhere(site, x)
    for axis, start, end, step in bounds:
        known = [n for n in (x[axis], start, end) if isinstance(n, int)]
        places[axis] = _untold(axis)
        if not isinstance(step, int) or start is None:
            continue
        if step > 0 and at_least(start, 0):  # one behind the end leaves no place
            places[axis] = Place(axis, step, start)
        elif len(known) == 3:
            size, first, last = known
            places[axis] = Place(axis, step, slice_range(size, first, last, step).start)
    return [Piece(0, tuple(places))]


def pad(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """What isn't inside is of another operand, or of its edge, or mirrored."""
    rank, mode = len(x), site.attr("mode", "constant")
    axes = site.axes(3, rank) if site.has(3) else list(range(rank))
    pads, places, bounds = site.numbers(1), unmoved(rank), list[Bound]()
    if axes is None or pads is None:
        return []
    for axis, *around in zip(axes, pads, pads[len(axes) :], strict=False):
        known = [n for n in (x[axis], *around) if isinstance(n, int)]
        if around == [0, 0]:
            continue
        places[axis] = _untold(axis)
        if len(known) < 3:
            bounds.append((axis, None, None))
            continue
        size, before, after = known
        inner, last = Place(axis, 1, -before), size - 1
        if mode == "constant":
            low = before if before > 0 else None
            high = before + size if after > 0 else None
            places[axis] = inner
            bounds += [] if low is high is None else [(axis, low, high)]
        elif mode == "edge":
            places[axis] = Formula(f"tl.minimum(tl.maximum({{}}, 0), {last})", inner)
        elif mode == "reflect" and max(before, after) < size:
            places[axis] = Formula(f"{last} - tl.abs({last} - tl.abs({{}}))", inner)
    return [Piece(0, tuple(places), tuple(bounds))]


def depth_to_space(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """The place in its block, and the channel, say which channel a pixel is of."""
    block = int(site.attr("blocksize"))
    if not all(isinstance(size, int) for size in x[1:]):
        return [Piece(0, (Place(0), *[_untold(1, 2, 3)] * 3))]
    text = f"{{}} % {block} * {block} + {{}} % {block}"
    channel = f"({text}) * {x[1] // block**2} + {{}}"
    parts = (Place(2), Place(3), Place(1))
    if site.attr("mode", "DCR") != "DCR":
        channel, parts = f"{{}} * {block**2} + {text}", (Place(1), Place(2), Place(3))
    pixel = [Formula(f"{{}} // {block}", Place(axis)) for axis in (2, 3)]
    return [Piece(0, (Place(0), Formula(channel, *parts), *pixel))]


def space_to_depth(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
    """The channel says which pixel of a block, and of which channel."""
    block, channels = int(site.attr("blocksize")), x[1]
    known = all(isinstance(size, int) for size in x[1:])
    if not known or site.attr("mode", "DCR") != "DCR":
        return [Piece(0, (Place(0), *[_untold(1, 2, 3)] * 3))]
    row = f"{{}} * {block} + {{}} // {channels * block}"
    column = f"{{}} * {block} + {{}} // {channels} % {block}"
    places = (
        Formula(f"{{}} % {channels}", Place(1)),
        Formula(row, Place(2), Place(1)),
        Formula(column, Place(3), Place(1)),
    )
    return [Piece(0, (Place(0), *places))]


def reshape(site: NodeFacts, output: int, x: Dims) -> list[Piece]:
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
                return _anywhere(site, x)
            if fewer:
                run.insert(0, old.pop())
            else:
                made.insert(0, new.pop())
        places = [*_reshaped(run, made), *places]
    if old or new:
        return _anywhere(site, x)
    found = iter(places)
    return [Piece(0, tuple(Place(0, 0) if d == 1 else next(found) for d in x))]


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
