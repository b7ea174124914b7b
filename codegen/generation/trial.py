"""A decoder's steps with its buffers beside those with joined caches.

These functions run in the process of a package, which imports nothing of ours.
"""

from __future__ import annotations

import copy
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...analysis.oracle.child import imported

# Tokens of two prompts, of which one is read in two parts and ends shortly before a
# multiple of BLOCK, and steps behind them, which end beyond that.
_LONG, _SHORT, _STEPS = 126, 3, 4
# Places that are shown besides to a network that counts those in use: more than it may
# cut off an end, as windows do, which would be places that aren't in use.
_WIDE = 4160
_SEEDS = 4  # of weights moved by a bit


def trial(given: Mapping[str, Any]) -> dict[str, Any]:
    """Scores [rows, steps, vocabulary] of tokens drawn at random: `alone`, where each
    row is read as a whole with caches that are joined, and `shown`, by caches.py.

    `given` has the "package", a folder that is imported already, and some "inputs" of
    its network. States that are "sized" have twice as many along an axis where they are
    `alone`, which is to change nothing. "prompts" are lengths, "how" is the way in
    which caches.py calls it.
    """
    package = imported(given["package"]).__name__
    caches, generate = _loaded(package)
    network = caches.flat(_model(package))
    rows, same = _prompts(caches), _same(caches, given)
    kept: list[bool] = []
    fresh = caches.buffers(1, 0, torch.device("cpu"))
    wide = {n: torch.cat([fresh[n]] * 2, axis) for n, axis in given["sized"].items()}
    with torch.inference_mode():
        alone = [list(_joined(caches, network, row, same | wide)) for row in rows]
        shown = list(_shown(caches, network, rows, generate.batches, same, kept))
        if not caches.ROWS:  # those of one length are read at once
            shown += _shown(caches, network, rows[1:], generate.batches, same, kept)
            alone += alone[1:]
        if caches.ROOM == "counted":
            caches.BLOCK = _WIDE
            shown += _shown(caches, network, rows, generate.batches, same, kept)
            alone += alone[: len(rows)]
    return {
        "alone": torch.stack([torch.stack(row) for row in alone]).float().numpy(),
        "shown": torch.stack(shown).float().numpy(),
        "prompts": [len(row) - _STEPS for row in rows],
        "type": str(alone[0][0].dtype).removeprefix("torch."),
        "how": {"chunk": caches.CHUNK, "rows": caches.ROWS}
        | {"room": caches.ROOM, "returned": not all(kept)},
    }


def noise(given: Mapping[str, Any]) -> dict[str, Any]:
    """How far the scores of each row alone move with the last bits of all weights."""
    package = imported(given["package"]).__name__
    caches, _ = _loaded(package)
    rows, same = _prompts(caches), _same(caches, given)
    found: list[Tensor] = []
    for seed in range(_SEEDS + 1):
        model = copy.deepcopy(_model(package))
        draw = torch.Generator().manual_seed(seed)
        with torch.inference_mode():
            for weight in model.state_dict().values() if seed else ():
                if weight.dtype == torch.float32:
                    side = torch.rand(weight.shape, generator=draw) - 0.5
                    weight.copy_(torch.nextafter(weight, side * torch.inf))
            alone = [
                list(_joined(caches, caches.flat(model), row, same)) for row in rows
            ]
        found.append(torch.stack([torch.stack(row) for row in alone]).float())
    most = max(float((scores - found[0]).abs().max()) for scores in found[1:])
    return {"noise": most / float(found[0].abs().max())}


def _prompts(caches: Any) -> list[list[int]]:
    draw = torch.Generator().manual_seed(0)
    return [
        torch.randint(caches.VOCABULARY, (size,), generator=draw).tolist()
        for size in _sizes(caches)
    ]


def _same(caches: Any, given: Mapping[str, Any]) -> dict[str, Tensor]:
    """What every step is fed besides."""
    return {name: _tensor(given["inputs"][name][:1]) for name in caches.GIVEN}


def _sizes(caches: Any) -> list[int]:
    """Of all tokens of each row; two are of one length where others are apart."""
    most = min(_LONG + _STEPS, caches.MOST or sys.maxsize)
    if caches.ROWS:
        return [most] * caches.ROWS
    return [most, *[min(_SHORT + _STEPS, most)] * 2]


def _tensor(array: np.ndarray) -> Tensor:
    """Of an array of any type, bfloat16 too."""
    if array.dtype.name == "bfloat16":
        return torch.tensor(array.view(np.int16)).view(torch.bfloat16)
    return torch.tensor(array)


@cache
def _model(package: str) -> nn.Module:
    model: nn.Module = importlib.import_module(f"{package}.model").load()
    return model


def _loaded(package: str) -> list[Any]:
    """caches.py and generate.py as they are now."""
    names = [f"{package}.caches", f"{package}.generate"]
    for name in names:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return [importlib.import_module(name) for name in names]


def _joined(
    caches: Any, network: Any, tokens: list[int], same: Mapping[str, Tensor]
) -> Iterator[Tensor]:
    """Scores behind a row's prompt and each of its last tokens."""
    device = torch.device("cpu")
    # What is told of lengths is given buffers by its clients; windows count on them.
    rooms = {"behind": len(tokens), "placed": caches.whole_blocks(len(tokens))}
    room = rooms.get(caches.ROOM, 0)
    feeds = caches.buffers(1, room, device) | same
    prompt = len(tokens) - _STEPS
    ends = [*range(1, prompt)] if caches.CHUNK == 1 else []
    at = 0
    for end in [*ends, *range(prompt, len(tokens) + 1)]:
        seen = room if caches.ROOM == "placed" else end
        places = {
            caches.IDS: torch.tensor([tokens[at:end]]),
            caches.MASK: torch.ones(1, end - at, seen).tril(at).bool(),
            **dict.fromkeys(caches.AT, torch.arange(at, end)[None]),
            caches.POSITIONS: torch.arange(at, end)[None],
            caches.BRANCH: torch.tensor([at > 0]),
        }
        for name in places.keys() & caches.INPUTS.keys():
            feeds[name] = caches.fitting(name, places[name])
        results = network(*(feeds[name] for name in caches.INPUTS))
        outputs = dict(zip(caches.OUTPUTS, results, strict=True))
        later = caches.CACHES if at else caches.CACHES | caches.CROSS
        feeds |= {name: outputs[out] for name, (out, _) in later.items()}
        at = end
        if at >= prompt:
            yield outputs[caches.LOGITS].flatten(0, -2)[-1]


def _shown(
    caches: Any,
    network: Any,
    rows: list[list[int]],
    batches: Callable[[list[int]], list[list[int]]],
    same: Mapping[str, Tensor],
    kept: list[bool],
) -> Iterator[Tensor]:
    """The same of each row, computed as generate.py does; `kept` is told which buffers
    stay."""
    for batch in batches([len(row) for row in rows]):
        theirs = [rows[i] for i in batch]
        prompts = [row[:-_STEPS] for row in theirs]
        given = {
            name: value.expand(len(batch), *value.shape[1:])
            for name, value in same.items()
        }
        most = max(map(len, theirs))
        memory = caches.Caches([*map(len, prompts)], most, torch.device("cpu"))
        buffers = dict(memory.tensors)
        found = [memory.read(network, prompts, given)]
        for step in range(-_STEPS, 0):
            ids = [[row[step]] for row in theirs]
            found.append(memory.step(network, ids, slice(0, len(batch)), given))
        kept += [memory.tensors[name] is buffer for name, buffer in buffers.items()]
        yield from torch.stack(found, 1)
