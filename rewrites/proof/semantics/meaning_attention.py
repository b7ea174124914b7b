"""Meanings of attention and what surrounds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernel.scalars import All, Const, FromInt, Ite, NegInf, Op, Scalar
from ..kernel.smt import (
    IndexMap,
    Integer,
    both,
    choose,
    either,
    fresh_function,
    integer,
    known,
    quotient,
)
from ..kernel.tensors import Context, Tensor, shape
from . import attention
from .contraction import matmul, swap_last
from .elementwise import elementwise, mul
from .meaning_gather import from_front, whole
from .reduction import softmax
from .table import means


@means("IsNaN")
def _isnan(context: Context, x: Tensor) -> Tensor:
    """x is NaN where it isn't equal to itself."""
    return elementwise(context, lambda a: Op("not", Op("equal", a, a)), x)


@means("Attention")
def _attention(
    context: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: Any,
    causal: int,
) -> Tensor:
    context.require(both(q.dim(0) == k.dim(0), q.dim(0) == v.dim(0)), "one batch")
    context.require(both(k.dim(1) == v.dim(1), k.dim(2) == v.dim(2)), "values per key")
    group: Any = 1
    if known(q.dim(1) == k.dim(1)) is not True:
        group = quotient(q.dim(1), k.dim(1))
        whole = both(k.dim(1) >= 1, q.dim(1) == k.dim(1) * group)
        context.require(whole, "as many query heads for each head of keys")
    if mask is not None:
        sizes = (q.dim(0), q.dim(1), q.dim(2), k.dim(2))
        for axis, size in enumerate(sizes):
            fits = mask.dim(axis) == size
            if axis < 3:
                fits = either(fits, mask.dim(axis) == 1)
            context.require(fits, "the mask has an entry for each key")
        kept = _kept(mask)
        if kept is not None and isinstance(group, int) and not causal:
            return _selective(context, q, k, v, scale, kept)
    return attention.attention(context, q, k, v, mask, scale, group, bool(causal))


def _kept(mask: Tensor) -> Callable[[IndexMap], Any] | None:
    """Where a mask of 0 and -inf throughout is 0; None for any other mask."""

    def entry(i: IndexMap) -> Scalar:
        return mask.at(lambda k: choose(mask.dim(k) == 1, 0, i(k)))

    probe = entry(fresh_function("i"))
    if not isinstance(probe, Ite) or not isinstance(probe.b, NegInf):
        return None
    if not isinstance(probe.a, Const) or probe.a.value != 0:
        return None
    return lambda i: entry(i).condition  # type: ignore[attr-defined]


def _selective(
    context: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Any,
    kept: Callable[[IndexMap], Any],
) -> Tensor:
    """Attention to some of the keys: of numbers, x + 0 = x and x + -inf = -inf."""
    scores = mul(context, matmul(context, q, swap_last(k)), scale)

    def at(i: IndexMap) -> Scalar:
        return Ite(kept(i), scores.at(i), NegInf())

    masked = Tensor(scores.rank, scores.dim, at)
    return matmul(context, softmax(context, masked, 3), v)


@means("Range")
def _range(context: Context, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Successive whole numbers; other steps than 1 have no meaning here."""
    first, end, step = (whole(x.at(lambda k: 0)) for x in (start, limit, delta))
    if step != 1:
        raise ValueError("a Range that doesn't count by ones")
    count = choose(integer(end) > first, end - first, 0)
    return Tensor(1, shape(count), lambda i: FromInt(first + i(0)))


@means("GatherND")
def _gather_nd(context: Context, x: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    """x at the places that the last axis of the indices lists.

    On a left side alone: that the places are inside x isn't made an obligation.
    """
    rank, last = integer(x.rank), integer(indices.rank) - 1
    count = integer(indices.dim(last))
    numbers = all(isinstance(n, int) for n in (rank, last, count))
    if context.on_rhs or batch_dims or not numbers:
        raise ValueError("a GatherND whose places are not known")
    kept = last - count  # shift of the axes that are kept whole

    def size(k: Integer) -> Integer:
        return choose(integer(k) < last, indices.dim(k), x.dim(k - kept))

    def at(i: IndexMap) -> Scalar:
        def place(k: Integer) -> Integer:
            entry = indices.at(lambda j: choose(integer(j) == last, k, i(j)))
            return from_front(_whole(entry), x.dim(k))

        places = [place(k) if k < count else i(k + kept) for k in range(rank)]
        return x.at(shape(*places))

    return Tensor(rank + kept, size, at)


def _whole(x: Scalar) -> Integer:
    """As `whole`, of pieces of a Concat too."""
    if isinstance(x, Ite) and not isinstance(x.condition, All):
        return choose(x.condition, _whole(x.a), _whole(x.b))
    return whole(x)
