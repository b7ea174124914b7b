"""Meanings of operators that write at places which a tensor of whole numbers tells."""

from __future__ import annotations

from typing import Any

from ..kernel.smt import Integer, fresh, implies, integer, proves, within
from ..kernel.tensors import Context, Tensor
from . import gather
from .meaning_gather import whole
from .table import means


@means("ScatterND")
def _scatter_nd(
    context: Context, data: Tensor, indices: Tensor, updates: Tensor
) -> Tensor:
    """Known where every row of the data is written once, row k by update k.

    The law has to say so: nothing is taken for granted here.
    """
    if _is_column(indices) and _numbers_rows(context, data, indices):
        return gather.scatter_rows(context, data, updates, integer, integer)
    return gather.scatter_nd(context, data, indices, updates)


def _is_column(indices: Tensor) -> bool:
    rank = integer(indices.rank)
    return isinstance(rank, int) and rank == 2 and _is(indices.dim(1), 1)


def _is(x: Integer, number: int) -> bool:
    return isinstance(integer(x), int) and integer(x) == number


def _numbers_rows(context: Context, data: Tensor, indices: Tensor) -> bool:
    """Whether the law requires that the indices be 0, 1, .. for all rows."""

    def row(k: Any) -> Integer:
        return whole(indices.at(lambda axis: k if _is(axis, 0) else 0))

    k = fresh("row")
    in_order = implies(within(k, indices.dim(0)), row(k) == k)
    complete = indices.dim(0) == data.dim(0)
    return all(proves(context.hypotheses, goal) for goal in (complete, in_order))
