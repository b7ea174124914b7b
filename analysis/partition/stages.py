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


def divide(chain: Chain, count: int, batches: int, memory: float) -> Stages | None:
    """The stages of least time, each within `memory`; None if there are none."""
    n = len(chain.seconds)
    if count > n or count < 1:
        return None
    places = [0, *(i for i in range(1, n) if chain.sent[i] != float("inf")), n]
    spans = _spans(chain, places, memory)
    least = _shortest(spans, count, np.inf)
    if least is None:
        return None
    limits = np.unique(spans[np.isfinite(spans)])
    first = bisect_left(
        limits, True, key=lambda limit: _shortest(spans, count, limit) is not None
    )
    best: Stages | None = None
    last = -1.0
    for limit in map(float, limits[first:]):
        if best is not None and least[0] + (batches - 1) * limit >= best.seconds:
            break
        if limit <= last * _SAME:
            continue
        last = limit
        found = _shortest(spans, count, limit)
        assert found is not None  # as wider limits allow what narrower ones do
        total, ends = found
        times = tuple(float(spans[a, b]) for a, b in pairwise(ends))
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
    spans: np.ndarray, count: int, limit: float
) -> tuple[float, list[int]] | None:
    """The least sum of `count` stages, none above `limit`, and where they begin and
    end, as numbers of places; None if there are no such stages."""
    allowed = np.where(spans <= limit * _SAME, spans, np.inf)
    ahead = np.full(len(spans), np.inf)
    ahead[0] = 0.0
    came = []
    for _ in range(count):
        total = ahead[:, None] + allowed
        came.append(total.argmin(0))
        ahead = total.min(0)
    if not np.isfinite(ahead[-1]):
        return None
    ends = [len(spans) - 1]
    for before in reversed(came):
        ends.append(int(before[ends[-1]]))
    return float(ahead[-1]), ends[::-1]
