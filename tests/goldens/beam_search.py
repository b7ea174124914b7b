"""BeamSearch, generated from beam_search.

    input_ids        int32   [batch, length]  input
    sequences        int32   [...]            output
    sequences_scores float32 [...]            output

Source     beam_search, opset 20, 11 nodes
Generator  fairhand 0.1.0
Rewrites   -O1: none applied
Weights    weights.safetensors, 2,848 parameters

Edits outlive the next compile, or stop it. Needs PyTorch and safetensors alone.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor, nn

MODEL_SHA256 = "0000000000000000000000000000000000000000000000000000000000000000"
WEIGHTS = Path(__file__).with_name("weights.safetensors")

# ONNX name -> dtype and shape, as session.py checks them.
INPUTS = {
    "input_ids": ("int32", ("batch", "length")),
}
OUTPUTS = {
    "sequences": ("int32", None),
    "sequences_scores": ("float32", None),
}


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


class Attn(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor, past_0: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.unflatten(2, (2, 8)).transpose(1, 2)
        k = k.unflatten(2, (2, 8)).transpose(1, 2)
        v = v.unflatten(2, (2, 8)).transpose(1, 2)
        x = past_0[0]
        past_0 = past_0[1]
        x, y, z = masked_attention(
            q, k, v, mask=y.to(q.dtype), past_key=x, past_value=past_0, causal=True
        )[:3]
        x = x.transpose(1, 2).flatten(2)
        return torch.cat([y.unsqueeze(0), z.unsqueeze(0)]), x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln = nn.LayerNorm(16)
        self.attn = Attn()

    def forward(self, x: Tensor, past_0: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        y, out = self.attn(self.ln(x), past_0, y)
        return y, x + out


class BeamSearch(nn.Module):
    def __init__(self):
        super().__init__()
        self.t = nn.Embedding(20, 16)
        self.p = nn.Embedding(32, 16)
        self.h = nn.ModuleList(Block() for _ in range(2))
        self.logits = nn.Linear(16, 20, bias=False)

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        mask = (input_ids != 0).int()  # [batch, length]
        positions = (mask.cumsum(dim=1, dtype=torch.int32) - 1) * mask
        prompt = input_ids.repeat_interleave(4, dim=0)  # [4*batch, length]
        no_past = torch.zeros(
            (2, 4 * input_ids.shape[0], 2, 0, 8), device=input_ids.device
        )
        totals, best, best_totals, done = beam_start(
            prompt, beams=4, longest=24, padding=0
        )
        words = prompt
        positions = positions.repeat_interleave(4, dim=0)
        mask = mask.repeat_interleave(4, dim=0)
        past_0 = no_past
        past_1 = no_past
        sequences = prompt
        for _ in range(24 - input_ids.shape[1]):
            x = self.t(words) + self.p(positions)
            chosen = torch.where(mask.bool()[:, None, None, :], 0.0, -10000.0)
            x, y = self.h[0](x, past_0, chosen)
            y, z = self.h[1](y, past_1, chosen)
            logits = self.logits(z)[:, -1].log_softmax(dim=-1)  # [4*batch, 20]
            scores = allowed_scores(logits, sequences, end=3, least=5, penalty=1.2)
            sequences, totals, best, best_totals, done, rows, going = beam_step(
                scores,
                sequences,
                totals,
                best,
                best_totals,
                done,
                power=1.0,
                end=3,
                padding=0,
            )
            positions = positions.amax(dim=1, keepdim=True) + 1  # [4*batch, 1]
            mask = F.pad(mask, (0, 1), value=1)
            words = sequences[:, -1:]
            past_0 = x[:, rows]
            past_1 = y[:, rows]
            if not going:
                break
        sequences, sequences_scores = beam_end(
            sequences, totals, best, best_totals, done, count=2, power=1.0, padding=0
        )
        return sequences, sequences_scores


def load(weights: str | Path = WEIGHTS, device: str = "cpu") -> BeamSearch:
    """Build the network and take every parameter from `weights`."""
    with safe_open(weights, framework="pt", device=device) as file:
        found = (file.metadata() or {}).get("model_sha256")
        if found != MODEL_SHA256:
            raise ValueError(f"{weights} holds the weights of another model: {found}")
        names = file.keys()
        state = {name: file.get_tensor(name) for name in names}
    with torch.device("meta"):  # no random initialisation, no second copy
        model = BeamSearch()
    model.load_state_dict(state, assign=True)
    return model.eval().requires_grad_(False)
