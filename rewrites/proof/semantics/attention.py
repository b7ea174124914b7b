"""Attention and rotary embeddings, composed of the operators they stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..kernel.scalars import All, Const, FromInt, Ite, NegInf, Op, Scalar
from ..kernel.smt import (
    IndexMap,
    Integer,
    Truth,
    both,
    choose,
    either,
    fresh_function,
    implies,
    integer,
    known,
    quotient,
)
from ..kernel.tensors import Context, Tensor, shape
from .contraction import matmul, swap_last
from .elementwise import Operand, add, elementwise, mul, require_into, signed
from .gather import from_front, whole
from .index_maps import is_one, simple
from .reduction import softmax
from .table import means


def repeat_heads(context: Context, t: Tensor, group: Integer) -> Tensor:
    """[.., h, s, d] to [.., h*group, s, d]: every head `group` times in a row."""
    context.require(both(t.rank >= 3, group >= 1), "heads")
    heads = simple(t.rank - 3)
    return Tensor(
        t.rank,
        lambda k: choose(k == heads, t.dim(k) * group, t.dim(k)),
        lambda i: t.at(lambda k: choose(k == heads, quotient(i(k), group), i(k))),
    )


def causal(context: Context, scores: Tensor, offset: Integer = 0) -> Tensor:
    """Scores [.., q, k] with minus infinity where k > q + offset."""
    row, column = simple(scores.rank - 2), simple(scores.rank - 1)

    def at(i: IndexMap) -> Scalar:
        return Ite(i(column) <= i(row) + offset, scores.at(i), NegInf())

    return Tensor(scores.rank, scores.dim, at)


def attention(
    context: Context,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    scale: Operand | None = None,
    group: Integer = 1,
    is_causal: bool = False,
    offset: Integer = 0,
) -> Tensor:
    """softmax(q k^T * scale + mask) v, over any number of batch axes.

    q [.., h, s, d], k [.., h/group, t, d], v [.., h/group, t, e]; the mask broadcasts
    into [.., h, s, t]. The scale is 1/sqrt(d) if none is given.
    """
    if not is_one(group):
        k, v = repeat_heads(context, k, group), repeat_heads(context, v, group)
    if scale is None:
        scale = Const(1) / Op("sqrt", FromInt(q.dim(q.rank - 1)))
    _require_batches(context, q, k, v)
    scores = mul(context, matmul(context, q, swap_last(k)), scale)
    if mask is not None:
        require_into(context, mask, scores, "the mask")
        scores = add(context, scores, mask)
    if is_causal:
        scores = causal(context, scores, offset)
    return matmul(context, _weights(context, scores, simple(scores.rank - 1)), v)


def _weights(context: Context, scores: Tensor, axis: Integer) -> Tensor:
    """Softmax, with 0 for NaN: a query that may see nothing sees 0 in PyTorch."""

    def guarded(p: Scalar) -> Scalar:
        return Op("where", _is_nan(p), Const(0), p)

    return elementwise(context, guarded, softmax(context, scores, axis))


def _require_batches(context: Context, q: Tensor, k: Tensor, v: Tensor) -> None:
    """That the operands have the same batch axes, heads among them."""
    ranks = both(q.rank == k.rank, q.rank == v.rank, q.rank >= 2)
    context.require(ranks, "the ranks of attention")

    def same(axis: Integer) -> Truth:
        equal = both(q.dim(axis) == k.dim(axis), q.dim(axis) == v.dim(axis))
        return implies(axis < q.rank - 2, equal)

    context.require(All(q.rank, same), "the batch of attention")


@means("IsNaN")
def _isnan(context: Context, x: Tensor) -> Tensor:
    """A function of which nothing is known: of reals there is no NaN to speak of."""
    return elementwise(context, _is_nan, x)


def _is_nan(a: Scalar) -> Scalar:
    return signed("isnan", a)


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
    return attention(context, q, k, v, mask, scale, group, bool(causal))


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
    return matmul(context, _weights(context, masked, 3), v)


@means("Range")
def _range(context: Context, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    """Successive whole numbers; other steps than 1 have no meaning here."""
    context.require_one(start, limit, delta)
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
