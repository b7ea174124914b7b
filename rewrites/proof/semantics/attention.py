"""Attention and rotary embeddings, composed of the operators they stand for."""

from __future__ import annotations

from ..kernel.scalars import All, Const, FromInt, Ite, NegInf, Op, Scalar
from ..kernel.smt import (
    IndexMap,
    Integer,
    Truth,
    both,
    choose,
    implies,
    quotient,
    remainder,
)
from ..kernel.tensors import Context, Tensor
from .contraction import matmul, swap_last
from .elementwise import Operand, add, mul, require_into, sub
from .index_maps import is_one, simple
from .movement import concat2, slice_axis
from .reduction import softmax


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
    weights = softmax(context, scores, simple(scores.rank - 1))
    return matmul(context, weights, v)


def _require_batches(context: Context, q: Tensor, k: Tensor, v: Tensor) -> None:
    """That the operands have the same batch axes, heads among them."""
    ranks = both(q.rank == k.rank, q.rank == v.rank, q.rank >= 2)
    context.require(ranks, "the ranks of attention")

    def same(axis: Integer) -> Truth:
        equal = both(q.dim(axis) == k.dim(axis), q.dim(axis) == v.dim(axis))
        return implies(axis < q.rank - 2, equal)

    context.require(All(q.rank, same), "the batch of attention")


def rotary_embedding(
    context: Context, x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> Tensor:
    """Pairs of the last axis turned: x [.., 2h]; cos, sin broadcast into [.., h].

    A pair is an element and the one h places on, or two neighbours if interleaved.
    """
    last = simple(x.rank - 1)
    half = quotient(x.dim(last), 2)
    context.require(both(x.rank >= 1, x.dim(last) == 2 * half), "pairs")
    if interleaved:
        first, second = _every_other(x, last, half, 0), _every_other(x, last, half, 1)
    else:
        first = slice_axis(context, x, last, 0, half)
        second = slice_axis(context, x, last, half, 2 * half)
    for table in (cos, sin):
        require_into(context, table, first, "the tables of a rotation")
    real = sub(context, mul(context, first, cos), mul(context, second, sin))
    imaginary = add(context, mul(context, first, sin), mul(context, second, cos))
    if not interleaved:
        return concat2(context, last, real, imaginary)

    def at(i: IndexMap) -> Scalar:
        def pair(k: Integer) -> Integer:
            return choose(k == last, quotient(i(k), 2), i(k))

        even = remainder(i(last), 2) == 0
        return Ite(even, real.at(pair), imaginary.at(pair))

    return Tensor(x.rank, x.dim, at)


def _every_other(x: Tensor, axis: Integer, count: Integer, first: int) -> Tensor:
    return Tensor(
        x.rank,
        lambda k: choose(k == axis, count, x.dim(k)),
        lambda i: x.at(lambda k: choose(k == axis, 2 * i(k) + first, i(k))),
    )
