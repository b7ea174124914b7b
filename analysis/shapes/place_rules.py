"""Elements of integer and truth tensors of any size, as functions of their place.

Exporters write out how a mask or a position is computed: Range, Expand, Concat, Slice,
GatherND and their like, on tensors whose sizes aren't known. Each rule here repeats one
such operator on the function: an integer that grows by a fixed step along each axis,
or whether such an integer is negative. What is said holds for every place that a tensor
has, so an empty one satisfies anything. contents.py does the same element by element,
for tensors of few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir
import sympy

from ..graph.dims import Dim, Dims, at_least, same, simplify
from .node_facts import ShapeSite

if TYPE_CHECKING:
    from .index_functions import Places


@dataclass(frozen=True)
class Count:
    """`first` + steps[0] * place[0] + steps[1] * place[1] ...

    The step along an axis of size 1 is 0.
    """

    first: Dim
    steps: tuple[int, ...]

    def plus(self, other: Count, times: int = 1) -> Count:
        steps = zip(self.steps, other.steps, strict=True)
        first = simplify(self.first + times * other.first)
        return Count(first, tuple(a + times * b for a, b in steps))

    @property
    def is_constant(self) -> bool:
        return isinstance(self.first, int) and not any(self.steps)

    @property
    def is_natural(self) -> bool:
        """Never below 0."""
        return min(self.steps, default=0) >= 0 and at_least(self.first, 0) is True


@dataclass(frozen=True)
class Natural:
    """True where `count` is not below 0."""

    count: Count


@dataclass(frozen=True)
class Rows:
    """Along the last axis one count after the other: the places that GatherND reads."""

    counts: tuple[Count, ...]


Element = Count | Natural | Rows | bool
Found = Element | None

Rule = Callable[["Places", ShapeSite], Found]
RULES: dict[str, Rule] = {}


def rule(*operators: str) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


def constant(element: Dim, dims: Dims) -> Count:
    return Count(element, (0,) * len(dims))


def moved(found: Found, move: Callable[[Count], Count | None]) -> Found:
    """With another count in it; what is true or false throughout stays so."""
    if isinstance(found, bool):
        return found
    if not isinstance(found, Count | Natural):
        return None
    count = move(found if isinstance(found, Count) else found.count)
    return Natural(count) if count and isinstance(found, Natural) else count


def _out(site: ShapeSite) -> Dims | None:
    return site.shapes.dims(site.node.outputs[0])


def _number(site: ShapeSite, index: int) -> Dim | None:
    """The one element of an input."""
    content = site.content(index)
    return None if content is None or content.size != 1 else content.item()


# ---- where elements come from


@rule("Range")
def _range(places: Places, site: ShapeSite) -> Found:
    start, step = _number(site, 0), _number(site, 2)
    if start is None or not isinstance(step, int):
        return None
    return Count(start, (step,))


@rule("ConstantOfShape")
def _filled(places: Places, site: ShapeSite) -> Found:
    value, dims = site.attr("value"), _out(site)
    if value is None or dims is None:
        return None
    element = value.numpy().item()
    return element if isinstance(element, bool) else constant(int(element), dims)


# ---- the same elements in other places


@rule("Identity")
def _same(places: Places, site: ShapeSite) -> Found:
    return places.of(site.input(0))


@rule("Expand")
def _expanded(places: Places, site: ShapeSite) -> Found:
    dims, sizes = _out(site), site.content(1)
    if dims is None or sizes is None:
        return None
    return places.aligned(site.input(0), dims, [tuple(sizes.flat)])


@rule("Unsqueeze", "Squeeze", "Reshape", "Flatten")
def _renumbered(places: Places, site: ShapeSite) -> Found:
    """Axes of size 1 come or go; the others stay in order."""
    dims, out = site.dims(0) or (), _out(site) or ()
    before = [k for k, n in enumerate(dims) if n != 1]
    after = [k for k, n in enumerate(out) if n != 1]

    def move(count: Count) -> Count | None:
        pairs = list(zip(before, after, strict=False))
        if len(before) != len(after) or len(count.steps) != len(dims):
            return None
        if any(same(dims[a], out[b]) is not True for a, b in pairs):
            return None
        steps = {b: count.steps[a] for a, b in pairs}
        return Count(count.first, tuple(steps.get(k, 0) for k in range(len(out))))

    return moved(places.of(site.input(0)), move)


@rule("Transpose")
def _transposed(places: Places, site: ShapeSite) -> Found:
    def move(count: Count) -> Count:
        perm = site.attr("perm") or range(len(count.steps))[::-1]
        return Count(count.first, tuple(count.steps[k] for k in perm))

    return moved(places.of(site.input(0)), move)


@rule("Slice")
def _cut(places: Places, site: ShapeSite) -> Found:
    return moved(places.of(site.input(0)), lambda count: _slice(count, site))


def _slice(count: Count, site: ShapeSite) -> Count | None:
    rank, starts = len(count.steps), site.numbers(1)
    if starts is None:
        return None
    axes = site.axes(3, rank) if site.has(3) else list(range(len(starts)))
    strides = site.numbers(4) if site.has(4) else [1] * len(starts)
    if axes is None or strides is None:
        return None
    first, steps = count.first, list(count.steps)
    for axis, start, stride in zip(axes, starts, strides, strict=True):
        if steps[axis] == 0:
            continue  # the same all along the axis
        if start is None or at_least(start, 0) is not True:
            return None
        if not isinstance(stride, int) or stride < 1:
            return None
        # A start behind the end leaves no place to speak of.
        first = simplify(first + steps[axis] * start)
        steps[axis] *= stride
    return Count(first, tuple(steps))


@rule("Concat")
def _joined(places: Places, site: ShapeSite) -> Found:
    """The one function that all parts agree on, each where it has places."""
    out = _out(site)
    parts = [places.of(x) for x in site.node.inputs]
    if out is None or any(part is None or isinstance(part, Rows) for part in parts):
        return None
    if all(isinstance(part, bool) for part in parts):
        return parts[0] if len(set(parts)) == 1 else None
    if not all(isinstance(part, Count) for part in parts):
        return None
    axis = site.axis(len(out))
    counts = [part for part in parts if isinstance(part, Count)]
    rows = [site.dims(i) or () for i in range(len(counts))]
    if axis == len(out) - 1 and all(dims[axis] == 1 for dims in rows):
        return counts[0] if len(set(counts)) == 1 else Rows(tuple(counts))
    return _agreed(counts, rows, axis)


def _agreed(counts: Sequence[Count], rows: Sequence[Dims], axis: int) -> Found:
    offset: Dim = 0
    single, several = [], []
    for count, dims in zip(counts, rows, strict=True):
        begin = _of_nonempty(offset, dims)
        first = _of_nonempty(count.first, dims)
        if _of_nonempty(dims[axis], dims) == 1:
            steps = (*count.steps[:axis], 0, *count.steps[axis + 1 :])
            single.append((begin, Count(first, steps)))
        else:
            first = simplify(first - count.steps[axis] * begin)
            several.append(Count(first, count.steps))
        offset = simplify(offset + dims[axis])
    if not several or len(set(several)) > 1:
        return None
    (found,) = set(several)
    fixed = (*found.steps[:axis], 0, *found.steps[axis + 1 :])
    for begin, count in single:
        there = Count(simplify(found.first + found.steps[axis] * begin), fixed)
        if there != count:
            return None
    return found


def _of_nonempty(size: Dim, dims: Dims) -> Dim:
    """What a size is, given that a tensor of `dims` has elements."""
    if isinstance(size, int):
        return size
    for n in dims:
        if isinstance(n, sympy.Symbol) and n in size.free_symbols:
            more = sympy.Dummy(integer=True, nonnegative=True)
            size = simplify(sympy.expand(size.subs(n, more + 1)))
            if isinstance(size, int):
                return size
            size = simplify(size.subs(more, n - 1))
            if isinstance(size, int):
                return size
    return size


@rule("GatherND")
def _gathered(places: Places, site: ShapeSite) -> Found:
    rows, dims, given = places.of(site.input(1)), _out(site), site.dims(1)
    if isinstance(rows, Count) and given and isinstance(given[-1], int):
        rows = Rows((rows,) * given[-1])

    def move(count: Count) -> Count | None:
        if not isinstance(rows, Rows) or dims is None or site.attr("batch_dims", 0):
            return None
        if not all(row.is_natural and row.steps[-1] == 0 for row in rows.counts):
            return None  # one below 0 counts from the end
        read = constant(count.first, dims)
        for step, row in zip(count.steps, rows.counts, strict=True):
            read = read.plus(Count(row.first, row.steps[:-1]), step)
        return read

    return moved(places.of(site.input(0)), move)


# ---- arithmetic


@rule("Add", "Sub")
def _sum(places: Places, site: ShapeSite) -> Found:
    a, b = _operands(places, site)
    if not isinstance(a, Count) or not isinstance(b, Count):
        return None
    return a.plus(b, 1 if site.node.op_type == "Add" else -1)


def _operands(places: Places, site: ShapeSite) -> list[Found]:
    out, inputs = _out(site), site.node.inputs
    rows = [site.dims(i) for i in range(len(inputs))]
    known = [dims for dims in rows if dims is not None]
    if out is None or len(known) < len(rows):
        return [None] * len(rows)
    return [places.aligned(x, out, known) for x in inputs]


@rule("CumSum")
def _cumulated(places: Places, site: ShapeSite) -> Found:
    """Of a number that is the same everywhere."""
    found, axis = places.of(site.input(0)), _number(site, 1)
    if not isinstance(found, Count) or not found.is_constant:
        return None
    if found.first == 0:
        return found
    if (
        site.attr("exclusive", 0)
        or site.attr("reverse", 0)
        or not isinstance(axis, int)
    ):
        return None
    steps = list(found.steps)
    steps[axis] = int(found.first)
    return Count(found.first, tuple(steps))


@rule("Cast")
def _cast(places: Places, site: ShapeSite) -> Found:
    found, dims = places.of(site.input(0)), _out(site)
    if site.attr("to") != ir.DataType.BOOL:
        if isinstance(found, bool) and dims is not None:
            return constant(int(found), dims)
        return found if isinstance(found, Count) else None
    if isinstance(found, Count):
        return bool(found.first) if found.is_constant else None
    return found


# ---- truth


@rule("Equal")
def _equal(places: Places, site: ShapeSite) -> Found:
    a, b = _operands(places, site)
    if isinstance(a, bool) and isinstance(b, bool):
        return a == b
    if not isinstance(a, Count) or not isinstance(b, Count):
        return None
    difference = a.plus(b, -1)
    if difference.is_constant:
        return difference.first == 0
    return None


@rule("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def _compared(places: Places, site: ShapeSite) -> Found:
    a, b = _operands(places, site)
    if not isinstance(a, Count) or not isinstance(b, Count):
        return None
    operator = site.node.op_type
    difference = b.plus(a, -1) if operator.startswith("Less") else a.plus(b, -1)
    if not operator.endswith("Equal"):
        difference = replace(difference, first=simplify(difference.first - 1))
    return _natural(difference)


def _natural(count: Count) -> Natural | bool:
    if count.is_natural:
        return True
    return False if _opposite(count).is_natural else Natural(count)


def _opposite(count: Count) -> Count:
    """Not below 0 where `count` is."""
    return Count(simplify(-count.first - 1), tuple(-step for step in count.steps))


@rule("Not")
def _not(places: Places, site: ShapeSite) -> Found:
    found = places.of(site.input(0))
    if isinstance(found, bool):
        return not found
    return Natural(_opposite(found.count)) if isinstance(found, Natural) else None


@rule("And", "Or")
def _both(places: Places, site: ShapeSite) -> Found:
    a, b = _operands(places, site)
    decides = site.node.op_type == "Or"
    if decides in (a, b):
        return decides
    if (not decides) in (a, b):  # leaves the other as it is
        return b if a is (not decides) else a
    return a if a == b else None
