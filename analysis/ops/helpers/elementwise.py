"""Functions that are copied into an emitted module when it uses them."""

from __future__ import annotations

import torch
from torch import Tensor


def shrink(x: Tensor, lambd: float, bias: float) -> Tensor:
    """Move values towards zero by `bias`; those within [-lambd, lambd] become zero."""
    moved = torch.where(x < -lambd, x + bias, x - bias)
    return torch.where(x.abs() > lambd, moved, 0)


def uint64_key(x: Tensor) -> Tensor:
    """uint64 as int64 in the same order, since PyTorch does not compare uint64."""
    return x.view(torch.int64) ^ torch.iinfo(torch.int64).min


def uint64_from_key(key: Tensor) -> Tensor:
    """The inverse of uint64_key."""
    return (key ^ torch.iinfo(torch.int64).min).view(torch.uint64)


def uint64_divide(x: Tensor, y: Tensor) -> Tensor:
    """x // y of uint64 tensors, which PyTorch does not divide.

    Half of x fits int64 and gives the quotient up to 1; a divisor of 2**63 or more,
    which is negative as int64, goes into x once or not at all.
    """
    a, b = x.view(torch.int64), y.view(torch.int64)
    half = (a >> 1) & torch.iinfo(torch.int64).max
    quotient = (half // b.clamp(min=1)) << 1
    quotient = torch.where(b < 0, 0, quotient)
    rest = (a - quotient * b) ^ torch.iinfo(torch.int64).min
    fits = rest >= (b ^ torch.iinfo(torch.int64).min)
    return (quotient + fits).view(torch.uint64)


def uint64_remainder(x: Tensor, y: Tensor) -> Tensor:
    """x % y of uint64 tensors, which PyTorch does not divide."""
    quotient = uint64_divide(x, y).view(torch.int64)
    return (x.view(torch.int64) - quotient * y.view(torch.int64)).view(torch.uint64)


def uint64_shift_right(x: Tensor, y: Tensor) -> Tensor:
    """x >> y of uint64 tensors; int64 would shift copies of the sign bit in."""
    a, b = x.view(torch.int64), y.view(torch.int64)
    half = (a >> 1) & torch.iinfo(torch.int64).max
    return torch.where(b == 0, a, half >> (b - 1)).view(torch.uint64)


def exclusive_cumsum(x: Tensor, dim: int) -> Tensor:
    """The sum of all elements before each one along `dim`."""
    total = x.cumsum(dim, dtype=x.dtype).roll(1, dim)
    total.narrow(dim, 0, min(1, x.shape[dim])).fill_(0)
    return total


def exclusive_cumprod(x: Tensor, dim: int) -> Tensor:
    """The product of all elements before each one along `dim`."""
    total = x.cumprod(dim, dtype=x.dtype).roll(1, dim)
    total.narrow(dim, 0, min(1, x.shape[dim])).fill_(1)
    return total


def product(x: Tensor, dims: list[int], keepdim: bool = False) -> Tensor:
    """The product over several axes; over all of them if `dims` is empty."""
    dims = dims or list(range(x.ndim))
    for dim in sorted((d % x.ndim for d in dims), reverse=True):
        x = x.prod(dim, keepdim=keepdim, dtype=x.dtype)
    return x
