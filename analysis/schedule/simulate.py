"""What a division into lanes comes to: time, memory, and bytes handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..dataflow.dag import Dag
from .linear_clustering import Costs, Lanes


@dataclass(frozen=True)
class Task:
    """One node in one lane, from start to end; seconds from the first start."""

    node: int
    lane: int
    start: float
    end: float


@dataclass(frozen=True)
class HandOff:
    """One result that one lane waits for; it goes there once, whoever reads it."""

    node: int
    source: int
    target: int


@dataclass(frozen=True)
class Schedule:
    """A simulated run."""

    tasks: tuple[Task, ...]
    hand_offs: tuple[HandOff, ...]
    makespan: float
    peak_bytes: int = 0
    moved_bytes: int = 0


def simulate(
    dag: Dag, lanes: Lanes, costs: Costs, result_bytes: Sequence[int] | None = None
) -> Schedule:
    """Run lanes that each work through their nodes in order, and send without waiting.

    A node that is in several lanes is computed in each; a lane without it gets it from
    the first that ends. Raises ValueError where lanes wait for each other for ever, and
    where a node is in no lane.
    """
    held = [set(lane) for lane in lanes]
    places: list[list[int]] = [[] for _ in range(len(dag))]
    for k, lane in enumerate(lanes):
        for node in lane:
            places[node].append(k)
    if not all(places):
        raise ValueError(f"node {places.index([])} is in no lane")
    run = _Run(dag, lanes, costs, held, places)
    run.to_the_end()
    tasks = tuple(sorted(run.tasks.values(), key=lambda t: (t.start, t.lane, t.node)))
    sizes = result_bytes or [0] * len(dag)
    return Schedule(
        tasks,
        tuple(run.hand_offs),
        max((task.end for task in tasks), default=0.0),
        _peak(dag, tasks, sizes),
        sum(sizes[h.node] for h in run.hand_offs),
    )


class _Run:
    """Advances each lane as far as its inputs allow, and wakes those that wait."""

    def __init__(
        self,
        dag: Dag,
        lanes: Lanes,
        costs: Costs,
        held: list[set[int]],
        places: list[list[int]],
    ) -> None:
        self.dag, self.lanes, self.costs = dag, lanes, costs
        self.held, self.places = held, places
        self.tasks: dict[tuple[int, int], Task] = {}
        self.hand_offs: list[HandOff] = []
        self._next = [0] * len(lanes)
        self._free = [0.0] * len(lanes)
        self._waiting: dict[tuple[int, int], set[int]] = {}
        self._sent: set[tuple[int, int]] = set()

    def to_the_end(self) -> None:
        ready = list(range(len(self.lanes)))
        while ready:
            ready += self._advance(ready.pop())
        stuck = [k for k, lane in enumerate(self.lanes) if self._next[k] < len(lane)]
        if stuck:
            raise ValueError(f"lanes {stuck} wait for each other")

    def _advance(self, lane: int) -> list[int]:
        """Run a lane until it has to wait; the lanes that it wakes."""
        woken: list[int] = []
        while self._next[lane] < len(self.lanes[lane]):
            node = self.lanes[lane][self._next[lane]]
            start = self._free[lane]
            for before in self.dag.predecessors[node]:
                source = self._source(before, lane)
                task = self.tasks.get((before, source))
                if task is None:
                    self._waiting.setdefault((before, source), set()).add(lane)
                    return woken
                if source != lane:
                    start = max(start, task.end + self.costs.edge(before, node))
            for before in self.dag.predecessors[node]:
                source = self._source(before, lane)
                if source != lane and (before, lane) not in self._sent:
                    self._sent.add((before, lane))
                    self.hand_offs.append(HandOff(before, source, lane))
            end = start + self.costs.nodes[node]
            self.tasks[node, lane] = Task(node, lane, start, end)
            self._free[lane] = end
            self._next[lane] += 1
            woken += sorted(self._waiting.pop((node, lane), ()))
        return woken

    def _source(self, node: int, lane: int) -> int:
        return lane if node in self.held[lane] else self.places[node][0]


def _peak(dag: Dag, tasks: Sequence[Task], sizes: Sequence[int]) -> int:
    """The most bytes of results alive at a time: from the start of a node until the
    last of those that read it ends. A clone's result counts once more."""
    last: dict[int, float] = {}
    for task in tasks:
        for before in dag.predecessors[task.node]:
            last[before] = max(last.get(before, 0.0), task.end)
    events = []
    for task in tasks:
        size = sizes[task.node]
        events.append((task.start, 1, size))
        events.append((max(last.get(task.node, task.end), task.end), 0, -size))
    alive = peak = 0
    for _, _, size in sorted(events):
        alive += size
        peak = max(peak, alive)
    return peak
