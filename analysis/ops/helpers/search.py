"""Steps of a search for the likeliest words, copied into the emitted module."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def allowed_scores(
    scores: Tensor,
    sequences: Tensor,
    end: int,
    least: int = 0,
    penalty: float = 1.0,
    ngram: int = 0,
    words: Tensor | None = None,
    first: Tensor | None = None,
    prompt: int = 0,
) -> Tensor:
    """Scores [rows, words]; of words that may not come next, the lowest number.

    Words that came before are less likely by `penalty`; none may repeat a row of
    `ngram` words, stand outside of `words`, or end in fewer than `least`; behind the
    `prompt` may stand only those in `first`.
    """
    lowest = torch.finfo(scores.dtype).min
    if penalty != 1:
        seen = scores.gather(1, sequences.long())
        less = torch.where(seen < 0, seen * penalty, seen / penalty)
        scores = scores.scatter(1, sequences.long(), less)
    length = sequences.shape[1]
    if 0 < ngram <= length:
        rows = sequences.unfold(1, ngram, 1)
        begun = sequences[:, None, length - ngram + 1 :]
        same = (rows[:, :, :-1] == begun).all(dim=2)
        times = torch.zeros_like(scores).scatter_add(
            1, rows[:, :, -1].long(), same.to(scores.dtype)
        )
        scores = scores.masked_fill(times > 0, lowest)
    if words is not None:
        scores = scores.masked_fill(words == 0, lowest)
    if first is not None and length == prompt:
        scores = scores.masked_fill(first == 0, lowest)
    if length < least:
        word = torch.arange(scores.shape[1], device=scores.device)
        scores = scores.masked_fill(word == end, lowest)
    return scores


def greedy_step(
    scores: Tensor, sequences: Tensor, ended: Tensor, end: int, padding: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Every sequence and its likeliest word; which have ended; whether any has not."""
    word = scores.argmax(dim=1).to(sequences.dtype)
    ended = ended | (word == end)
    word = word.masked_fill(ended, padding)
    return torch.cat([sequences, word[:, None]], dim=1), ended, ~ended.all()


def sample_step(
    scores: Tensor,
    sequences: Tensor,
    ended: Tensor,
    luck: Tensor,
    end: int,
    padding: int,
    top: float,
    temperature: float = 1.0,
    filtered: float = -1e20,
    keep: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """As greedy_step, with words drawn by the numbers in `luck`, from 0 to 1.

    The least likely words, together at most 1 - `top`, have the score `filtered`,
    but for the `keep` likeliest.
    """
    ranked, words = (scores / temperature).sort(dim=1)
    rare = ranked.softmax(dim=1).cumsum(dim=1) <= 1 - top
    rare[:, max(1, ranked.shape[1] - keep) :] = False
    shares = ranked.masked_fill(rare, filtered).softmax(dim=1).cumsum(dim=1)
    place = (shares < luck[:, None]).sum(dim=1, keepdim=True)
    word = words.gather(1, place.clamp(max=ranked.shape[1] - 1)).squeeze(1)
    word = word.to(sequences.dtype)
    ended = ended | (word == end)
    word = word.masked_fill(ended, padding)
    return torch.cat([sequences, word[:, None]], dim=1), ended, ~ended.all()


def beam_start(
    words: Tensor, beams: int, longest: int, padding: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Totals of the beams, none of which is known yet but the first, and the best.

    The best sequences that have ended, their totals, and which samples are done.
    """
    batch = len(words) // beams
    totals = torch.full((batch, beams), -1e9, device=words.device)
    totals[:, 0] = 0
    best = words.new_full((batch, beams, longest), padding)
    return totals, best, torch.full_like(totals, -torch.inf), totals[:, 0] != 0


def beam_step(
    scores: Tensor,
    sequences: Tensor,
    totals: Tensor,
    best: Tensor,
    best_totals: Tensor,
    done: Tensor,
    power: Tensor | float,
    end: int,
    padding: int,
    early: bool = False,
) -> tuple[Tensor, ...]:
    """The likeliest continuations of each sample's sequences, and those that ended.

    Gives the state anew, the rows that the sequences continue, and whether to go on.
    A total counts by the length of its sequence to the `power`.
    """
    batch, beams = totals.shape
    length, words = sequences.shape[1], scores.shape[1]
    found = (scores + totals.reshape(-1, 1)).reshape(batch, -1)
    found, index = found.topk(min(2 * beams, found.shape[1]), dim=1)
    first_row = beams * torch.arange(batch, device=scores.device)[:, None]
    rows, word = first_row + index // words, index % words
    place = torch.arange(index.shape[1], device=scores.device)

    ends = word == end
    ended = ends & (place < beams) & ~done[:, None]
    weighed = (found / length**power).masked_fill(~ended, -torch.inf)
    padded = F.pad(sequences, (0, best.shape[2] - length), value=padding)
    best_totals, kept = torch.cat([best_totals, weighed], dim=1).topk(beams, dim=1)
    best = torch.cat([best, padded[rows]], dim=1)
    best = best.gather(1, kept[:, :, None].expand(-1, -1, best.shape[2]))

    going = (ends * len(place) + place).argsort(dim=1)[:, :beams]
    totals, rows, word = (x.gather(1, going) for x in (found, rows, word))
    full = best_totals.isfinite().all(dim=1)
    # ONNX Runtime takes a sample to begin after `beams` totals, not after all of them.
    nearby = found.flatten().unfold(0, len(place), beams)[:batch].amax(dim=1)
    done = done | full & (early | (best_totals[:, -1] >= nearby / length**power))
    totals = totals.masked_fill(done[:, None], 0)
    word = word.masked_fill(done[:, None], padding).to(sequences.dtype)
    rows = rows.masked_fill(done[:, None], 0).flatten()
    sequences = torch.cat([sequences[rows], word.reshape(-1, 1)], dim=1)
    return sequences, totals, best, best_totals, done, rows, ~done.all()


def beam_end(
    sequences: Tensor,
    totals: Tensor,
    best: Tensor,
    best_totals: Tensor,
    done: Tensor,
    count: int,
    power: Tensor | float,
    padding: int,
) -> tuple[Tensor, Tensor]:
    """The `count` best sequences of each sample, and their totals by length."""
    batch, beams, longest = best.shape
    length = sequences.shape[1]
    weighed = (totals / length**power).masked_fill(done[:, None], -torch.inf)
    found, kept = torch.cat([best_totals, weighed], dim=1).topk(count, dim=1)
    padded = F.pad(sequences, (0, longest - length), value=padding)
    every = torch.cat([best, padded.reshape(batch, beams, longest)], dim=1)
    return every.gather(1, kept[:, :, None].expand(-1, -1, longest)), found
