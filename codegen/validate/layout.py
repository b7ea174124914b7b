"""Where a view looks, and how one looks through a copy; sizes are numbers or symbols.

A view of a memory is where it begins and its dimensions, outermost first, as pairs of a
size and a stride, in elements. What is answered holds for all sizes of two or more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import sympy

from .sizes import Size, less

Dims = tuple[tuple[Size, Size], ...]


class View(NamedTuple):
    """The elements at `offset` and so many strides further."""

    dims: Dims
    offset: Size

    @property
    def merged(self) -> View:
        """The same elements in the same order, of the fewest dimensions."""
        return View(merged(self.dims), self.offset)

    def texts(self, text: Callable[[Size], object]) -> list[object]:
        """Its numbers, as `text` writes each."""
        numbers = (*(number for dim in self.dims for number in dim), self.offset)
        return [text(number) for number in numbers]


class Window(NamedTuple):
    """Which part of a row, from `start` up to `stop`, a view has to stay in."""

    start: Size
    stop: Size


@lru_cache(2**16)
def equal(a: Size, b: Size) -> bool:
    """Whether two sizes are the same one."""
    if a == b or (isinstance(a, int) and isinstance(b, int)):
        return bool(a == b)
    return bool(sympy.expand(a - b) == 0)


@lru_cache(2**16)
def quotient(a: Size, b: Size) -> Size | None:
    """a / b where that is a whole number at all sizes; else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if b == 0:
        return None
    found = sympy.cancel(sympy.sympify(a) / b)
    if not found.is_integer:
        return None
    return int(found) if found.is_Integer else found


def product(sizes: Iterable[Size]) -> Size:
    """All of them multiplied; 1 of none."""
    found: Size = 1
    for size in sizes:
        found = found * size
    return found


def merged(dims: Dims) -> Dims:
    """Dimensions that go over the same elements in the same order, as few as can be."""
    found: list[tuple[Size, Size]] = []
    for size, stride in dims:
        if equal(size, 1):
            continue
        if found and equal(found[-1][1], size * stride):
            found[-1] = found[-1][0] * size, stride
        else:
            found.append((size, stride))
    return tuple(found)


def row_major(sizes: Sequence[Size]) -> Dims:
    """The dimensions of memory that has its elements in order."""
    strides: list[Size] = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return tuple(zip(sizes, reversed(strides), strict=False))


def stored_order(dims: Dims) -> list[int] | None:
    """Indices of dimensions as a memory without gaps has them, outermost first; None
    if it has gaps, or that can't be told."""
    found, step = list[int](), sympy.S.One
    left = [i for i, (size, _) in enumerate(dims) if not equal(size, 1)]
    while left:
        inner = next((i for i in left if equal(dims[i][1], step)), None)
        if inner is None:
            return None
        left.remove(inner)
        found.append(inner)
        step = step * dims[inner][0]
    return found[::-1]


def through(view: View, space: Dims, window: Window | None = None) -> View | None:
    """A view of what has the elements of `space` in order, seen in what `space` views.

    `space` has its strides there. The innermost of it may have a `window` that the view
    stays in, which is seen from its start. None where no view does that.
    """
    if window is None:
        space = merged(space)
    steps = [stride for _, stride in row_major([size for size, _ in space])]
    turned = [less(stride, 0) for _, stride in view.dims]  # gone through backwards
    backwards = sum(
        (n - 1) * t for (n, t), is_ in zip(view.dims, turned, strict=True) if is_
    )
    begins = _begins(view.offset + backwards, steps)
    if begins is None:
        return None
    ends = list(begins)
    made: list[tuple[Size, Size]] = []
    last: Size = 0
    for (size, stride), is_turned in zip(view.dims, turned, strict=True):
        step = -stride if is_turned else stride
        found = _spread(size, step, space, steps, ends)
        if found is None:
            return None
        if is_turned:
            last = last + sum((n - 1) * t for n, t in found)
            found = [(n, -t) for n, t in found]
        made += found
    for end, (size, _) in zip(ends, space, strict=True):
        if not less(end, size):
            return None
    offset = last
    for begin, (_, stride) in zip(begins, space, strict=True):
        offset = offset + begin * stride
    if window is not None:
        if less(begins[-1], window.start) or not less(ends[-1], window.stop):
            return None
        if not equal(begins[-1], window.start) and not less(window.start, begins[-1]):
            return None
        offset = offset - window.start * space[-1][1]
    return View(tuple(made), offset)


def _begins(offset: Size, steps: Sequence[Size]) -> list[Size] | None:
    """An offset as a number of steps of each kind; none of them leads into the next."""
    found: list[Size] = []
    for step in steps:
        count = quotient(offset, step)
        if count is None and isinstance(offset, int) and isinstance(step, int):
            count = offset // step
        if count is None:  # of a sum, what has the step as a factor
            terms = sympy.Add.make_args(sympy.expand(offset))
            count = sum(filter(None, (quotient(term, step) for term in terms)))
        found.append(count)
        offset = offset - count * step
        if not isinstance(offset, int):
            offset = sympy.expand(offset)
    return found if equal(offset, 0) else None


def _spread(
    size: Size, stride: Size, space: Dims, steps: Sequence[Size], ends: list[Size]
) -> list[tuple[Size, Size]] | None:
    """A dimension of a view as dimensions of what the space views, outermost first;
    adds to `ends`, how far each dimension of the space is gone through."""
    made: list[tuple[Size, Size]] = []
    if equal(size, 1) or equal(stride, 0):
        return [(size, 0)]
    if not less(0, stride):
        return None
    for at in reversed(range(len(space))):
        room, there = space[at]
        step = quotient(stride, steps[at])
        if step is None:
            return None
        if at and not less(step, room):  # the next one is where it goes
            continue
        if at == 0 or less(ends[at] + step * (size - 1), room):
            ends[at] = ends[at] + step * (size - 1)
            return [(size, step * there), *made]
        count = quotient(room, step)
        rest = quotient(size, count) if count is not None else None
        if count is None or rest is None:
            return None
        ends[at] = ends[at] + step * (count - 1)
        made.insert(0, (count, step * there))
        size, stride = rest, stride * count
        if equal(size, 1):
            return made
    return made if equal(size, 1) else None


def side_by_side(views: Sequence[View], at: int) -> View | None:
    """The view of which these are parts, one after the other along a dimension; None if
    they aren't."""
    for one, other in pairwise(views):
        (size, step), rest = one.dims[at], one.dims[:at] + one.dims[at + 1 :]
        same = rest == other.dims[:at] + other.dims[at + 1 :]
        if not same or not equal(other.dims[at][1], step):
            return None
        if not equal(other.offset, one.offset + size * step):
            return None
    first = views[0].dims[at]
    whole = sum(view.dims[at][0] for view in views), first[1]
    return View((*views[0].dims[:at], whole, *views[0].dims[at + 1 :]), views[0].offset)
