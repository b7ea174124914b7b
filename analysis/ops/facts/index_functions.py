"""Elements of integer and truth tensors of any size, as functions of their place.

Exporters write out how a mask or a position is computed: Range, Expand, Concat, Slice,
GatherND and their like, on tensors whose sizes aren't known. Each rule here repeats one
such operator on the function: an integer that grows by a fixed step along each axis,
or whether such an integer is negative. What is said holds for every place that a tensor
has, so an empty one satisfies anything. small_values.py does the same element by
element, for tensors of few.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir
import sympy

from ...graph.dims import Dim, Dims, at_least, same, simplify
from ...graph.shape_facts import NodeFacts, ShapeFacts
from .index_maps import IndexMap, Piece, Place


@dataclass(frozen=True)
class Count:
    """`first` + steps[0] * place[0] + steps[1] * place[1] ...

    The step along an axis of size 1 is 0.
    """

    first: Dim
    steps: tuple[Dim, ...]

    def plus(self, other: Count, times: Dim = 1) -> Count:
        """This and `times` the other, place by place."""
        steps = zip(self.steps, other.steps, strict=True)
        first = simplify(self.first + times * other.first)
        return Count(first, tuple(simplify(a + times * b) for a, b in steps))

    @property
    def is_constant(self) -> bool:
        """Whether it is one number throughout, and that is known."""
        return isinstance(self.first, int) and not any(self.steps)

    @property
    def is_natural(self) -> bool:
        """Never below 0."""
        return all(at_least(n, 0) is True for n in (self.first, *self.steps))


@dataclass(frozen=True)
class Natural:
    """True, or `number`, where `count` is not below 0; false, or 0, elsewhere."""

    count: Count
    number: int = 1  # or another one but 0


@dataclass(frozen=True)
class Rows:
    """Along the last axis one count after the other: the places that GatherND reads."""

    counts: tuple[Count, ...]


Element = Count | Natural | Rows | bool
Found = Element | None


class IndexFacts(NodeFacts):
    """One node, with what is known so about the elements of its inputs."""

    def __init__(
        self, node: ir.Node, shapes: ShapeFacts, known: Callable[[ir.Value], Found]
    ) -> None:
        super().__init__(node, shapes)
        self._known = known

    def of(self, index: int) -> Found:
        """The function of the input at `index`; None if absent or unknown."""
        value = self.input(index)
        return None if value is None else self._known(value)

    def operands(self) -> list[Found]:
        """The functions of all inputs, of places in what they are broadcast to."""
        out, count = self.out_dims(), len(self.node.inputs)
        rows = [self.dims(i) for i in range(count)]
        known = [dims for dims in rows if dims is not None]
        if out is None or len(known) < count:
            return [None] * count
        return [aligned(self.of(i), known[i], out, known) for i in range(count)]


Rule = Callable[[IndexFacts], Found]


def constant(element: Dim, dims: Dims) -> Count:
    """The same element at every place."""
    return Count(element, (0,) * len(dims))


def moved(found: Found, move: Callable[[Count], Count | None]) -> Found:
    """With another count in it; what is true or false throughout stays so."""
    if isinstance(found, bool):
        return found
    if not isinstance(found, Count | Natural):
        return None
    if isinstance(found, Count):
        return move(found)
    count = move(found.count)
    return None if count is None else replace(found, count=count)


def aligned(found: Found, dims: Dims, out: Dims, beside: Sequence[Dims] = ()) -> Found:
    """The element as a function of the place in `out`, which `dims` are broadcast to.

    `beside` are the sizes that they are broadcast with. Two that are merely taken for
    equal (dims.broadcast) say nothing: one may be 1.
    """
    shift = len(out) - len(dims)

    def move(count: Count) -> Count | None:
        for step, n, wide in zip(count.steps, dims, out[shift:], strict=True):
            if step and same(n, wide) is not True:
                return None
        for sizes in beside:
            steps = zip(
                reversed(count.steps), reversed(dims), reversed(sizes), strict=False
            )
            if any(
                s and n != 1 and m != 1 and same(n, m) is not True for s, n, m in steps
            ):
                return None
        return Count(count.first, (0,) * shift + count.steps)

    return moved(found, move)


def _number(site: NodeFacts, index: int) -> Dim | None:
    """The one element of an input."""
    content = site.content(index)
    return None if content is None or content.size != 1 else content.item()


# ---- where elements come from


def range_(site: IndexFacts) -> Found:
    """Range, where the start and the step are known."""
    start, step = _number(site, 0), _number(site, 2)
    if start is None or not isinstance(step, int):
        return None
    return Count(start, (step,))


def constant_of_shape(site: IndexFacts) -> Found:
    """ConstantOfShape: its value everywhere."""
    value, dims = site.attr("value"), site.out_dims()
    if value is None or dims is None:
        return None
    element = value.numpy().item()
    if isinstance(element, bool):
        return element
    return constant(int(element), dims) if element == element // 1 else None


def trilu(site: IndexFacts) -> Found:
    """Trilu of what is the same everywhere: that in a triangle, and 0 elsewhere."""
    found, dims = site.of(0), site.out_dims()
    behind = _number(site, 1) if site.has(1) else 0
    number = found.first if isinstance(found, Count) and found.is_constant else found
    if dims is None or behind is None or not isinstance(number, int):
        return None
    if not number:
        return found
    sign = 1 if site.attr("upper", 1) else -1
    steps = (*[0] * (len(dims) - 2), -sign, sign)
    return Natural(Count(simplify(-sign * behind), steps), int(number))


# ---- the same elements in other places


def followed(index_map: IndexMap) -> Rule:
    """What the only operand is at the place that is read."""

    def function(site: IndexFacts) -> Found:
        results, made = site.ask(index_map) or [], site.out_dims()
        pieces = results[0].pieces if results else ()
        if len(pieces) != 1 or pieces[0].bounds or made is None:
            return None
        (piece,), rank = pieces, len(made)
        return moved(site.of(piece.operand), lambda count: _read(count, piece, rank))

    return function


def _read(count: Count, piece: Piece, rank: int) -> Count | None:
    first, steps = count.first, list[Dim]([0] * rank)
    for step, place in zip(count.steps, piece.places, strict=True):
        if step and not isinstance(place, Place):
            return None
        if step and isinstance(place, Place):
            first = simplify(first + step * place.shift)
            steps[place.axis] += step * place.step
    return Count(first, tuple(steps))


def concat(site: IndexFacts) -> Found:
    """The one function that all parts agree on, each where it has places."""
    out = site.out_dims()
    parts = [site.of(i) for i in range(len(site.node.inputs))]
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


def gather_nd(site: IndexFacts) -> Found:
    """GatherND of a count, at places that are counts."""
    rows, dims, given = site.of(1), site.out_dims(), site.dims(1)
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

    return moved(site.of(0), move)


# ---- arithmetic


def _sum(times: int) -> Rule:
    def function(site: IndexFacts) -> Found:
        a, b = site.operands()
        if not isinstance(a, Count) or not isinstance(b, Count):
            return None
        return a.plus(b, times)

    return function


add, sub = _sum(1), _sum(-1)


def mul(site: IndexFacts) -> Found:
    """Mul by a number that is the same everywhere."""
    for a, b in (operands := site.operands()), operands[::-1]:
        if isinstance(a, Count) and isinstance(b, Count) and not any(b.steps):
            return Count(0, (0,) * len(a.steps)).plus(a, b.first)
    return None


def cum_sum(site: IndexFacts) -> Found:
    """Of a number that is the same everywhere."""
    found, axis = site.of(0), _number(site, 1)
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


def cast(site: IndexFacts) -> Found:
    """Cast between integers and truth."""
    found, dims = site.of(0), site.out_dims()
    if site.attr("to") != ir.DataType.BOOL:
        if isinstance(found, bool) and dims is not None:
            return constant(int(found), dims)
        return found if isinstance(found, Count | Natural) else None
    if isinstance(found, Natural):
        return Natural(found.count)
    if isinstance(found, Count):
        return bool(found.first) if found.is_constant else None
    return found


# ---- truth


def equal(site: IndexFacts) -> Found:
    """Equal: true or false throughout or in a triangle, where that is known."""
    a, b = site.operands()
    if isinstance(a, bool) and isinstance(b, bool):
        return a == b
    for part, other in (a, b), (b, a):
        number = other.first if isinstance(other, Count) and other.is_constant else None
        if isinstance(part, Natural) and number in (0, part.number):
            return Natural(part.count if number else opposite(part.count))
    if not isinstance(a, Count) or not isinstance(b, Count):
        return None
    difference = a.plus(b, -1)
    if difference.is_constant:
        return difference.first == 0
    return None


def _not_below(left: int, right: int, more: int = 0) -> Rule:
    """Whether one operand is at least the other, and by so much."""

    def function(site: IndexFacts) -> Found:
        operands = site.operands()
        a, b = operands[left], operands[right]
        if not isinstance(a, Count) or not isinstance(b, Count):
            return None
        difference = a.plus(b, -1)
        return _natural(replace(difference, first=simplify(difference.first - more)))

    return function


greater, greater_or_equal = _not_below(0, 1, more=1), _not_below(0, 1)
less, less_or_equal = _not_below(1, 0, more=1), _not_below(1, 0)


def _natural(count: Count) -> Natural | bool:
    if count.is_natural:
        return True
    return False if opposite(count).is_natural else Natural(count)


def opposite(count: Count) -> Count:
    """Not below 0 where `count` is."""
    return Count(simplify(-count.first - 1), tuple(-step for step in count.steps))


def not_(site: IndexFacts) -> Found:
    """Not."""
    found = site.of(0)
    if isinstance(found, bool):
        return not found
    return Natural(opposite(found.count)) if isinstance(found, Natural) else None


def _both(decides: bool) -> Rule:
    def function(site: IndexFacts) -> Found:
        a, b = site.operands()
        if decides in (a, b):
            return decides
        if (not decides) in (a, b):  # leaves the other as it is
            return b if a is (not decides) else a
        return a if a == b else None

    return function


and_, or_ = _both(False), _both(True)
