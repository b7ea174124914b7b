"""Scalar terms: what one element of a tensor is, as a function of its index.

Nothing here computes. The meaning of a term is fixed by equality alone:

  Op(name, ...)  some function of its arguments, the same for equal names; only `order`
                 and the normal form know more about particular names (listed there).
  Element        the element of a named tensor; equal names mean the same tensor.
  Red            a reduction of the values of `body` over all integers 0 <= b < size
                 (or all index functions b with 0 <= b(k) < size(k) at the positions
                 k < rank that `sel` selects, and b(k) = 0 elsewhere): a function of
                 the sizes and the indexed family of values. Over nothing a sum is 0, a
                 product 1, and a maximum -inf.
  Ite            chosen by a condition on indices; `where` is chosen by a scalar.
  Opaque         an element of a result nothing is known of, except that it is a
                 function of the tensors.

A term that holds `NegInf` or an `extended` element may be infinite or NaN, so algebra
over the reals must not touch it; everything else stands for a finite number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import z3

from .smt import (
    IndexMap,
    Integer,
    Truth,
    both,
    bound,
    bound_function,
    every,
    formula,
    implies,
    integer,
    remembered,
    term,
    within,
)

if TYPE_CHECKING:
    from .tensors import Tensor


class Scalar:
    """A term; the operators build `Op`, numbers on the other side become `Const`."""

    __slots__ = ()

    def __add__(self, other: Any) -> Scalar:
        return Op("add", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return Op("add", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return Op("sub", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return Op("sub", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return Op("mul", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return Op("mul", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return Op("div", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return Op("div", other, self)

    def __neg__(self) -> Scalar:
        return Op("neg", self)


class Const(Scalar):
    """A rational number."""

    __slots__ = ("value",)

    def __init__(self, value: int | float | Fraction) -> None:
        self.value = Fraction(value)

    def __repr__(self) -> str:
        return str(self.value)


class NegZero(Scalar):
    """-0.0: 0 over the reals, a different number in floating point."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "-0.0"


class NegInf(Scalar):
    """Minus infinity, as in attention masks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "-inf"


class FromInt(Scalar):
    """An integer (a size, an index) as a scalar."""

    __slots__ = ("value",)

    def __init__(self, value: Integer) -> None:
        self.value = integer(value)

    def __repr__(self) -> str:
        return f"real({self.value})"


class Symbol(Scalar):
    """A number known by name, such as an attribute."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


PI = Symbol(":pi")  # as no symbol of a law is called


class Element(Scalar):
    """The element of a named tensor at an index: a map from axis positions.

    In a family of tensors the `member` says which. `extended`: may be infinite or NaN.
    """

    __slots__ = ("extended", "index", "member", "rank", "tensor")

    def __init__(
        self,
        tensor: str,
        rank: Integer,
        index: IndexMap,
        extended: bool = False,
        member: Integer | None = None,
    ) -> None:
        self.tensor = tensor
        self.rank = integer(rank)
        self.index = remembered(index)
        self.extended = extended
        self.member = member

    def __repr__(self) -> str:
        member = "" if self.member is None else f"<{self.member}>"
        if isinstance(self.rank, int):
            at = ", ".join(
                str(z3.simplify(term(self.index(k)))) for k in range(self.rank)
            )
        else:
            at = f"k -> {z3.simplify(term(self.index(z3.Int('k'))))}".replace("\n", " ")
        return f"{self.tensor}{member}[{at}]"


class Op(Scalar):
    """A scalar function applied to scalars."""

    __slots__ = ("args", "name")

    def __init__(self, name: str, *args: Any) -> None:
        self.name = name
        self.args = tuple(lift(a) for a in args)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.args))})"


class All:
    """A condition on indices: `cond` holds at every axis position 0 <= k < rank."""

    __slots__ = ("cond", "rank")

    def __init__(self, rank: Integer, cond: Callable[[Integer], Truth]) -> None:
        self.rank = integer(rank)
        self.cond = cond

    def formula(self) -> Truth:
        """The condition as one formula: a conjunction, or a quantifier."""
        if isinstance(self.rank, int):
            return both(*(self.cond(k) for k in range(self.rank)))
        k = bound("ka")
        return every(k, implies(within(k, self.rank), self.cond(k)))

    def __repr__(self) -> str:
        return "All"


Guard: TypeAlias = "Truth | All"


def guard_formula(guard: Guard) -> Any:
    """The condition as one z3 truth value."""
    return formula(guard.formula() if isinstance(guard, All) else guard)


class Ite(Scalar):
    """One of two scalars, by a condition on indices."""

    __slots__ = ("a", "b", "condition")

    def __init__(self, condition: Guard, a: Any, b: Any) -> None:
        self.condition = condition
        self.a = lift(a)
        self.b = lift(b)

    def __repr__(self) -> str:
        return f"ite({self.condition}, {self.a!r}, {self.b!r})"


class Red(Scalar):
    """A reduction: kind is sum, prod, max or min; see the head of this file.

    vec=False: `size` is an integer and `body` maps an integer to a scalar. vec=True:
    `size` and `sel` are functions of the axis position and `body` maps an index.
    """

    __slots__ = ("body", "kind", "rank", "sel", "size", "vec")

    def __init__(
        self,
        kind: str,
        size: Any,
        body: Callable[[Any], Scalar],
        vec: bool = False,
        rank: Integer | None = None,
        sel: Callable[[Integer], Truth] | None = None,
    ) -> None:
        if kind not in ("sum", "prod", "max", "min"):
            raise ValueError(f"no reduction is called {kind}")
        if vec and rank is None:
            raise ValueError("a reduction over index functions needs a rank")
        self.kind = kind
        self.size = size if vec else integer(size)
        self.body = body
        self.vec = vec
        self.rank = integer(rank) if rank is not None else 0
        self.sel = sel or (lambda k: True)

    def __repr__(self) -> str:
        variable = bound_function("s") if self.vec else bound("s")
        return f"{self.kind}_{{{variable}}} {self.body(variable)!r}"


class Opaque(Scalar):
    """An element of a result of which nothing is known but what it was computed from.

    `rank` is the number of axis positions at which `index` matters: all if None.
    """

    __slots__ = ("index", "name", "rank", "tensors")

    def __init__(
        self,
        name: str,
        tensors: tuple[Tensor, ...],
        index: IndexMap,
        rank: Integer | None = None,
    ) -> None:
        self.name = name
        self.tensors = tuple(tensors)
        self.index = index
        self.rank = None if rank is None else integer(rank)

    def __repr__(self) -> str:
        return f"{self.name}(...)[...]"


def lift(x: Any) -> Scalar:
    """A Python number as a scalar."""
    if isinstance(x, Scalar):
        return x
    if isinstance(x, float) and x == -math.inf:
        return NegInf()
    if isinstance(x, float) and x == 0 and math.copysign(1, x) < 0:
        return NegZero()
    if isinstance(x, int | float | Fraction):
        return Const(x)
    raise TypeError(f"not a scalar: {x!r}")
