"""What the expressions of a law mean: integers, truth values, reals and parameters.

The symbols in them get their meaning from Semantics (goal.py), which also says what a
tensor term denotes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import z3

from ...language.pattern import Term, Var
from ...language.terms import Axes, Bool, Expr, Fn, Int, Perm, Real, Sizes
from ..kernel.scalars import PI, All, Const, FromInt, NegInf, NegZero, Op, Scalar
from ..kernel.smt import (
    both,
    choose,
    either,
    formula,
    fresh,
    integer,
    negate,
    quotient,
    remainder,
)
from ..kernel.tensors import Context, Tensor
from .gather import integer_element
from .index_maps import Axes as DenotedAxes
from .index_maps import axis_range


@dataclass
class PermMeaning:
    """A permutation as two callables."""

    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]

    def __call__(self, k: Any) -> Any:
        return self.forward(k)


@dataclass
class SizesMeaning:
    """A shape: its rank, and its size at a position; `name` tells shapes apart."""

    rank: Any
    dim: Callable[[Any], Any]
    name: str = ""

    def __call__(self, k: Any) -> Any:
        return self.dim(k)


class Expressions:
    """The meaning of expressions, given that of the symbols."""

    def __init__(self) -> None:
        self.context = Context()
        self._symbols: dict[str, Any] = {}
        self._bound: dict[str, Any] = {}
        self._positions: dict[int, tuple[Any, Any]] = {}

    def tensor(self, t: Term) -> Tensor:
        """What a term denotes."""
        raise NotImplementedError

    def scalar(self, leaf: Var) -> Scalar:
        """The value of a leaf with one element."""
        raise NotImplementedError

    def parameter(self, x: Any) -> Any:
        """A parameter of an operator, as its denotation takes it."""
        if isinstance(x, Int):
            return self.int(x)
        if isinstance(x, Real):
            return self.real(x)
        if isinstance(x, Bool):
            return self.truth(x)
        if isinstance(x, Perm):
            return (
                self._symbols[x.name]
                if x.name
                else PermMeaning(
                    lambda k: self.int(x(self._lift(k))),
                    lambda k: self.int(x.inverse(self._lift(k))),
                )
            )
        if isinstance(x, Fn):
            return (
                self._symbols[x.name]
                if x.name
                else (lambda k: self.int(x(self._lift(k))))
            )
        if isinstance(x, Axes):
            return self._symbols[x.name] if x.name else self._defined_axes(x)
        if isinstance(x, Sizes):
            return self._symbols[x.name] if x.name else self._defined_sizes(x)
        return x

    def _defined_sizes(self, x: Sizes) -> SizesMeaning:
        """A shape that a law writes out, in which no size is below 0."""
        rank, dim = self.int(x.rank), lambda k: self.int(x.dim(self._lift(k)))
        self.context.require(All(rank, lambda k: dim(k) >= 0), "the sizes of a shape")  # type: ignore[no-untyped-call]
        return SizesMeaning(rank, dim)

    def _defined_axes(self, x: Axes) -> DenotedAxes:
        if x.span is None:
            has = lambda k: self.truth(x.has(self._lift(k)))  # noqa: E731
            if x.numbering is None:
                return DenotedAxes(has)
            return DenotedAxes(
                has,
                self.int(x.count),
                lambda k: self.int(x.rest(self._lift(k))),
                lambda k: self.int(x.place(self._lift(k))),
            )
        return axis_range(*(self.int(end) for end in x.span))

    def _lift(self, k: Any) -> Int:
        """A position of the kernel's as an expression of the law's."""
        k = integer(k)
        return Int("number", k) if isinstance(k, int) else Int("kernel", k)

    def int(self, x: Any) -> Any:
        """A law's integer as one of the kernel."""
        head, args = x.head, x.args
        if head in ("number", "kernel"):
            return args[0]
        if head == "symbol":
            return self._symbols[args[0]]
        if head == "bound":
            return self._bound[args[0]]
        if head in _ARITHMETIC:
            return _ARITHMETIC[head](self.int(args[0]), self.int(args[1]))
        if head == "choose":
            return choose(self.truth(args[0]), self.int(args[1]), self.int(args[2]))
        if head == "first":
            return self._position(x)
        if head == "element":
            return integer_element(args[0].name, [self.int(k) for k in args[1:]])
        if head == "rank":
            return self.tensor(args[0]).rank
        if head == "dim":
            return self.tensor(args[0]).dim(self.int(args[1]))
        symbol = self.parameter(args[0])
        if head == "count":
            return symbol.count
        if head == "call":
            return symbol(self.int(args[1]))
        named = {"call_inverse": "inverse", "place": "place", "rest": "rest"}
        return getattr(symbol, named[head])(self.int(args[1]))

    def _position(self, x: Any) -> Any:
        """A position of which only the range is known.

        Raises ValueError of one that another position decides: it would be one for all.
        """
        if id(x) not in self._positions:
            if _other_positions(x):
                raise ValueError("a first position that hangs on another position")
            place = fresh("first")
            self._positions[id(x)] = x, place  # kept, or another may get its number
            self.context.assume(both(place >= 0, place <= self.int(x.args[0])))
        return self._positions[id(x)][1]

    def truth(self, x: Bool) -> Any:
        """A law's condition as a formula of the kernel."""
        head, args = x.head, x.args
        if head == "literal":
            return args[0]
        if head == "not":
            return negate(self.truth(args[0]))
        if head == "and":
            return both(self.truth(args[0]), self.truth(args[1]))
        if head == "or":
            return either(self.truth(args[0]), self.truth(args[1]))
        if head == "member":
            axes = self._symbols[args[0].name]
            return axes.has(self.int(args[1]))
        if head == "forall":
            count, guard = self._forall(x)
            return formula(All(count, guard).formula())
        if head in _COMPARISONS:  # z3 isn't told of reals: true or not, who knows
            return z3.FreshBool(head)
        a, b = self.int(args[0]), self.int(args[1])
        return {"less": a < b, "less_equal": a <= b, "equal": a == b}[head]

    def _forall(self, x: Bool) -> tuple[Any, Callable[[Any], Any]]:
        count, bound, condition = x.args

        def holds(k: Any) -> Any:
            self._bound[bound.args[0]] = k
            return self.truth(condition)

        return self.int(count), holds

    def assume(self, condition: Bool) -> None:
        """A precondition becomes a hypothesis, or a fact about scalars."""
        if condition.head == "and":
            for part in condition.args:
                self.assume(part)
        elif condition.head in _COMPARISONS:
            a, b = (self.real(x) for x in condition.args)
            self.context.scalar_facts.append(Op(_COMPARISONS[condition.head], a, b))
        elif condition.head == "forall":
            self.context.assume(All(*self._forall(condition)))
        else:
            self.context.assume(self.truth(condition))

    def real(self, x: Real) -> Scalar:
        """A law's real number as a scalar of the kernel."""
        head, args = x.head, x.args
        if head == "number":
            return Const(Fraction(args[0]))
        if head == "symbol":
            found: Scalar = self._symbols[args[0]]
            return found
        if head == "pi":
            return PI
        if head in _SPECIAL:
            return _SPECIAL[head]()
        if head == "value":
            return self.scalar(args[0])
        if head == "from_int":
            return FromInt(self.int(args[0]))
        parts = [self.real(a) for a in args]
        if head == "div":
            self.context.evaluated.append(parts[1])
        return Op(head, *parts)


def _other_positions(x: Any, own: frozenset[str] = frozenset()) -> bool:
    """Whether an expression speaks of positions that are bound outside it."""
    if not isinstance(x, Expr):
        return False
    if x.head in ("bound", "kernel"):
        return x.args[0] not in own
    if x.head in ("first", "forall"):
        own |= {x.args[1].args[0]}
    return any(_other_positions(each, own) for each in x.args)


_ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": quotient,
    "mod": remainder,
}
_SPECIAL = {"negative_zero": NegZero, "negative_infinity": NegInf}
_COMPARISONS = {
    "real_less": "less",
    "real_less_equal": "less_equal",
    "real_equal": "equal",
}
