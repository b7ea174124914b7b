"""Helpers of attention, copied into the emitted module when used."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def masked_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    lengths: Tensor | None = None,
    heads: tuple[int, int] | None = None,
    scale: float | None = None,
    causal: bool = False,
    softcap: float = 0.0,
    window: tuple[int, int] = (-1, -1),
    softmax_dtype: torch.dtype | None = None,
    scores: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Attention over [batch, heads, time, size], or over [batch, time, heads * size].

    Gives the output, all keys, all values, and the scores: scaled (0), capped (1),
    masked (2) or as shares (3). `heads` counts those of q, and those of k and v;
    `lengths` are the valid keys of each batch; `window` says how far a query looks back
    and ahead, -1 for all the way.
    """
    if heads is not None:
        q, k, v = (
            torch.unflatten(x, 2, (count, -1)).transpose(1, 2)
            for x, count in ((q, heads[0]), (k, heads[1]), (v, heads[1]))
        )
    k = k if past_key is None else torch.cat([past_key, k], dim=2)
    v = v if past_value is None else torch.cat([past_value, v], dim=2)
    before = 0 if past_key is None else past_key.shape[2]
    bias = attention_bias(q, k, mask, lengths, before, causal, window)

    repeat = q.shape[1] // k.shape[1]
    root = math.sqrt(1 / math.sqrt(q.shape[3]) if scale is None else scale)
    keys = k.repeat_interleave(repeat, dim=1) * root
    raw = (q * root) @ keys.transpose(2, 3)
    capped = softcap * torch.tanh(raw / softcap) if softcap else raw
    masked = capped + bias
    shares = masked.softmax(dim=-1, dtype=softmax_dtype).to(q.dtype)
    nothing = (bias == -math.inf).all(dim=-1, keepdim=True)
    shares = torch.where(nothing, 0, shares)
    y = shares @ v.repeat_interleave(repeat, dim=1)
    y = y if heads is None else y.transpose(1, 2).flatten(2)
    return y, k, v, (raw, capped, masked, shares)[scores]


def attention_bias(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    lengths: Tensor | None,
    before: int,
    causal: bool,
    window: tuple[int, int],
) -> Tensor:
    """What is added to the scores: 0 where a query may look, -inf where it may not."""
    key = torch.arange(k.shape[2], device=q.device)
    query = torch.arange(q.shape[2], device=q.device)[:, None] + before
    allowed = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device)
    if lengths is not None:
        lengths = lengths[:, None, None, None]
        query = query + lengths - q.shape[2]
        allowed = allowed & (key < lengths)
    if causal:
        allowed = allowed & (key <= query)
    if window[0] >= 0:
        allowed = allowed & (key >= query - window[0])
    if window[1] >= 0:
        allowed = allowed & (key <= query + window[1])
    bias = torch.zeros_like(allowed, dtype=q.dtype)
    if mask is not None:
        missing = k.shape[2] - mask.shape[-1]
        if mask.dtype == torch.bool:
            allowed = allowed & F.pad(mask, (0, missing))
        else:
            bias = bias + F.pad(mask, (0, missing), value=-math.inf)
    return bias.masked_fill(~allowed, -math.inf)


def rotary_embedding(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    heads: int = 0,
    width: int = 0,
    interleaved: bool = False,
) -> Tensor:
    """Rotate pairs of elements by the angles of cos and sin [batch, time, width / 2].

    x [batch, heads, time, size], or [batch, time, heads * size] with `heads` given. The
    first `width` elements turn (0: all): neighbours if `interleaved`, else the halves.
    """
    x = torch.unflatten(x, 2, (heads, -1)) if heads else x.transpose(1, 2)
    width = width or x.shape[3]
    turning, rest = x[..., :width], x[..., width:]
    if interleaved:
        a, b = turning[..., ::2], turning[..., 1::2]
    else:
        a, b = turning.chunk(2, dim=-1)
    cos, sin = cos[:, :, None], sin[:, :, None]
    pair = [a * cos - b * sin, a * sin + b * cos]
    turned = (
        torch.stack(pair, dim=-1).flatten(3) if interleaved else torch.cat(pair, -1)
    )
    x = torch.cat([turned, rest], dim=-1)
    return x.flatten(2) if heads else x.transpose(1, 2)
