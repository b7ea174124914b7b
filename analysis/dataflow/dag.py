"""Directed acyclic graphs of numbers, and groupings of their nodes.

What plans are made of: a graph of operators is reduced to this first, so that the
planners are functions of plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

MAX_SEARCH = 200  # groups on the way between two that are to be merged


@dataclass(frozen=True)
class Dag:
    """Nodes 0 .. n-1 in topological order: the successors of a node come after it."""

    successors: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, size: int, edges: Iterable[tuple[int, int]]) -> Dag:
        """The graph with these edges; an edge given twice is one edge."""
        found: list[set[int]] = [set() for _ in range(size)]
        for first, second in edges:
            if not 0 <= first < second < size:
                raise ValueError(f"edge {first} -> {second} among {size} nodes")
            found[first].add(second)
        return cls(tuple(tuple(sorted(row)) for row in found))

    @cached_property
    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """Of each node, those that lead to it, in order."""
        found: list[list[int]] = [[] for _ in self.successors]
        for first, second in self.edges():
            found[second].append(first)
        return tuple(map(tuple, found))

    def __len__(self) -> int:
        return len(self.successors)

    def edges(self) -> Iterable[tuple[int, int]]:
        """All pairs (node, successor), by node."""
        return ((a, b) for a, row in enumerate(self.successors) for b in row)


class Grouping:
    """Groups that grow by merging, as long as the graph of groups stays acyclic.

    Each group has a place in a topological order of the graph of groups. A merge can
    only disturb the order between the places of the two, so it is searched for a path,
    and repaired, there (Pearce and Kelly's dynamic topological sort).
    """

    def __init__(self, dag: Dag) -> None:
        self.dag = dag
        self.group_of = list(range(len(dag)))
        self.members = {node: [node] for node in range(len(dag))}
        self._place = list(range(len(dag)))

    def merge(self, first: int, second: int) -> bool:
        """Join two groups with an edge from `first` to `second`, under `first`'s name.

        False, and nothing is done, where a third group lies on a path between them, or
        where that would take too long to rule out.
        """
        after = self._between(first, second, self.dag.successors, 1)
        if after is None:
            return False
        before = self._between(second, first, self.dag.predecessors, -1)
        if before is None:
            return False
        # What lies before moves to the front of the places at hand, what lies after to
        # their end: only towards where nothing outside can stand in the way.
        moved = [*self._sorted(before), first, second, *self._sorted(after)]
        places = sorted(self._place[group] for group in moved)
        for group, place in zip(moved, places, strict=True):
            self._place[group] = place
        for node in self.members[second]:
            self.group_of[node] = first
        self.members[first] += self.members.pop(second)
        return True

    def in_order(self) -> list[int]:
        """The groups, each after those that lead to it."""
        return self._sorted(self.members)

    def _between(
        self, start: int, end: int, ways: tuple[tuple[int, ...], ...], sign: int
    ) -> set[int] | None:
        """Groups on the way from `start` that lie before `end`.

        None where a path of two steps or more leads there, and where they are too many.
        """
        limit = sign * self._place[end]
        found: set[int] = set()
        pending = [start]
        while pending:
            group = pending.pop()
            for node in self.members[group]:
                for other in map(self.group_of.__getitem__, ways[node]):
                    if other in found or other == start:
                        continue
                    if other == end and group == start:
                        continue
                    if other == end or len(found) == MAX_SEARCH:
                        return None
                    if sign * self._place[other] < limit:
                        found.add(other)
                        pending.append(other)
        return found

    def _sorted(self, groups: Iterable[int]) -> list[int]:
        by_place: Callable[[int], int] = self._place.__getitem__
        return sorted(groups, key=by_place)
