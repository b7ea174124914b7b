"""What the denotations share: per-axis parameters, sets of axes, row-major offsets.

A denotation is sound when it is the operator: at every index inside its shape it gives
what ONNX says, under the conditions it requires. All positions and sizes may be Python
ints or z3 integers. Row-major order is the one thing here that isn't spelled out for a
symbolic rank: `RowMajor` uses that offset and position are inverse to each other, which
holds for every shape (induction on the rank, lemma LIN).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

import z3

from ..kernel.integer_terms import mentions
from ..kernel.scalars import All, Scalar, guard_formula
from ..kernel.smt import (
    INT,
    IndexMap,
    Integer,
    Truth,
    both,
    choose,
    every,
    fresh,
    fresh_function,
    implies,
    integer,
    larger,
    negate,
    proves,
    quotient,
    remainder,
    subterms,
    term,
    within,
)
from ..kernel.tensors import Context, Tensor


def per_axis(values: Sequence[Integer], elsewhere: Integer = 0) -> IndexMap:
    """A list as a function of the axis position."""

    def at(k: Integer) -> Integer:
        k = integer(k)
        if isinstance(k, int):
            return integer(values[k]) if 0 <= k < len(values) else elsewhere
        result = integer(elsewhere)
        for j in reversed(range(len(values))):
            result = choose(k == j, values[j], result)
        return result

    return at


@dataclass(frozen=True)
class Axes:
    """A set of axes of a tensor of some rank.

    has(k): is axis k in the set; count: how many are. rest(k): where the k-th axis that
    is not in the set stands; place(j): which one of those axis j is. Where no axis is
    removed or inserted only `has` is read.
    """

    has: Callable[[Integer], Truth]
    count: Integer = 0
    rest: IndexMap = integer
    place: IndexMap = integer

    def require(self, context: Context, rank: Integer) -> None:
        """That rest and place number the axes outside the set, in their order."""
        left, has, rest, place = rank - self.count, self.has, self.rest, self.place
        what = "a set of axes"
        context.require(both(self.count >= 0, left >= 0), what)
        require_each(
            context,
            left,
            rest,
            lambda k: both(
                within(rest(k), rank), negate(has(rest(k))), place(rest(k)) == k
            ),
            what,
        )
        require_each(
            context,
            rank,
            place,
            lambda j: implies(
                negate(has(j)), both(within(place(j), left), rest(place(j)) == j)
            ),
            what,
        )
        require_each(
            context, left, rest, lambda k: implies(k > 0, rest(k - 1) < rest(k)), what
        )


def axes_of(numbers: Sequence[int], rank: int) -> Axes:
    """A set of given axes of a tensor of given rank."""
    chosen = set(numbers)
    rest = [k for k in range(rank) if k not in chosen]
    place = [sum(j < k for j in rest) for k in range(rank)]
    member = per_axis([int(k in chosen) for k in range(rank)])
    return Axes(lambda k: member(k) == 1, len(chosen), per_axis(rest), per_axis(place))


@dataclass(frozen=True)
class AxisRange(Axes):
    """The axes low <= k < high, whose numbering needs no argument."""

    low: Integer = 0
    high: Integer = 0

    def require(self, context: Context, rank: Integer) -> None:
        inside = both(self.low >= 0, self.low <= self.high, self.high <= rank)
        context.require(inside, "a range of axes")


def one_axis(axis: Integer) -> Axes:
    """The set of one axis."""
    return AxisRange(
        lambda k: k == axis,
        1,
        lambda k: choose(k < axis, k, k + 1),
        lambda k: choose(k < axis, k, k - 1),
        axis,
        axis + 1,
    )


def axis_range(low: Integer, high: Integer) -> Axes:
    """The axes low <= k < high."""
    size = high - low
    return AxisRange(
        lambda k: both(k >= low, k < high),
        size,
        lambda k: choose(k < low, k, k + size),
        lambda k: choose(k < low, k, k - size),
        low,
        high,
    )


def require_each(
    context: Context,
    rank: Integer,
    trigger: IndexMap,
    condition: Callable[[Integer], Truth],
    what: str,
) -> None:
    """Require the condition at every 0 <= k < rank; z3 uses it where trigger(k) is."""
    if not context.on_rhs and not isinstance(integer(rank), int):
        seen = trigger(fresh("k"))
        if z3.is_app_of(seen, z3.Z3_OP_UNINTERPRETED) and seen.num_args():
            context.assume_each(rank, trigger, condition)
            return
    context.require(All(rank, condition), what)


def require_inverse(
    context: Context, count: Integer, f: IndexMap, g: IndexMap, what: str
) -> None:
    """Require that f and g map 0 <= k < count onto itself and undo each other."""

    def undone(a: IndexMap, b: IndexMap) -> Callable[[Integer], Truth]:
        return lambda k: both(within(a(k), count), b(a(k)) == k)

    require_each(context, count, f, undone(f, g), what)
    require_each(context, count, g, undone(g, f), what)


def require_everywhere(
    context: Context,
    rank: Integer,
    dim: IndexMap,
    condition: Callable[[IndexMap], Truth],
    what: str,
) -> None:
    """Require the condition at every index of a shape.

    As a hypothesis it is left out where the rank is symbolic: z3 can't quantify over
    indices then.
    """
    sizes = static_sizes(rank, dim)
    if sizes is not None:
        indices = itertools.product(*map(range, sizes))
        holds = [condition(per_axis(i)) for i in indices]
        context.require(both(*holds), what)
    elif context.on_rhs:
        index = fresh_function("j")
        inside = All(rank, lambda k: within(index(term(k)), dim(k)))
        goal = condition(lambda k: index(term(k)))
        context.require(implies(guard_formula(inside), goal), what)
    elif isinstance(integer(rank), int):
        numbers = [fresh("j") for _ in range(rank)]
        inside = All(rank, lambda k: within(numbers[k], dim(k)))
        body = implies(guard_formula(inside), condition(per_axis(numbers)))
        for number in numbers:
            body = every(number, body)
        context.require(body, what)


def static_sizes(rank: Integer, dim: IndexMap) -> list[int] | None:
    """The sizes of a shape that is known to the last number, else None."""
    rank = integer(rank)
    if not isinstance(rank, int):
        return None
    sizes = [integer(dim(k)) for k in range(rank)]
    return sizes if all(isinstance(size, int) for size in sizes) else None


def simple(x: Integer) -> Integer:
    """The integer in z3's simplest spelling."""
    return integer(z3.simplify(x)) if z3.is_expr(x) else integer(x)


def is_one(x: Integer) -> bool:
    """Is the integer evidently 1?"""
    return isinstance(integer(x), int) and bool(integer(x) == 1)


def larger_rank(context: Context, a: Integer, b: Integer) -> Integer:
    """The larger of two ranks, one of the two where that can be proved."""
    if a is b or (simple(a - b) == 0 and isinstance(simple(a - b), int)):
        return a
    if isinstance(simple(a - b), int):
        return a if simple(a - b) > 0 else b
    if proves(context.hypotheses, a >= b):
        return a
    return b if proves(context.hypotheses, b >= a) else larger(a, b)


def same_shape(
    context: Context, a: tuple[Integer, IndexMap], b: tuple[Integer, IndexMap]
) -> bool:
    """Are two shapes (rank, dim) equal for certain?"""
    if a[1] is b[1] and a[0] is b[0]:
        return True
    if not proves(context.hypotheses, a[0] == b[0]):
        return False
    if isinstance(integer(a[0]), int):
        equal = both(*(a[1](k) == b[1](k) for k in range(integer(a[0]))))
        return proves(context.hypotheses, equal)
    k = fresh("k")
    inside = within(k, a[0])
    return proves([*context.hypotheses, inside], a[1](k) == b[1](k))


def shape_of(t: Tensor) -> tuple[Integer, IndexMap]:
    """The rank, and the size of each axis."""
    return t.rank, t.dim


@dataclass(frozen=True)
class RowMajor:
    """The row-major order of the indices of one shape.

    Offsets and positions are written out where all sizes are known numbers (or there is
    at most one axis) and are uninterpreted otherwise, with one pair of functions per
    shape. An index counts inside the shape only.
    """

    context: Context
    rank: Integer
    dim: IndexMap
    name: str

    @property
    def numel(self) -> Integer:
        """The number of elements; 1 for rank 0."""
        if isinstance(self.rank, int):
            return math.prod(self.dim(k) for k in range(self.rank))
        return z3.Int(f"numel:{self.name}")

    def _strides(self) -> list[int] | None:
        if self.rank == 1 and isinstance(self.rank, int):
            return [1]
        sizes = static_sizes(self.rank, self.dim)
        if sizes is None:
            return None
        return [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]

    def _functions(self) -> tuple[Any, Any]:
        domain = (
            [INT] * self.rank
            if isinstance(self.rank, int)
            else [z3.ArraySort(INT, INT)]
        )
        return (
            z3.Function(f"offset:{self.name}", *domain, INT),
            z3.Function(f"position:{self.name}", INT, INT, INT),
        )

    def offset(self, index: IndexMap) -> Integer:
        """How many indices come before this one."""
        strides = self._strides()
        if strides is not None:
            return sum((index(k) * s for k, s in enumerate(strides)), start=0)
        offset, position = self._functions()
        k = z3.Int("k:offset")
        fixed = range(self.rank) if isinstance(self.rank, int) else [k]
        coordinates = [z3.simplify(term(index(axis))) for axis in fixed]
        for number in _numbers(position, coordinates, k):
            equal = both(
                *(
                    coordinate == position(number, axis)
                    for coordinate, axis in zip(coordinates, fixed, strict=True)
                )
            )
            if proves([*self.context.hypotheses, within(k, self.rank)], equal):
                return number
        if isinstance(self.rank, int):
            return offset(*coordinates)
        # Outside the shape every index is 0, so that equal indices look equal.
        return offset(z3.Lambda([k], z3.If(within(k, self.rank), coordinates[0], 0)))

    def index(self, number: Integer) -> IndexMap:
        """The index with `number` indices before it."""
        strides = self._strides()
        if strides is not None:
            digits = [quotient(number, s) if s != 1 else number for s in strides]
            # The first axis needs no remainder: the number is inside the shape.
            wrapped = [remainder(digits[k], self.dim(k)) for k in range(1, len(digits))]
            return per_axis([*digits[:1], *wrapped])
        offset, position = self._functions()
        if z3.is_expr(number) and z3.is_app(number) and number.decl().eq(offset):
            parts = number.children()
            if isinstance(self.rank, int):
                return per_axis(parts)
            return lambda k: integer(z3.simplify(z3.Select(parts[0], term(k))))
        return lambda k: position(term(number), term(k))


def _numbers(position: Any, coordinates: list[Any], k: Any) -> list[Any]:
    """The numbers whose positions occur in some coordinates, k aside."""
    found: dict[int, Any] = {}
    for e in subterms(coordinates):
        if z3.is_app(e) and e.decl().eq(position) and not mentions(e.arg(0), k):
            found[e.arg(0).get_id()] = e.arg(0)
    return list(found.values())


_shapes: WeakKeyDictionary[Context, list[RowMajor]] = WeakKeyDictionary()


def row_major(context: Context, rank: Integer, dim: IndexMap) -> RowMajor:
    """The order of a shape: the same one for shapes that are provably equal."""
    rank = simple(rank)
    if static_sizes(rank, dim) is not None:
        return RowMajor(context, rank, dim, "")
    known = _shapes.setdefault(context, [])
    for order in known:
        if same_shape(context, (order.rank, order.dim), (rank, dim)):
            return order
    # Named by what it says, so that the questions put to z3 don't depend on history.
    size = z3.simplify(term(dim(z3.Int("k:shape"))))
    spelling = f"{term(rank).sexpr()} {size.sexpr()}"
    digest = blake2b(spelling.encode(), digest_size=16).hexdigest()
    known.append(RowMajor(context, rank, dim, digest))
    return known[-1]


def numel(context: Context, rank: Integer, dim: IndexMap) -> Integer:
    """The number of elements of a shape."""
    return row_major(context, rank, dim).numel


class Buffer:
    """The scalar at each row-major offset, and tensors that are views of it."""

    def __init__(
        self, read: Callable[[Integer], Scalar], views: tuple[Tensor, ...]
    ) -> None:
        self.read = read
        self.views = views

    def __call__(self, number: Integer) -> Scalar:
        return self.read(number)


def buffer(context: Context, t: Tensor) -> Buffer:
    """The row-major elements of a tensor."""
    if isinstance(t.flat, Buffer):
        return t.flat
    if t.flat is not None:
        return Buffer(t.flat, (t,))
    order = row_major(context, t.rank, t.dim)
    return Buffer(lambda n: t.at(order.index(n)), (t,))
