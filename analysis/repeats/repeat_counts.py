"""Regions that differ in how many equal blocks follow each other in them.

Where a region is `A B B B C`, of equal blocks B, `A B C` and `A b b C` are blocks of
the same kind, which has a depth. b is B with one operation left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .cycles import Block
from .single_entry_regions import Region

Words = tuple[str, ...]


@dataclass(frozen=True)
class _Pattern:
    """What stands in front of a row of blocks, one of them, and what is behind it."""

    before: Words
    part: Words
    after: Words
    kind: int  # of the part

    def size(self, words: Words) -> int:
        """How long each part of the row is in what does this; 0 for anything else."""
        first, last = len(self.before), len(words) - len(self.after)
        row = words[first:last]
        if not row or words[:first] != self.before or words[last:] != self.after:
            return 0
        for size in (len(self.part), len(self.part) - 1):
            count, rest = divmod(len(row), size) if size else (0, 1)
            part = row[:size]
            alike = part == self.part or one_apart(part, self.part)
            if not rest and alike and row == part * count:
                return size
        return 0


def find_depths(
    blocks: list[Block],
    regions: Sequence[Region],
    words: Words,
    kinds: dict[Words, int],
) -> list[Block]:
    """The blocks, in order; rows of them give way to regions that hold any number."""
    patterns = [p for r in _free(regions, blocks) if (p := _pattern(r, blocks, words))]
    for pattern in dict.fromkeys(patterns):
        sizes: dict[tuple[int, int], int] = {}
        end = 0
        for region in _free(regions, blocks):
            size = pattern.size(words[region.start : region.end])
            if size and region.start >= end:
                sizes[region.start, region.end] = size
                end = region.end
        if len(sizes) < 2:
            continue
        key = ("row", *pattern.before, str(pattern.kind), *pattern.after)
        kind = kinds.setdefault(key, len(kinds))
        for (start, end), size in sizes.items():
            first, last = start + len(pattern.before), end - len(pattern.after)
            inner = [
                Block(at, at + size, pattern.kind, in_row=True)
                for at in range(first, last, size)
            ]
            inside = slice(*_inside(Region(start, end), blocks))
            blocks[inside] = [Block(start, end, kind, inner)]
    return blocks


def _pattern(region: Region, blocks: list[Block], words: Words) -> _Pattern | None:
    """What a region is that holds one row of equal blocks, and more than that."""
    low, high = _inside(region, blocks)
    row = blocks[low:high]
    if len(row) < 2 or row[-1].end - row[0].start == region.end - region.start:
        return None
    if any(a.end != b.start for a, b in pairwise(row)):
        return None
    part, *others = [words[block.start : block.end] for block in row]
    if any(b.kind != row[0].kind for b in row) or any(o != part for o in others):
        return None
    before = words[region.start : row[0].start]
    return _Pattern(before, part, words[row[-1].end : region.end], row[0].kind)


def _inside(region: Region, blocks: list[Block]) -> tuple[int, int]:
    """Where the blocks stand among all that begin in a region."""
    low = bisect_left(blocks, region.start, key=lambda block: block.start)
    return low, bisect_left(blocks, region.end, lo=low, key=lambda block: block.start)


def _free(regions: Sequence[Region], blocks: list[Block]) -> Iterator[Region]:
    """Regions that stand in no block and cut none; outer ones first."""
    for region in regions:
        low, high = _inside(region, blocks)
        around = blocks[low - 1] if low else None
        if around is not None and around.end > region.start:
            continue  # it begins in a block
        if low == high or blocks[high - 1].end <= region.end:
            yield region
        yield from _free(region.inner, blocks)


def one_apart(a: Words, b: Words) -> bool:
    """Whether one list is the other with one element left out or exchanged."""
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b, strict=True)) == 1
    long, short = (a, b) if len(a) > len(b) else (b, a)
    if len(long) != len(short) + 1:
        return False
    at = next((i for i, x in enumerate(short) if x != long[i]), len(short))
    return short[at:] == long[at + 1 :]


LONGEST = 400  # elements of one copy
SAVING = 6  # elements that a stack hides, at least


@dataclass(frozen=True)
class Stack:
    """`count` equal runs of `period` elements, one after another from `start`."""

    start: int
    period: int
    count: int


def stacks(tokens: Sequence[Hashable], cuts: Sequence[int] = ()) -> list[Stack]:
    """Runs that don't overlap, from the front, each as long in all as it can be.

    Where a part of one more run follows, all may start later: they do where `cuts`, a
    number for the place before each element, is smallest.
    """
    number = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    row = [number[token] for token in tokens]
    found: list[Stack] = []
    start = 0
    while start < len(row):
        best: tuple[Stack, int] | None = None
        for stack, rest in _candidates(row, start):
            if (
                best is None
                or stack.period * stack.count > best[0].period * best[0].count
            ):
                best = (stack, rest)
        if best is None:
            start += 1
            continue
        stack, rest = best
        if cuts:
            first = min(range(start, start + rest + 1), key=cuts.__getitem__)
            stack = Stack(first, stack.period, stack.count)
        found.append(stack)
        start = stack.start + stack.period * stack.count
    return found


def _candidates(row: list[int], start: int) -> Iterator[tuple[Stack, int]]:
    """Stacks at `start`, and how many elements of one more copy follow each."""
    for period in range(2, min(LONGEST, (len(row) - start) // 2) + 1):
        if row[start] != row[start + period]:
            continue
        end = start + period
        while end < len(row) and row[end] == row[end - period]:
            end += 1
        count, rest = divmod(end - start, period)
        if period * (count - 1) >= SAVING:
            yield Stack(start, period, count), rest
