"""Stands for the generate.py of a package: tokens, each from those before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from ..caches.caches import BLOCK, CROSS, GIVEN, MOST, ROWS, VOCABULARY, Caches, flat


@torch.inference_mode()
def generate(
    model: nn.Module,
    prompt_ids: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    eos: Iterable[int] = (),
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
    tokens, places or inputs for.
    """
    if temperature < 0:
        raise ValueError(f"temperature is {temperature}, but at least 0 is needed")
    prompts = [[int(token) for token in prompt] for prompt in prompt_ids]
    given = dict(given or {})
    check(prompts, max_new_tokens, given)
    ends = [*([token] for token in eos), *map(list, stop)]
    device = next(model.parameters()).device
    draws = [torch.Generator(device).manual_seed(seed + i) for i in range(len(prompts))]
    found: list[list[int]] = [[] for _ in prompts]
    for batch in batches([len(prompt) for prompt in prompts]):
        read = [prompts[i] for i in batch]
        theirs = {name: value[batch].to(device) for name, value in given.items()}
        caches = Caches([*map(len, read)], max(map(len, read)) + max_new_tokens, device)
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
    """Rows that are computed together: all where a mask tells them apart, or alike."""
    rows = list(range(len(lengths)))
    alike = len(set(lengths)) == 1 or (BLOCK > 1 and not CROSS)
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
    """A token by its scores [vocabulary], of those that the bounds leave."""
    if temperature == 0:
        return int(scores.argmax())
    chances, tokens = (scores / temperature).softmax(-1).sort(descending=True)
    beyond = (chances.cumsum(-1) - chances >= top_p) | (chances < min_p * chances[0])
    beyond[top_k or len(tokens) :] = True
    beyond[0] = False
    return int(tokens[chances.masked_fill(beyond, 0).multinomial(1, generator=draw)])


def check(
    prompts: list[list[int]], max_new_tokens: int, given: Mapping[str, Tensor]
) -> None:
    """Raise ValueError for what can't be generated."""
    if not prompts or not all(prompts):
        raise ValueError("each prompt needs a token; one that begins a text will do")
    if max_new_tokens < 1:
        raise ValueError(
            f"max_new_tokens is {max_new_tokens}, but at least 1 is needed"
        )
    for token in (token for prompt in prompts for token in prompt):
        if not 0 <= token < VOCABULARY:
            raise ValueError(
                f"the network has tokens 0 to {VOCABULARY - 1}, not {token}"
            )
    longest = max(map(len, prompts))
    if ROWS > 1 and [longest] * ROWS != [len(prompt) for prompt in prompts]:
        raise ValueError(f"the network takes {ROWS} prompts of one length at once")
    if MOST and longest + max_new_tokens > MOST:
        raise ValueError(
            f"a prompt of {longest} tokens and {max_new_tokens} new ones"
            f" don't fit: the network has {MOST} places"
        )
    if given.keys() != set(GIVEN):
        raise ValueError(f"`given` has {sorted(given)}, but is to have {sorted(GIVEN)}")
    for name, value in given.items():
        if len(value) != len(prompts):
            raise ValueError(f"{name} has {len(value)} rows for {len(prompts)} prompts")
