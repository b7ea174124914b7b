"""Helpers of recurrent attention, copied into the emitted module when used."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def linear_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    heads: tuple[int, int],
    scale: float,
    state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention by a state [batch, heads, key size, value size] instead of scores.

    q, k and v are [batch, time, heads * size]; `heads` counts those of q, and those of
    v and the state; fewer of q or k are shared. At each time the state fades by
    exp(decay) and takes in k times v, of which with `beta` only what the state does
    not hold yet. Gives the output and the state.
    """
    kept = q.dtype if state is None else state.dtype
    queries = torch.unflatten(q, 2, (heads[0], -1)).float()
    keys = torch.unflatten(k, 2, (-1, queries.shape[3])).float()
    values = torch.unflatten(v, 2, (heads[1], -1)).float()
    keys = keys.repeat_interleave(heads[1] // keys.shape[2], dim=2)
    queries = queries.repeat_interleave(max(heads) // heads[0], dim=2)
    if state is None:
        state = keys.new_zeros(q.shape[0], heads[1], keys.shape[3], values.shape[3])
    state = state.float()
    y = values.new_zeros(*q.shape[:2], max(heads), values.shape[3])
    for i in range(q.shape[1]):
        new = values[:, i]
        if decay is not None:
            fade = torch.unflatten(decay[:, i], 1, (heads[1], -1, 1))
            state = state * fade.float().exp()
        if beta is not None:
            held = (keys[:, i, :, None] @ state).squeeze(2)
            new = beta[:, i, :, None].float() * (new - held)
        state = state + keys[:, i, :, :, None] * new[:, :, None]
        shared = state.repeat_interleave(max(heads) // heads[1], dim=1)
        y[:, i] = (queries[:, i, :, None] @ shared).squeeze(2)
    return (scale * y).flatten(2).to(q.dtype), state.to(kept)


def causal_conv1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Each channel of x [batch, channels, time] convolved with its own past.

    `state` holds what came before x, by default zeros. Gives the output and the state
    to go on with.
    """
    before = weight.shape[2] - 1
    x = F.pad(x, (before, 0)) if state is None else torch.cat([state, x], dim=2)
    y = F.conv1d(x, weight, bias, groups=x.shape[1])
    return y, x[:, :, x.shape[2] - before :]
