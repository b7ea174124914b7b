"""A chain of blocks divided into stages of a pipeline.

T = sum t_i + (B - 1) max t_i for B parts of a batch: for each limit on the slowest
stage, the least sum is a shortest path over the places to cut (Alpa, Zheng et al. 2022,
section 5; PipeDream). Limits are tried from the least on, until B times one is above
the best T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations


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
    """`starts` are the first blocks of all stages but the first."""

    seconds: float
    starts: tuple[int, ...]
    slowest: float


def divide(chain: Chain, count: int, batches: int, memory: float) -> Stages | None:
    """The stages of least time, each within `memory`; None if there are none."""
    n = len(chain.seconds)
    if count > n or count < 1:
        return None
    sums = [0.0, *accumulate(chain.seconds)]
    bytes_ = [0.0, *accumulate(chain.held)]
    places = [0, *(i for i in range(1, n) if chain.sent[i] != float("inf")), n]
    spans = {
        (a, b): sums[b] - sums[a] + (chain.sent[a] if a else 0.0)
        for a, b in combinations(places, 2)
        if bytes_[b] - bytes_[a] <= memory
    }
    best: Stages | None = None
    last = -1.0
    for limit in sorted(set(spans.values())):
        if best is not None and limit * batches >= best.seconds:
            break
        if limit <= last * (1 + 1e-9):
            continue  # as good as the one before
        last = limit
        starts = _shortest(spans, places, count, limit * (1 + 1e-9))
        if starts is None:
            continue
        ends = [*starts[1:], n]
        times = [spans[span] for span in zip(starts, ends, strict=True)]
        total = sum(times) + (batches - 1) * max(times)
        if best is None or total < best.seconds:
            best = Stages(total, tuple(starts[1:]), max(times))
    return best


def _shortest(
    spans: dict[tuple[int, int], float], places: Sequence[int], count: int, limit: float
) -> list[int] | None:
    """Where `count` stages begin, none above `limit`, of the least sum."""
    ahead: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for _ in range(count):
        nexts: dict[int, tuple[float, list[int]]] = {}
        for (a, b), seconds in spans.items():
            if seconds <= limit and a in ahead:
                total = ahead[a][0] + seconds
                if b not in nexts or total < nexts[b][0]:
                    nexts[b] = (total, [*ahead[a][1], a])
        ahead = nexts
    found = ahead.get(places[-1])
    return None if found is None else found[1]
