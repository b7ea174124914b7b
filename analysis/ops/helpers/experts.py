"""Helpers of mixtures of experts, copied into the emitted module when used."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def mixture_of_experts(
    x: Tensor,
    router: Tensor,
    up: Tensor,
    down: Tensor,
    up_bias: Tensor | None = None,
    down_bias: Tensor | None = None,
    count: int = 1,
    activation: Callable[[Tensor], Tensor] | None = None,
    normalise: bool = False,
    swiglu: tuple[float, float, float] | None = None,
    rounded: Callable[[Tensor, int], Tensor] | None = None,
    block: int = 0,
) -> Tensor:
    """Each token through the `count` experts of the highest scores, by their shares.

    The weights are [experts, out, in]. `swiglu` has every second number gate the next,
    by a slope, a shift and a limit; `rounded` rounds what is multiplied, by blocks.
    """
    tokens = x.reshape(-1, x.shape[-1])
    if rounded is not None:
        tokens = rounded(tokens, block).to(x.dtype)
    shares, chosen = router.float().softmax(dim=-1).topk(count, dim=-1)
    if normalise:
        shares = shares / shares.sum(dim=-1, keepdim=True)
    y = torch.zeros_like(tokens)
    for expert in range(len(up)):
        token, rank = (chosen == expert).nonzero(as_tuple=True)
        bias = None if up_bias is None else up_bias[expert]
        hidden = F.linear(tokens[token], up[expert], bias)
        if swiglu is not None:
            slope, shift, limit = swiglu
            gate = hidden[:, ::2].clamp(max=limit)
            linear = hidden[:, 1::2].clamp(-limit, limit)
            hidden = gate * torch.sigmoid(slope * gate) * (linear + shift)
        elif activation is not None:
            hidden = activation(hidden)
        if rounded is not None:
            hidden = rounded(hidden, block).to(x.dtype)
        bias = None if down_bias is None else down_bias[expert]
        made = F.linear(hidden, down[expert], bias)
        y.index_add_(0, token, made * shares[token, rank, None].to(x.dtype))
    return y.view_as(x)


def gelu_by_tanh(x: Tensor) -> Tensor:
    """GELU as it is approximated with tanh."""
    return F.gelu(x, approximate="tanh")
