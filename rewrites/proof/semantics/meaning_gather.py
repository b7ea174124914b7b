"""Meanings of operators that read at places which a tensor of whole numbers tells.

Such a tensor is known by its elements: a function of the index into the whole numbers,
one function for each name. An element is the same whole number wherever the name and
the index are the same, so its sign can decide from which side it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import z3

from ..kernel.scalars import Const, Element, FromInt, Op, Scalar
from ..kernel.smt import INT, IndexMap, Integer, choose, integer, term, within
from ..kernel.tensors import Context, Tensor
from . import gather
from .table import means


def integer_element(name: str, place: Sequence[Integer]) -> Any:
    """The element of a named tensor of whole numbers, of no axes or more."""
    f = z3.Function(f"element:{name}", *[INT] * len(place), INT)
    return f(*map(term, place))


def whole(x: Scalar) -> Integer:
    """A scalar as the whole number it is; ValueError if it isn't known as one."""
    if isinstance(x, FromInt):
        return x.value
    if isinstance(x, Const) and x.value.denominator == 1:
        return int(x.value)
    if isinstance(x, Op) and x.name in _ARITHMETIC:
        return _ARITHMETIC[x.name](*map(whole, x.args))
    if not isinstance(x, Element) or x.member is not None:
        raise ValueError(f"{x!r} is no element of a tensor of whole numbers")
    if isinstance(x.rank, int):
        return integer_element(x.tensor, [x.index(k) for k in range(x.rank)])
    k = z3.Int("k:place")
    inside = z3.simplify(term(x.index(k)))
    f = z3.Function(f"elements:{x.tensor}", z3.ArraySort(INT, INT), INT)
    return f(z3.Lambda([k], z3.If(within(k, x.rank), inside, 0)))


_ARITHMETIC: dict[str, Callable[..., Integer]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
}


def from_front(n: Integer, size: Integer) -> Integer:
    """A place that counts from the end where it is negative."""
    return choose(integer(n) < 0, n + size, n)


@means("Gather")
def _gather(context: Context, x: Tensor, indices: Tensor, axis: Integer) -> Tensor:
    def place(index: IndexMap) -> Integer:
        return from_front(whole(indices.at(index)), x.dim(axis))

    return gather.gather_index(context, x, axis, indices.rank, indices.dim, place)
