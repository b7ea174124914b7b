"""Where a sequence of work forks into lanes that join again.

Linear clusters may hand results over anywhere. A person follows a division more easily
that has two kinds of places alone: where lanes begin together, and where all of them
have ended. Between those, lanes need nothing of each other: each takes whole connected
parts of what lies there, as each branch of an Inception block is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..dataflow.dag import Dag

Part = tuple[list[int], float]  # items, and their seconds

WINDOW = 128  # items between a fork and its join, for the time that planning takes
TIE = 1e-9  # seconds: of divisions that take as long, that with the longest lanes


@dataclass(frozen=True)
class Work:
    """Seconds of each item: in a lane, and outside, where it may fork inside itself.

    `moved` is what it takes to hand an item's result to another lane, `fork` to fork
    and to join; `barriers` are items that may not be in one.
    """

    inside: Sequence[float]
    outside: Sequence[float]
    moved: Sequence[float]
    fork: float
    barriers: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Fork:
    """Consecutive items, in lanes; the first is the caller's own and takes longest."""

    lanes: tuple[tuple[int, ...], ...]
    seconds: float
    saved: float

    @property
    def first(self) -> int:
        """The first of the items, which stand together."""
        return min(lane[0] for lane in self.lanes)

    @property
    def end(self) -> int:
        """The place behind the last of the items."""
        return max(lane[-1] for lane in self.lanes) + 1


def find_forks(dag: Dag, work: Work, count: int) -> tuple[Fork, ...]:
    """The division of 0 .. n-1, which is kept in order, that takes the least time."""
    best = [0.0] + [float("inf")] * len(dag)
    chosen: list[Fork | None] = [None] * (len(dag) + 1)
    for start in range(len(dag)):
        alone = best[start] + work.outside[start]
        if alone < best[start + 1]:
            best[start + 1], chosen[start + 1] = alone, None
        for fork in _forks_at(dag, work, count, start) if count > 1 else ():
            seconds = best[start] + fork.seconds - TIE * (fork.end - start)
            if seconds < best[fork.end]:
                best[fork.end], chosen[fork.end] = seconds, fork
    found = []
    end = len(dag)
    while end:
        last = chosen[end]
        if last is not None:
            found.append(last)
        end = end - 1 if last is None else last.first
    return tuple(reversed(found))


def _forks_at(dag: Dag, work: Work, count: int, start: int) -> list[Fork]:
    """Forks whose first item is `start`."""
    found = []
    parts: dict[int, Part] = {}  # connected, by one of their items
    part_of: dict[int, int] = {}
    outside = 0.0
    for end in range(start, min(start + WINDOW, len(dag))):
        if end in work.barriers:
            break
        outside += work.outside[end]
        near = {part_of[p] for p in dag.predecessors[end] if p >= start}
        joined = [parts.pop(name) for name in sorted(near)]
        items = sorted([*(i for part in joined for i in part[0]), end])
        parts[end] = (items, sum(part[1] for part in joined) + work.inside[end])
        part_of.update(dict.fromkeys(items, end))
        if len(parts) < 2:
            continue
        longest = max(seconds for _, seconds in parts.values())
        if longest + work.fork < outside:
            fork = _divided(dag, work, count, list(parts.values()), outside)
            if fork.saved > 0:
                found.append(fork)
    return found


def _divided(
    dag: Dag, work: Work, count: int, parts: list[Part], outside: float
) -> Fork:
    """The parts that take longest first, each to the lane that has the least to do."""
    lanes: list[list[int]] = [[] for _ in range(min(count, len(parts)))]
    load = [0.0] * len(lanes)
    for items, seconds in sorted(parts, key=lambda part: (-part[1], part[0])):
        emptiest = load.index(min(load))
        lanes[emptiest] += items
        load[emptiest] += seconds
    order = sorted(range(len(lanes)), key=lambda k: (-load[k], k))
    divided = tuple(tuple(sorted(lanes[k])) for k in order)
    seconds = fork_seconds(dag, work, divided)
    return Fork(divided, seconds, outside - seconds)


def fork_seconds(dag: Dag, work: Work, lanes: Sequence[Sequence[int]]) -> float:
    """From the fork to the join; the first lane is the caller's own."""
    took = [sum(work.inside[i] for i in lanes[0]) + work.fork]
    for lane in lanes[1:]:
        members = set(lane)
        given = {p for i in members for p in dag.predecessors[i]} - members
        made = {i for i in members if not members.issuperset(dag.successors[i])}
        handed = sum(work.moved[i] for i in given | made)
        took.append(sum(work.inside[i] for i in lane) + work.fork + handed)
    return max(took)
