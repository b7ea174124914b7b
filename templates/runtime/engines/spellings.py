"""What oneDNN Graph lacks, or takes for something else, in other words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

MOST_SCORES = 2**25  # of an attention, to be computed as products
SCORES = 2**22  # of it, to be held at once


class Spelling(TorchFunctionMode):
    """Takes the place of calls that oneDNN Graph lacks, or takes for others."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.weights = {id(w) for w in (*model.parameters(), *model.buffers())}

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function in (Tensor.add, Tensor.mul) and len(args) == 2:
            args = self.spread(*args), self.spread(*args[::-1])
        return SPELLINGS.get(function, function)(*args, **(kwargs or {}))

    def spread(self, x: Any, other: Any) -> Any:
        """A weight as wide as what it meets: behind a product oneDNN loses it else."""
        if id(x) not in self.weights or not isinstance(other, Tensor):
            return x
        return x.expand(torch.broadcast_shapes(x.shape, other.shape))


def strided(pool: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """With the stride that a pool without one has."""

    def call(x: Tensor, kernel_size: Any, stride: Any = None, *a: Any, **k: Any) -> Any:
        return pool(x, kernel_size, stride or kernel_size, *a, **k)

    return call


def mean(x: Tensor, dim: Any = None, keepdim: bool = False, **k: Any) -> Tensor:
    """Over an image, as one pool."""
    if x.ndim != 4 or k or dim not in ((2, 3), (-2, -1), (-1, -2), [2, 3], [-2, -1]):
        return torch.mean(x, dim, keepdim, **k)
    pooled = F.avg_pool2d(x, (int(x.shape[2]), int(x.shape[3])), stride=1)
    return pooled if keepdim else pooled.flatten(1)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """oneDNN Graph takes the approximation by tanh for the exact function."""
    if approximate == "none":
        return F.gelu(x)
    inner = math.sqrt(2 / math.pi) * (1 + 0.044715 * x * x) * x
    return x * torch.sigmoid(2 * inner)  # (1 + tanh(inner)) / 2, in fewer passes


def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Any = None, **options: Any
) -> Tensor:
    """As two products, which oneDNN Graph joins; of some rows at a time if large."""
    scores = q.numel() // int(q.shape[-1]) * int(k.shape[-2])
    masked = attn_mask is not None and not attn_mask.is_floating_point()
    if options.keys() - {"scale"} or masked or scores > MOST_SCORES:
        return F.scaled_dot_product_attention(q, k, v, attn_mask, **options)
    rows = int(q.shape[-2])
    step = max(1, SCORES * rows // max(1, scores))
    if step < rows:
        parts = [
            attention(
                q[..., i : i + step, :], k, v, mask_of(attn_mask, i, step), **options
            )
            for i in range(0, rows, step)
        ]
        return torch.cat(parts, dim=-2)
    scale = options.get("scale", 1 / math.sqrt(int(q.shape[-1])))
    weights = torch.matmul(q, k.transpose(-2, -1)) * scale
    weights = weights if attn_mask is None else weights + attn_mask
    return torch.matmul(torch.softmax(weights, dim=-1), v)


def mask_of(mask: Any, start: int, rows: int) -> Any:
    """Of these rows, where each has its own."""
    own = mask is not None and int(mask.shape[-2]) > 1
    return mask[..., start : start + rows, :] if own else mask


SPELLINGS = {
    F.max_pool2d: strided(F.max_pool2d),
    F.avg_pool2d: strided(F.avg_pool2d),
    Tensor.mean: mean,
    F.gelu: gelu,
    F.scaled_dot_product_attention: attention,
}
