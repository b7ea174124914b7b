"""Parts of a computation that one value enters and one value leaves.

Where a value is read twice, the ways that begin there meet again: the region between is
a block with its skip, or the branches of one. A chain of operations has no regions, and
two of them are disjoint or one within the other (the program structure tree of Johnson,
Pearson and Pingali, on the order of execution).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

# A value that more operations read, such as one that a thousand outputs are made of,
# is no way into a block for the later ones; nor does anybody write classes so deep.
_MOST_READERS, _DEEPEST = 64, 50


@dataclass(frozen=True)
class Item:
    """One operation: what it does, numbers aside, and the values it reads and makes."""

    signature: str
    reads: tuple[Hashable, ...]
    outputs: tuple[Hashable, ...]
    is_layer: bool


@dataclass
class Region:
    """Items [start, end), and the regions within."""

    start: int
    end: int
    inner: list[Region] = field(default_factory=list)

    def all(self) -> Iterator[Region]:
        """This region and those within, each before its own."""
        waiting = [self]
        while waiting:
            region = waiting.pop()
            yield region
            waiting += region.inner[::-1]


def find_regions(items: Sequence[Item], free: Collection[Hashable]) -> list[Region]:
    """The outermost regions, in order; values in `free` may enter any of them."""
    made = {v: i for i, item in enumerate(items) for v in item.outputs}
    readers: dict[Hashable, list[int]] = {}
    for i, item in enumerate(items):
        for value in dict.fromkeys(item.reads):
            readers.setdefault(value, []).append(i)
    found: set[tuple[int, int]] = set()
    for value, places in readers.items():
        for start in places[:_MOST_READERS]:
            found.update(_regions_at(items, start, value, made, readers, free))
    found.update(_cells(items, made, readers, free))
    return _nested(found)


def _cells(
    items: Sequence[Item],
    made: dict[Hashable, int],
    readers: dict[Hashable, list[int]],
    free: Collection[Hashable],
) -> Iterator[tuple[int, int]]:
    """Parts that read what the last two before them made, as the cells of NASNet do."""
    alive: set[Hashable] = set()
    needed: list[set[Hashable]] = []  # after each item
    ends: dict[int, int] = {}
    for i, item in enumerate(items):
        alive.update(v for v in item.outputs if v in readers and v not in free)
        alive.difference_update(v for v in item.reads if readers[v][-1] <= i)
        needed.append(set(alive) if len(alive) == 2 else set())
        others = needed[i].difference(item.outputs)
        if len(others) != 1:
            continue
        (last,) = others
        before = made.get(last, i)
        if before >= i or not needed[before] or readers[last][0] >= i:
            continue
        more = ends.get(before) == i - 1 and not item.is_layer
        if before not in ends or (
            more and set(item.reads) <= set(items[i - 1].outputs)
        ):
            ends[before] = i
    for before, end in ends.items():
        yield before + 1, end + 1


def _regions_at(
    items: Sequence[Item],
    start: int,
    entry: Hashable,
    made: dict[Hashable, int],
    readers: dict[Hashable, list[int]],
    free: Collection[Hashable],
) -> Iterator[tuple[int, int]]:
    """Regions that begin at an item, each with one more reader of their entry."""
    alive: set[Hashable] = set()
    forked = len(items[start].outputs) > 1
    for i in range(start, len(items)):
        for value in items[i].reads:
            if made.get(value, start) < start and value != entry and value not in free:
                return
        forked |= i > start and entry in items[i].reads
        if not forked and readers[entry][-1] <= i:
            return
        alive.update(v for v in items[i].outputs if v in readers)
        alive.difference_update(v for v in items[i].reads if readers[v][-1] <= i)
        if forked and len(alive) <= 1:
            yield start, i + 1
            forked = False


def _nested(spans: Collection[tuple[int, int]]) -> list[Region]:
    """Spans as a tree; of two that cross, which free values allow, the longer stays."""
    whole: list[Region] = []
    around: list[Region] = []
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        while around and around[-1].end <= start:
            around.pop()
        if len(around) == _DEEPEST or (around and around[-1].end < end):
            continue
        region = Region(start, end)
        (around[-1].inner if around else whole).append(region)
        around.append(region)
    return whole
