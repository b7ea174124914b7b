"""Helpers of attention over a cache, copied into the emitted module when used."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def grouped_query_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    last: Tensor,
    total: int,
    heads: tuple[int, int],
    rotary: tuple[Tensor, Tensor] | None = None,
    positions: Tensor | None = None,
    interleaved: bool = False,
    causal: bool = True,
    window: int = -1,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of [batch, time, heads * size] over a cache; gives it, keys and values.

    last [batch] is the place of each sample's newest key, `total` the longest sample's
    length; `heads` counts those of q, and those of k and v. The cache may have room for
    more keys than `total`.
    """
    q, k, v, place = placed_heads(
        q, k, v, last, total, heads, rotary, positions, interleaved
    )
    keys = extended(past_key, k, place, total)
    values = extended(past_value, v, place, total)
    mask = visible_keys(place, last, total, causal, window)
    if bias is not None:
        mask = bias.masked_fill(~mask, float("-inf"))
    y = F.scaled_dot_product_attention(
        q,
        keys[:, :, :total],
        values[:, :, :total],
        attn_mask=mask,
        scale=scale,
        enable_gqa=True,
    )
    return y.transpose(1, 2).flatten(2), keys, values


def capped_query_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    last: Tensor,
    total: int,
    heads: tuple[int, int],
    rotary: tuple[Tensor, Tensor] | None = None,
    positions: Tensor | None = None,
    interleaved: bool = False,
    causal: bool = True,
    window: int = -1,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    sink: Tensor | float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of [batch, time, heads * size] over a cache; gives it, keys and values.

    last [batch] is the place of each sample's newest key, `total` the longest sample's
    length; `heads` counts those of q, and those of k and v. Scores are kept within
    `softcap`; `sink` is one score more, of nothing, for each head.
    """
    q, k, v, place = placed_heads(
        q, k, v, last, total, heads, rotary, positions, interleaved
    )
    keys = extended(past_key, k, place, total)
    values = extended(past_value, v, place, total)
    mask = visible_keys(place, last, total, causal, window)
    seen, held = keys[:, :, :total], values[:, :, :total]
    y = capped_attention(q, seen, held, mask, bias, scale, softcap, sink)
    return y, keys, values


def capped_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor,
    bias: Tensor | None,
    scale: float | None,
    softcap: float,
    sink: Tensor | float | None,
) -> Tensor:
    """Attention of [batch, heads, time, size], as [batch, time, heads * size]."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scale = q.shape[3] ** -0.5 if scale is None else scale
    scores = q @ k.transpose(2, 3) * scale
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores if bias is None else scores + bias
    scores = scores.masked_fill(~mask, float("-inf"))
    if sink is not None:
        sinks = torch.as_tensor(sink, dtype=q.dtype, device=q.device).reshape(-1, 1, 1)
        scores = torch.cat([sinks.expand(*scores.shape[:3], 1), scores], dim=3)
    shares = scores.softmax(dim=-1)[..., -k.shape[2] :]
    return (shares @ v).transpose(1, 2).flatten(2)


def windowed_query_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    last: Tensor,
    total: int,
    heads: tuple[int, int],
    window: int,
    rotary: tuple[Tensor, Tensor] | None = None,
    positions: Tensor | None = None,
    interleaved: bool = False,
    bias: Tensor | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    sink: Tensor | float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of [batch, time, heads * size] over a cache that drops old keys.

    A query sees the `window` newest keys up to its own. The cache has room for as many
    or more; those that it holds stand first, in order, and behind them anything. The
    rest is as in grouped_query_attention.
    """
    q, k, v, place = placed_heads(
        q, k, v, last, total, heads, rotary, positions, interleaved
    )
    room = past_key.shape[2]
    row = torch.arange(room, device=q.device)
    before, after = place[:, :1], last[:, None] + 1
    oldest = before - kept_keys(before, window, room)
    old = torch.where(oldest + row < before, oldest + row, -1)
    at = torch.cat([old, torch.where(place < after, place, -1)], dim=1)
    behind = (old < 0)[:, None, :, None]
    keys, values = (
        torch.cat([past.masked_fill(behind, 0), new], dim=2)
        for past, new in ((past_key, k), (past_value, v))
    )
    key, query = at[:, None, None, :], place[:, None, :, None]
    mask = (key >= 0) & (key <= query) & (key > query - window)
    if bias is not None:  # whose columns are places
        column = key.clamp(min=0).expand(-1, bias.shape[1], q.shape[2], -1)
        bias = bias.expand(len(q), -1, -1, -1).gather(3, column)
    y = capped_attention(q, keys, values, mask, bias, scale, softcap, sink)
    kept = after - kept_keys(after, window, room) + row
    source = torch.where(kept < before, kept - oldest, room + kept - before)
    held = (kept < after)[:, None, :, None]
    source = torch.where(kept < after, source, 0)[:, None, :, None]
    index = source.expand(*past_key.shape)
    return y, keys.gather(2, index) * held, values.gather(2, index) * held


def kept_keys(length: Tensor, window: int, room: int) -> Tensor:
    """How many of `length` keys stay: room is made for `room - window + 1` at once."""
    spare = room - window + 1
    dropped = (length - room + spare - 1) // spare * spare
    return length - dropped.clamp(min=0)


def sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    past_key: Tensor,
    past_value: Tensor,
    rows: Tensor,
    columns: Tensor,
    total: int,
    lengths: Tensor,
    heads: tuple[int, int],
    block: int,
    rotary: tuple[Tensor, Tensor] | None = None,
    interleaved: bool = False,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of [batch, time, heads * size] to blocks of a cache; gives keys, too.

    rows and columns are, for every `heads / len(rows)`-th head, which blocks of `block`
    keys the blocks of queries see, in compressed rows.
    """
    last = lengths - 1
    q, k, v, place = placed_heads(
        q, k, v, last, total, heads, rotary, None, interleaved
    )
    keys, values = (
        past.scatter(2, place[:, None, :, None].expand_as(new), new)
        for past, new in ((past_key, k), (past_value, v))
    )
    layout = dense_blocks(rows, columns)
    blocks = torch.arange(total, device=q.device) // block
    seen = layout[:, place // block][..., blocks].transpose(0, 1)
    seen = seen.repeat(1, heads[0] // len(layout), 1, 1)
    y = F.scaled_dot_product_attention(
        q,
        keys[:, :, :total],
        values[:, :, :total],
        attn_mask=seen & visible_keys(place, last, total, True, -1),
        scale=scale,
        enable_gqa=True,
    )
    return y.transpose(1, 2).flatten(2), keys, values


def dense_blocks(rows: Tensor, columns: Tensor) -> Tensor:
    """Compressed rows of blocks as [layout, row, column], True where there is one."""
    entry = torch.arange(columns.shape[1], device=rows.device)
    inside = (rows[:, :-1, None] <= entry) & (entry < rows[:, 1:, None])
    column = torch.arange(rows.shape[1] - 1, device=rows.device)
    return (inside[..., None] & (columns[:, None, :, None] == column)).any(dim=2)


def placed_heads(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    last: Tensor,
    total: int,
    heads: tuple[int, int],
    rotary: tuple[Tensor, Tensor] | None,
    positions: Tensor | None,
    interleaved: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v as [batch, heads, time, size], q and k turned; the tokens' places."""
    q, k, v = (
        torch.unflatten(x, 2, (count, -1)).transpose(1, 2)
        for x, count in ((q, heads[0]), (k, heads[1]), (v, heads[1]))
    )
    time = torch.arange(q.shape[2], device=q.device)
    # Without a past, shorter samples have their padding on the right.
    first = q.shape[2] == total
    start = torch.zeros_like(last) if first else last + 1 - q.shape[2]
    place = start.long()[:, None] + time
    if rotary is not None:
        if positions is None:
            positions = place
        elif first:
            positions = (positions.flatten()[0] + time).expand_as(place)
        cos, sin = (table[positions] for table in rotary)
        q = rotated(q, cos, sin, interleaved)
        k = rotated(k, cos, sin, interleaved)
    return q, k, v, place


def rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """x [batch, heads, time, size], pairs of its elements turned by their angles.

    The angles [batch, time, width / 2] are those of the first `width` elements, in
    pairs of neighbours if `interleaved`, else of the halves.
    """
    width = 2 * cos.shape[2]
    turning, rest = x[..., :width], x[..., width:]
    cos, sin = cos[:, None], sin[:, None]
    if interleaved:
        a, b = turning[..., ::2], turning[..., 1::2]
    else:
        a, b = turning.chunk(2, dim=-1)
    pair = [a * cos - b * sin, a * sin + b * cos]
    turned = torch.stack(pair, -1).flatten(3) if interleaved else torch.cat(pair, -1)
    return torch.cat([turned, rest], dim=-1)


def extended(past: Tensor | None, new: Tensor, place: Tensor, total: int) -> Tensor:
    """The cache with `new` at its places; what lay behind them is cleared."""
    past = new[:, :, :0] if past is None else past
    cache = F.pad(past, (0, 0, 0, max(0, total - past.shape[2])))
    key = torch.arange(cache.shape[2], device=cache.device)
    cache = cache.masked_fill((key >= place[:, :1])[:, None, :, None], 0)
    return cache.scatter(2, place[:, None, :, None].expand_as(new), new)


def visible_keys(
    place: Tensor, last: Tensor, total: int, causal: bool, window: int
) -> Tensor:
    """Which of `total` keys the query at each place sees, [batch, 1, time, total]."""
    key = torch.arange(total, device=place.device)
    query = place[:, None, :, None]
    visible = key <= last[:, None, None, None]
    if causal:
        visible = visible & (key <= query)
    if window >= 0:
        visible = visible & (key > query - window)
    return visible


def attend_over_buffer(
    qkv: tuple[Tensor, Tensor, Tensor],
    keys: Tensor,
    values: Tensor,
    length: int,
    heads: int,
    scale: float,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    beams: int = 1,
    source: Tensor | None = None,
    lowered: float = -10000.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention of one new word to those in a cache [rows, heads, room, size], and it.

    `length` words are there; the new one comes behind them. For each word, `source`
    says which of the `beams` of a sample it came from. Scores of words that `mask`
    leaves out are `lowered`. Gives the output and the caches.
    """
    q, k, v = (torch.unflatten(x, 2, (heads, -1)).transpose(1, 2) for x in qkv)
    keys = keys.index_copy(2, torch.tensor([length], device=k.device), k)
    values = values.index_copy(2, torch.tensor([length], device=v.device), v)
    end = length + 1
    seen, held = keys[:, :, :end], values[:, :, :end]
    if source is not None:
        row = torch.arange(len(q), device=q.device)[:, None]
        place = beams * (row // beams) + source.reshape(len(q), -1)[:, :end]
        place = torch.cat([place[:, :length], row], dim=1)
        time = torch.arange(end, device=q.device)
        seen, held = (x[place, :, time].transpose(1, 2) for x in (keys, values))
    scores = q @ seen.mT * scale
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores + torch.where(mask[:, None, None] == 0, lowered, 0.0)
    y = scores.softmax(dim=-1) @ held
    return y.transpose(1, 2).flatten(2), keys, values
