"""Stands for the generate.py of a package: tokens, each from those before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from operator import index

import torch
from torch import Tensor, nn

from ..caches.caches import ROWS, TOGETHER, Caches, check_fit, converted, fitting, flat


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt_ids: Iterable[Iterable[int]],
    max_new_tokens: int,
    *,
    eos: int | Iterable[int] = (),
    stop: Iterable[Sequence[int]] = (),
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    stream: Callable[[int, int], object] | None = None,
    given: Mapping[str, Tensor] | None = None,
) -> list[list[int]]:
    """At most `max_new_tokens` behind each prompt; one of `eos`, or of the sequences
    `stop`, ends a row and is part of it.

    The likeliest token is taken at temperature 0; else one is drawn, in row i by
    `seed + i`. `stream(row, token)` is called with each. `given` are the inputs GIVEN,
    a row of each for every prompt. Raises ValueError for what the network has no
    tokens, places or inputs for, and TypeError for tokens that are no whole numbers.
    """
    prompts = [[index(token) for token in prompt] for prompt in prompt_ids]
    ends = [[eos]] if isinstance(eos, int) else [[index(token)] for token in eos]
    ends += [[index(token) for token in end] for end in stop]
    given = dict(given or {})
    check_choice(temperature, top_k, top_p, min_p, repetition_penalty, seed, ends)
    device, floats = next(model.parameters()).device, converted(model)
    check_fit(prompts, max_new_tokens, given, floats)
    draws = [torch.Generator(device).manual_seed(seed + i) for i in range(len(prompts))]
    found: list[list[int]] = [[] for _ in prompts]
    for batch in batches([len(prompt) for prompt in prompts]):
        read = [prompts[i] for i in batch]
        theirs = {
            name: fitting(name, value[batch], floats).to(device)
            for name, value in given.items()
        }
        lengths = [*map(len, read)]
        most = max(lengths) + max_new_tokens
        caches = Caches(lengths, most, device, floats, getattr(model, "parts", None))
        scores = caches.read(flat(model), read, theirs)
        going = set(batch)
        for left in reversed(range(max_new_tokens)):
            for i, row in zip(batch, scores.float(), strict=True):
                if i not in going:
                    continue
                row = penalised(row, prompts[i] + found[i], repetition_penalty)
                token = sample(row, temperature, top_k, top_p, min_p, draws[i])
                found[i].append(token)
                if stream is not None:
                    stream(i, token)
                if any(found[i][-len(end) :] == end for end in ends):
                    going.remove(i)
            if not going or not left:
                break
            last = [found[i][-1:] for i in batch]
            scores = caches.step(flat(model), last, slice(0, len(batch)), theirs)
    return found


def batches(lengths: list[int]) -> list[list[int]]:
    """Rows that are computed together: all where they are alike, or may share steps."""
    rows = list(range(len(lengths)))
    alike = len(set(lengths)) == 1 or TOGETHER
    return [rows] if alike and ROWS in (0, len(rows)) else [[i] for i in rows]


def penalised(scores: Tensor, before: list[int], penalty: float) -> Tensor:
    """Scores [vocabulary], less for tokens that came before."""
    if penalty == 1:
        return scores
    seen = torch.tensor(sorted(set(before)), device=scores.device)
    old = scores[seen]
    less = torch.where(old > 0, old / penalty, old * penalty)
    return scores.index_copy(0, seen, less)


def sample(
    scores: Tensor,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    draw: torch.Generator | None = None,
) -> int:
    """A token by its scores [vocabulary]: of the `top_k` likeliest, as many as share
    `top_p` of what these have, if each has at least `min_p` of the likeliest."""
    if temperature == 0:
        return int(scores.argmax())
    chances = ((scores - scores.max()).double() / temperature).softmax(-1)
    chances, tokens = chances.topk(min(top_k or len(scores), len(scores)))
    chances = chances / chances.sum()
    beyond = (chances.cumsum(-1) - chances >= top_p) | (chances < min_p * chances[0])
    beyond[0] = False
    return int(tokens[chances.masked_fill(beyond, 0).multinomial(1, generator=draw)])


def check_choice(
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    penalty: float,
    seed: int,
    ends: list[list[int]],
) -> None:
    """Raise ValueError for numbers that choose no token, and for an end of none."""
    for name, value, fits, bounds in (
        ("temperature", temperature, 0 <= temperature < inf, "at least 0"),
        ("top_k", top_k, index(top_k) >= 0, "at least 0; 0 for all"),
        ("top_p", top_p, 0 < top_p <= 1, "above 0 and at most 1"),
        ("min_p", min_p, 0 <= min_p <= 1, "from 0 to 1"),
        ("repetition_penalty", penalty, 0 < penalty < inf, "above 0; 1 for none"),
        ("seed", seed, 0 <= index(seed) < 2**63, "from 0 to 2**63 - 1"),
    ):
        if not fits:
            raise ValueError(f"{name} is {value}, but is to be {bounds}")
    if not all(ends):
        raise ValueError("a sequence that stops a row needs a token")
