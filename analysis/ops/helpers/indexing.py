"""Functions that emitted modules copy when an index computation needs several steps."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def one_hot(indices: Tensor, depth: int, values: Tensor, axis: int = -1) -> Tensor:
    """values[1] where the new axis of `depth` classes is at the index, else values[0].

    A negative index counts from the end; one out of range gives values[0] only.
    """
    indices = indices.long()
    indices = torch.where(indices < 0, indices + depth, indices)
    hot = indices.unsqueeze(-1) == torch.arange(depth, device=indices.device)
    return torch.where(hot, values[1], values[0]).movedim(-1, axis)


def gather_nd(x: Tensor, indices: Tensor, batch_dims: int) -> Tensor:
    """x[i, ..., indices[i, ..., :]] for every i of the first `batch_dims` axes."""
    batch = x.shape[:batch_dims]
    x, indices = x.flatten(0, batch_dims - 1), indices.flatten(0, batch_dims - 1)
    item = torch.arange(x.shape[0], device=x.device)
    item = item.reshape(-1, *[1] * (indices.dim() - 2))
    places = (item, *indices.unbind(-1))
    found = x[places]
    return found.reshape(*batch, *found.shape[1:])


def top_k(
    x: Tensor, k: int, dim: int = -1, largest: bool = True
) -> tuple[Tensor, Tensor]:
    """The k largest elements in order, and where they are; the first of equals wins.

    torch.topk leaves open which of equal elements it returns.
    """
    values, indices = x.sort(dim=dim, descending=largest, stable=True)
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


def unique(
    x: Tensor, dim: int | None = None, in_order: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The distinct elements, or slices along `dim`, of x.

    Returns them with the place of their first occurrence, the place in the result of
    each element of x, and how often each occurs. They are in ascending order, or in
    order of first occurrence.
    """
    if dim is not None and not x.numel():  # slices of nothing are equal
        found = unique(x.new_zeros(x.shape[dim]))
        return x.narrow(dim, 0, len(found[0])), *found[1:]
    values, inverse, counts = torch.unique(
        x, return_inverse=True, return_counts=True, dim=dim
    )
    inverse = inverse.flatten()
    places = torch.arange(inverse.numel(), device=x.device)
    first = torch.full_like(counts, inverse.numel())
    first = first.scatter_reduce(0, inverse, places, "amin")
    if not in_order:
        order = first.argsort()
        axis = 0 if dim is None else dim
        values = values.movedim(axis, 0)[order].movedim(0, axis)
        first, counts = first[order], counts[order]
        inverse = order.argsort()[inverse]
    return values, first, inverse, counts


def unique_strings(
    x: np.ndarray, device: torch.device, dim: int | None = None, in_order: bool = True
) -> tuple[np.ndarray, Tensor, Tensor, Tensor]:
    """The distinct strings, or slices along `dim`, as `unique` has it of numbers."""
    distinct, ranks = np.unique(x, return_inverse=True)
    places = torch.from_numpy(ranks.reshape(x.shape)).to(device)
    values, first, inverse, counts = unique(places, dim, in_order)
    return distinct[values.numpy(force=True)], first, inverse, counts


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, reduce: str) -> Tensor:
    """x with updates[i] combined into x[tuple(indices[i])], one after the other.

    `reduce` is "prod", "amin" or "amax".
    """
    depth = indices.shape[-1]
    head, tail = x.shape[:depth], x.shape[depth:]
    row = torch.zeros_like(indices[..., 0])
    for size, index in zip(head, indices.unbind(-1), strict=True):
        row = row * size + index % size
    rows = x.reshape(math.prod(head), math.prod(tail))
    updates = updates.reshape(row.numel(), math.prod(tail))
    row = row.reshape(-1, 1).expand_as(updates)
    return rows.scatter_reduce(0, row, updates, reduce).reshape(x.shape)


def tensor_scatter(
    cache: Tensor,
    update: Tensor,
    starts: Tensor | None = None,
    axis: int = -2,
    circular: bool = False,
) -> Tensor:
    """cache with update[i] written into cache[i] along `axis` from starts[i] on.

    A circular cache goes on at its begin when its end is reached.
    """
    cache, update = cache.movedim(axis, 1), update.movedim(axis, 1)
    item = torch.arange(cache.shape[0], device=cache.device)[:, None]
    place = torch.arange(update.shape[1], device=cache.device)[None, :]
    if starts is not None:
        place = place + starts[:, None]
    if circular:
        place = place % cache.shape[1]
    return cache.index_put((item, place.expand(len(cache), -1)), update).movedim(
        1, axis
    )


def range_of(
    start: float,
    limit: float,
    step: float = 1,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> Tensor:
    """torch.arange, with nothing in it where the limit is behind the start."""
    limit = max(start, limit) if step > 0 else min(start, limit)
    return torch.arange(start, limit, step, dtype=dtype, device=device)
