"""Helpers of normalisation, copied into the emitted module when used."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def batch_norm_in_training(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    momentum: float,
    eps: float = 1e-5,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise by the batch's own moments; also returns the running moments.

    `momentum` is the share that the old moments keep; variances are over N, not N - 1.
    """
    axes = [axis for axis in range(x.dim()) if axis != 1]
    wide = x.double() if x.dtype == mean.dtype == var.dtype else x.float()
    now, spread = wide.mean(dim=axes), wide.var(dim=axes, correction=0)
    moments = now.to(mean.dtype), spread.to(var.dtype)
    y = F.batch_norm(x, *moments, weight, bias, eps=eps)
    mean = mean * momentum + moments[0] * (1 - momentum)
    return y, mean, var * momentum + moments[1] * (1 - momentum)


def layer_norm_with_statistics(
    x: Tensor, axis: int, weight: Tensor, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise over the axes from `axis` on; also the mean and 1 / deviation."""
    y = F.layer_norm(x, x.shape[axis:], eps=eps) * weight
    y = y if bias is None else y + bias
    axes = tuple(range(axis, 0))
    mean = x.float().mean(dim=axes, keepdim=True)
    var = x.float().var(dim=axes, correction=0, keepdim=True)
    return y, mean, (var + eps).rsqrt()


def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by the power of `size` neighbouring channels, one more behind if even."""
    squares = F.pad(x.square().transpose(1, -1), ((size - 1) // 2, size // 2))
    power = squares.unfold(-1, size, 1).sum(dim=-1).transpose(1, -1)
    return x / (k + alpha / size * power) ** beta


def lp_normalize(x: Tensor, dim: int, p: int = 2) -> Tensor:
    """Divide by the p-norm along `dim`; where that is 0, the result is 0."""
    norm = torch.linalg.vector_norm(x, ord=p, dim=dim, keepdim=True)
    return torch.where(norm == 0, 0, x / norm)
