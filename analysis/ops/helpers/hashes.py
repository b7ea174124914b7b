"""Helpers of hashes and of words as characters, copied into the emitted module."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def murmur_hash(x: Tensor, seed: int = 0) -> Tensor:
    """MurmurHash3 (x86, 32 bits) of the bytes of each number, as an int64."""
    low = 0xFFFFFFFF
    blocks = x.flatten()[:, None].view(torch.int32).long() & low
    h = torch.full_like(blocks[:, 0], seed)
    for block in blocks.unbind(1):
        k = (block * 0xCC9E2D51) & low
        k = ((k << 15 | k >> 17) * 0x1B873593) & low
        h = h ^ k
        h = (((h << 13 | h >> 19) & low) * 5 + 0xE6546B64) & low
    h = h ^ 4 * blocks.shape[1]
    h = ((h ^ h >> 16) * 0x85EBCA6B) & low
    h = ((h ^ h >> 13) * 0xC2B2AE35) & low
    return (h ^ h >> 16).reshape(x.shape)


def murmur_hash_strings(
    words: np.ndarray, device: torch.device | str, seed: int = 0
) -> Tensor:
    """MurmurHash3 (x86, 32 bits) of the bytes of each string, as an int64."""
    low, hashes = 0xFFFFFFFF, []
    for word in words.reshape(-1):
        data, h = word.encode(), seed
        for start in range(0, len(data), 4):
            block = data[start : start + 4]
            k = int.from_bytes(block, "little") * 0xCC9E2D51 & low
            h ^= (k << 15 | k >> 17) * 0x1B873593 & low
            if len(block) == 4:
                h = ((h << 13 | h >> 19) & low) * 5 + 0xE6546B64 & low
        h ^= len(data)
        h = (h ^ h >> 16) * 0x85EBCA6B & low
        h = (h ^ h >> 13) * 0xC2B2AE35 & low
        hashes.append(h ^ h >> 16)
    return torch.tensor(hashes, dtype=torch.int64, device=device).reshape(words.shape)


def ngram_hashes(
    ids: Tensor,
    multipliers: Tensor,
    vocabularies: Tensor,
    longest: int,
    heads: int,
    missing: Tensor | int,
    past: Tensor | None = None,
    offsets: Tensor | None = None,
    segments: Tensor | None = None,
    end: Tensor | int | None = None,
) -> tuple[Tensor, Tensor]:
    """Hashes of the 2 to `longest` ids up to each one, and the ids for the next call.

    Of each length there are `heads` hashes, modulo a size each. What lies before the
    first id, in another segment, or before the last `end`, counts as `missing`.
    """
    count, depth = ids.shape[1], longest - 1
    if past is None:
        past = torch.zeros_like(ids[:, :1]).expand(-1, depth) + missing
    every = torch.cat([past, ids], dim=1)
    ends = torch.zeros_like(every, dtype=torch.bool) if end is None else every == end
    starts = torch.zeros_like(ends)
    if segments is not None:
        starts[:, depth + 1 :] = segments[:, 1:] != segments[:, :-1]
    cut, mixed, hashes = torch.zeros_like(ids, dtype=torch.bool), ids * 0, []
    for back in range(longest):
        first = depth - back
        word = every[:, first : first + count]
        if back:
            cut = cut | starts[:, first + 1 : first + 1 + count]
            cut = cut | ends[:, first : first + count]
            word = torch.where(cut, missing, word)
        mixed = mixed ^ word * multipliers[back]
        if back:
            sizes = vocabularies[(back - 1) * heads : back * heads]
            hashes.append(mixed[:, :, None] % sizes)
    found = torch.cat(hashes, dim=2)
    return found if offsets is None else found + offsets, every[:, count:]


def word_embedding(
    words: Tensor, weight: Tensor, bias: Tensor, table: Tensor
) -> Tensor:
    """Each word's characters, convolved; the largest of each filter, in its bounds.

    A character of 0 is padding, and so is a window that would reach past the others.
    """
    y = F.conv2d(table[words.long()][:, None], weight, bias).squeeze(3)
    length = (words != 0).sum(dim=1)[:, None]
    windows = (length - weight.shape[2] + 1).clamp(min=1)
    place = torch.arange(y.shape[2], device=y.device)
    y = y.masked_fill((place >= windows)[:, None], -torch.inf).amax(dim=2)
    return y.tanh() * (length > 0)


def join_at_suffix(
    source: Tensor,
    tokens: Tensor,
    start: Tensor,
    predicted: Tensor | None,
    shortest: int,
    longest: int,
) -> tuple[Tensor, Tensor]:
    """The tokens, with those predicted as far as they follow the source and one more.

    And the place in the source behind the one n-gram that the tokens end with; -1 where
    there is none, or several.
    """
    if predicted is not None:
        rest = source[int(start) :]
        same = (predicted[: len(rest)] == rest).long().cumprod(dim=0).sum()
        tokens = torch.cat([tokens, predicted[: int(same) + 1]])
    place = -1
    for size in range(shortest, min(longest, len(tokens), len(source)) + 1):
        same = (source.unfold(0, size, 1) == tokens[-size:]).all(dim=1)
        found = same.nonzero()[:, 0].tolist()
        if not found:
            break
        place = found[0] + size
        if place >= len(source) or len(found) == 1:
            break
        place = -1
    return tokens, torch.tensor([place], device=source.device)
