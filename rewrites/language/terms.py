"""The language of laws: integers, truth values and reals about tensors of any rank.

A law never computes with numbers: it builds these expressions once, and they are read
in two ways. The matcher evaluates them on the sizes of a real model (evaluate.py), the
prover translates them for z3 (proof/goal.py). An axis position counts from 0; per-axis
parameters (`Fn`, `Perm`) are functions of the position, so no rank is ever fixed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from .pattern import Term

_fresh = itertools.count()

IntLike: TypeAlias = "Int | int"
RealLike: TypeAlias = "Real | int | float | Fraction"
BoolLike: TypeAlias = "Bool | bool"


class Expr:
    """A head and its arguments; compared by identity, since == is not overloaded."""

    __slots__ = ("args", "head")

    def __init__(self, head: str, *args: Any) -> None:
        self.head = head
        self.args = args

    def __repr__(self) -> str:
        if self.head in ("number", "symbol", "bound"):
            return str(self.args[0])
        return f"{self.head}({', '.join(map(_text, self.args))})"

    def __bool__(self) -> bool:
        raise TypeError(f"the law branches on {self}; use choose(), & and |")


def _text(argument: object) -> str:
    name = getattr(argument, "name", None)
    return name if isinstance(name, str) else repr(argument)


class Int(Expr):
    """A whole number: a size, a rank, an axis, a position."""

    __slots__ = ()

    def __add__(self, other: IntLike) -> Int:
        return Int("add", self, integer(other))

    def __radd__(self, other: int) -> Int:
        return Int("add", integer(other), self)

    def __sub__(self, other: IntLike) -> Int:
        return Int("sub", self, integer(other))

    def __rsub__(self, other: int) -> Int:
        return Int("sub", integer(other), self)

    def __mul__(self, other: IntLike) -> Int:
        return Int("mul", self, integer(other))

    def __rmul__(self, other: int) -> Int:
        return Int("mul", integer(other), self)

    def __floordiv__(self, other: IntLike) -> Int:
        return Int("div", self, integer(other))

    def __mod__(self, other: IntLike) -> Int:
        return Int("mod", self, integer(other))

    def __lt__(self, other: IntLike) -> Bool:
        return Bool("less", self, integer(other))

    def __le__(self, other: IntLike) -> Bool:
        return Bool("less_equal", self, integer(other))

    def __gt__(self, other: IntLike) -> Bool:
        return Bool("less", integer(other), self)

    def __ge__(self, other: IntLike) -> Bool:
        return Bool("less_equal", integer(other), self)


class Real(Expr):
    """A real number: an attribute such as epsilon, or the one element of a constant."""

    __slots__ = ()

    def __add__(self, other: RealLike) -> Real:
        return Real("add", self, real(other))

    def __sub__(self, other: RealLike) -> Real:
        return Real("sub", self, real(other))

    def __mul__(self, other: RealLike) -> Real:
        return Real("mul", self, real(other))

    def __truediv__(self, other: RealLike) -> Real:
        return Real("div", self, real(other))

    def __lt__(self, other: RealLike) -> Bool:
        return Bool("real_less", self, real(other))

    def __le__(self, other: RealLike) -> Bool:
        return Bool("real_less_equal", self, real(other))

    def __gt__(self, other: RealLike) -> Bool:
        return Bool("real_less", real(other), self)

    def __ge__(self, other: RealLike) -> Bool:
        return Bool("real_less_equal", real(other), self)


NEGATIVE_INFINITY = Real("negative_infinity")


class Bool(Expr):
    """A condition, combined with & | ~."""

    __slots__ = ()

    def __and__(self, other: BoolLike) -> Bool:
        return Bool("and", self, truth(other))

    def __or__(self, other: BoolLike) -> Bool:
        return Bool("or", self, truth(other))

    def __invert__(self) -> Bool:
        return Bool("not", self)


def integer(x: IntLike) -> Int:
    """An integer term of a number or a term."""
    return x if isinstance(x, Int) else Int("number", int(x))


def real(x: RealLike | Int) -> Real:
    """A real; a float counts as the exact binary number it is."""
    if isinstance(x, Real):
        return x
    return Real("from_int", x) if isinstance(x, Int) else Real("number", Fraction(x))


def truth(x: BoolLike) -> Bool:
    """A condition of a truth value or a condition."""
    return x if isinstance(x, Bool) else Bool("literal", bool(x))


def eq(a: IntLike, b: IntLike) -> Bool:
    """a = b, of whole numbers."""
    return Bool("equal", integer(a), integer(b))


def real_eq(a: RealLike, b: RealLike) -> Bool:
    """a = b, of reals."""
    return Bool("real_equal", real(a), real(b))


def implies(a: BoolLike, b: BoolLike) -> Bool:
    """Where a holds, b does."""
    return ~truth(a) | b


def choose(condition: BoolLike, a: IntLike, b: IntLike) -> Int:
    """a where the condition holds, else b."""
    return Int("choose", truth(condition), integer(a), integer(b))


def least(a: IntLike, b: IntLike) -> Int:
    """The smaller of two."""
    return choose(integer(a) <= b, a, b)


def _bound() -> Int:
    """A position; no symbol of a law is called as it is."""
    return Int("bound", f"k:{next(_fresh)}")


def forall(count: IntLike, condition: Callable[[Int], BoolLike]) -> Bool:
    """The condition holds at every position 0 <= k < count."""
    k = _bound()
    return Bool("forall", integer(count), k, truth(condition(k)))


def first(count: IntLike, condition: Callable[[Int], BoolLike]) -> Int:
    """The first position 0 <= k < count where the condition holds, else the count.

    The prover knows of it only that it is in that range: what else a law needs of the
    position, it requires.
    """
    k = _bound()
    return Int("first", integer(count), k, truth(condition(k)))


class Fn:
    """A whole number per position: begins, steps, pads, a list of sizes.

    Either a symbol, which matching binds to the numbers in the model, or defined by an
    expression. `length` is the number of positions, usually the rank.
    """

    def __init__(self, length: IntLike, define: Callable[[Int], IntLike] | str) -> None:
        self.length = integer(length)
        self.name = define if isinstance(define, str) else ""
        self._define = None if isinstance(define, str) else define

    def __call__(self, k: IntLike) -> Int:
        if self._define is None:
            return Int("call", self, integer(k))
        return integer(self._define(integer(k)))

    def __repr__(self) -> str:
        if self.name:
            return self.name
        return f"[k < {self.length}: {self(Int('bound', ':k'))}]"


class Perm(Fn):
    """A permutation of the axes, with its inverse: output axis k is input axis p(k)."""

    def __init__(
        self,
        length: IntLike,
        define: Callable[[Int], IntLike] | str,
        inverse: Callable[[Int], IntLike] | None = None,
    ) -> None:
        super().__init__(length, define)
        self._inverse = inverse

    def inverse(self, k: IntLike) -> Int:
        """p^-1(k)."""
        if self._inverse is None:
            if not self.name:
                raise ValueError("a permutation that a law defines needs its inverse")
            return Int("call_inverse", self, integer(k))
        return integer(self._inverse(integer(k)))

    def inverted(self) -> Perm:
        """The inverse permutation."""
        return Perm(self.length, self.inverse, self.__call__)

    def after(self, first: Perm) -> Perm:
        """Transposing by `first`, then by this one, as one permutation."""
        return Perm(
            self.length,
            lambda k: first(self(k)),
            lambda k: self.inverse(first.inverse(k)),
        )


class Axes:
    """A set of axes of a tensor of rank `length`.

    `rest(k)` is where the k-th of the remaining axes (not in the set) stands,
    `place(j)` which one of them axis j is, `count` the number of axes in the set. A set
    that a law defines by a condition has membership alone, unless it gives these three
    as `numbering`.
    """

    def __init__(
        self,
        length: IntLike,
        define: Callable[[Int], BoolLike] | str,
        span: tuple[Int, Int] | None = None,
        numbering: tuple[Int, Callable[[Int], Int], Callable[[Int], Int]] | None = None,
    ) -> None:
        self.length = integer(length)
        self.numbering = numbering
        self.name = define if isinstance(define, str) else ""
        self.span = span  # [first, last) where the set is a range, whatever `define`
        self._define = None if isinstance(define, str) else define

    def has(self, k: IntLike) -> Bool:
        """Whether axis k is in the set."""
        if self.span is not None:
            return (integer(k) >= self.span[0]) & (integer(k) < self.span[1])
        if self._define is None:
            return Bool("member", self, integer(k))
        return truth(self._define(integer(k)))

    @property
    def count(self) -> Int:
        """How many axes the set has."""
        if self.span is not None:
            return self.span[1] - self.span[0]
        if self.numbering is not None:
            return self.numbering[0]
        return Int("count", self)

    def rest(self, k: IntLike) -> Int:
        """The axis that is at place k of those not in the set."""
        if self.span is not None:
            return choose(integer(k) < self.span[0], k, integer(k) + self.count)
        if self.numbering is not None:
            return self.numbering[1](integer(k))
        return Int("rest", self, integer(k))

    def place(self, j: IntLike) -> Int:
        """The place of axis j among those not in the set."""
        if self.span is not None:
            return choose(integer(j) < self.span[0], j, integer(j) - self.count)
        if self.numbering is not None:
            return self.numbering[2](integer(j))
        return Int("place", self, integer(j))

    def __repr__(self) -> str:
        return self.name or f"{{k < {self.length}: {self.has(Int('bound', ':k'))}}}"


def axis_range(length: IntLike, first: IntLike, last: IntLike) -> Axes:
    """The axes first <= k < last of a tensor of rank `length`."""
    return Axes(length, "", (integer(first), integer(last)))


def one_axis(length: IntLike, axis: IntLike) -> Axes:
    """The set of one axis."""
    return axis_range(length, axis, integer(axis) + 1)


class Sizes:
    """A shape as a parameter (of Reshape, Expand): a rank and a size per position."""

    def __init__(self, rank: IntLike, define: Callable[[Int], IntLike] | str) -> None:
        self.rank = integer(rank)
        self.dim = Fn(rank, define)
        self.name = self.dim.name

    def __repr__(self) -> str:
        return f"sizes {self.dim}"


def sizes_of(term: Term) -> Sizes:
    """The shape of a tensor, as a parameter."""
    return Sizes(term.rank, term.dim)


def fixed(values: Sequence[IntLike]) -> Fn:
    """A list that the law writes out."""

    def define(k: Int) -> IntLike:
        found: IntLike = values[-1]
        for position in reversed(range(len(values) - 1)):
            found = choose(eq(k, position), values[position], found)
        return found

    return Fn(len(values), define)
