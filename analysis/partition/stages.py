"""A chain of blocks divided into stages of a pipeline.

T = sum t_i + (B - 1) max t_i for B parts of a batch: for each limit on the slowest
stage, the least sum is a shortest path over the places to cut (Alpa, Zheng et al. 2022,
section 5; PipeDream). Limits are tried from the least that any division keeps, until
one together with the least sum of all is above the best T.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Chain:
    """Blocks in the order in which they run.

    `seconds` and `held` (bytes) of each, and `sent[i]`, the seconds to hand on what
    crosses in front of block i: infinite where the chain may not be cut.
    """

    seconds: Sequence[float]
    held: Sequence[float]
    sent: Sequence[float]


@dataclass(frozen=True)
class Stages:
    """`starts` are the first blocks of all stages but the first; `times` the seconds of
    each for one part of a batch."""

    seconds: float
    starts: tuple[int, ...]
    times: tuple[float, ...]


_SAME = 1 + 1e-9  # limits that are closer are one


def divide(chains: Sequence[Chain], batches: int, memory: float) -> Stages | None:
    """The stages of least time, each within `memory`, the blocks of each as its chain
    has them; None if there are none."""
    n = len(chains[0].seconds)
    if len(chains) > n:
        return None
    places = [0, *(i for i in range(1, n) if chains[-1].sent[i] != float("inf")), n]
    made = {id(chain): _spans(chain, places, memory) for chain in chains}
    spans = [made[id(chain)] for chain in chains]
    least = _shortest(spans, np.inf)
    if least is None:
        return None
    every = np.concatenate(list(made.values()))
    limits = np.unique(every[np.isfinite(every)])
    first = bisect_left(
        limits, True, key=lambda limit: _shortest(spans, limit) is not None
    )
    best: Stages | None = None
    last = -1.0
    for limit in map(float, limits[first:]):
        if best is not None and least[0] + (batches - 1) * limit >= best.seconds:
            break
        if limit <= last * _SAME:
            continue
        last = limit
        found = _shortest(spans, limit)
        assert found is not None  # as wider limits allow what narrower ones do
        total, ends = found
        pairs = zip(spans, pairwise(ends), strict=True)
        times = tuple(float(own[a, b]) for own, (a, b) in pairs)
        total += (batches - 1) * max(times)
        if best is None or total < best.seconds:
            starts = tuple(places[end] for end in ends[1:-1])
            best = Stages(total, starts, times)
    return best


def _spans(chain: Chain, places: Sequence[int], memory: float) -> np.ndarray:
    """Seconds of a stage from one place up to another; infinite where there is none."""
    begin = np.array(places)
    sums, held = (
        np.concatenate(([0.0], np.cumsum(x)))[begin]
        for x in (chain.seconds, chain.held)
    )
    sent = [0.0, *(chain.sent[i] for i in places[1:-1]), 0.0]
    spans = sums[None, :] - sums[:, None] + np.array(sent)[:, None]
    there = (held[None, :] - held[:, None] <= memory) & (
        begin[None, :] > begin[:, None]
    )
    return np.where(there, spans, np.inf)


def _shortest(
    spans: Sequence[np.ndarray], limit: float
) -> tuple[float, list[int]] | None:
    """The least sum of stages, none above `limit`, and where they begin and end, as
    numbers of places; None if there are no such stages."""
    allowed: dict[int, np.ndarray] = {}
    ahead = np.full(len(spans[0]), np.inf)
    ahead[0] = 0.0
    came = []
    for own in spans:
        if id(own) not in allowed:
            allowed[id(own)] = np.where(own <= limit * _SAME, own, np.inf)
        total = ahead[:, None] + allowed[id(own)]
        came.append(total.argmin(0))
        ahead = total.min(0)
    if not np.isfinite(ahead[-1]):
        return None
    ends = [len(spans[0]) - 1]
    for before in reversed(came):
        ends.append(int(before[ends[-1]]))
    return float(ahead[-1]), ends[::-1]
