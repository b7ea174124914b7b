"""Replacing symbols inside scalar terms, and finding out whether they occur.

Sound when a replacement's own symbols are never captured: bodies of reductions and
`All` conditions are Python functions that are handed fresh symbols, so nothing in them
can be bound by accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .integer_terms import Substitution, substitute
from .scalars import (
    All,
    Element,
    FromInt,
    Guard,
    Ite,
    NegInf,
    Op,
    Opaque,
    Red,
    Scalar,
    guard_formula,
)
from .smt import POSITION, Integer, bound, bound_function, remembered
from .tensors import Tensor


def in_map(f: Callable[[Any], Any], pairs: Substitution) -> Callable[[Any], Any]:
    """The same function of a position, with the symbols replaced in its result."""
    return remembered(lambda k: substitute(f(k), pairs))


def in_guard(guard: Guard, pairs: Substitution) -> Guard:
    """The guard with variables replaced."""
    if isinstance(guard, All):
        return All(substitute(guard.rank, pairs), in_map(guard.cond, pairs))
    return substitute(guard, pairs)


def in_tensor(tensor: Tensor, pairs: Substitution) -> Tensor:
    """The tensor with variables replaced."""
    return Tensor(
        substitute(tensor.rank, pairs),
        in_map(tensor.dim, pairs),
        lambda i: in_scalar(tensor.at(i), pairs),
    )


def in_scalar(scalar: Scalar, pairs: Substitution) -> Scalar:
    """The term with the symbols of the pairs replaced wherever they are free."""
    if isinstance(scalar, Element):
        index = in_map(scalar.index, pairs)
        member = None if scalar.member is None else substitute(scalar.member, pairs)
        rank = substitute(scalar.rank, pairs)
        return Element(scalar.tensor, rank, index, scalar.extended, member)
    if isinstance(scalar, FromInt):
        return FromInt(substitute(scalar.value, pairs))
    if isinstance(scalar, Op):
        return Op(scalar.name, *(in_scalar(a, pairs) for a in scalar.args))
    if isinstance(scalar, Ite):
        a, b = in_scalar(scalar.a, pairs), in_scalar(scalar.b, pairs)
        return Ite(in_guard(scalar.condition, pairs), a, b)
    if isinstance(scalar, Red):
        size = scalar.size
        size = in_map(size, pairs) if scalar.vec else substitute(size, pairs)
        rank = substitute(scalar.rank, pairs)
        sel = in_map(scalar.sel, pairs)
        inner = scalar.body
        return Red(
            scalar.kind,
            size,
            lambda b: in_scalar(inner(b), pairs),
            scalar.vec,
            rank,
            sel,
        )
    if isinstance(scalar, Opaque):
        tensors = tuple(in_tensor(t, pairs) for t in scalar.tensors)
        rank = None if scalar.rank is None else substitute(scalar.rank, pairs)
        return Opaque(scalar.name, tensors, in_map(scalar.index, pairs), rank)
    return scalar


def positions(rank: Integer | None) -> list[Any]:
    """Positions that stand for all positions below the rank."""
    return list(range(rank)) if isinstance(rank, int) else [POSITION]


def parts(scalar: Scalar) -> Iterator[Any]:
    """All z3 expressions a term is made of, each at positions that stand for all."""
    if isinstance(scalar, Element):
        yield scalar.rank
        yield scalar.member
        yield from (scalar.index(k) for k in positions(scalar.rank))
    elif isinstance(scalar, FromInt):
        yield scalar.value
    elif isinstance(scalar, Op):
        for a in scalar.args:
            yield from parts(a)
    elif isinstance(scalar, Ite):
        yield guard_formula(scalar.condition)
        yield from parts(scalar.a)
        yield from parts(scalar.b)
    elif isinstance(scalar, Red):
        if scalar.vec:
            yield scalar.rank
            for k in positions(scalar.rank):
                yield from (scalar.size(k), scalar.sel(k))
        else:
            yield scalar.size
        yield from parts(scalar.body(bound_variable(scalar)))
    elif isinstance(scalar, Opaque):
        yield from (scalar.index(k) for k in positions(scalar.rank))
        for t in scalar.tensors:
            yield t.rank
            yield from (t.dim(k) for k in positions(t.rank))
            yield from parts(t.at(bound_function("i")))


def bound_variable(red: Red) -> Any:
    """A fresh symbol for what the reduction runs over."""
    return bound_function("s") if red.vec else bound("s")


def may_be_infinite(scalar: Scalar) -> bool:
    """Does the term hold anything that may be infinite or NaN?"""
    if isinstance(scalar, NegInf):
        return True
    if isinstance(scalar, Element):
        return scalar.extended
    if isinstance(scalar, Op):
        return any(may_be_infinite(a) for a in scalar.args)
    if isinstance(scalar, Ite):
        return may_be_infinite(scalar.a) or may_be_infinite(scalar.b)
    if isinstance(scalar, Red):
        return may_be_infinite(scalar.body(bound_variable(scalar)))
    if isinstance(scalar, Opaque):
        return any(may_be_infinite(t.at(bound_function("i"))) for t in scalar.tensors)
    return False
