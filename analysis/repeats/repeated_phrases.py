"""Straight lines of operations that come again and again, as single items.

The branches of a cell and the pairs of convolutions of a U-Net are no regions: nothing
forks and joins in them. What tells them from any other stretch is that no operation
stands in front of all of them, or behind all of them, in the same line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from .cycles import Block
from .single_entry_regions import Item

MIN_ITEMS, MOST_ITEMS = 3, 15
MIN_LAYERS, MIN_PLACES = 2, 3
CLASS = 6  # lines of a class beside what it does

Words = tuple[str, ...]


@dataclass(frozen=True)
class Phrase:
    """What stands at several places, by their first items."""

    words: Words
    starts: tuple[int, ...]

    def spans(self) -> list[tuple[int, int]]:
        """The first item of each place where it stands, and the one behind it."""
        return [(start, start + len(self.words)) for start in self.starts]


def with_phrase(
    items: Sequence[Item], find: Callable[[Sequence[Item]], list[Block]]
) -> list[Block]:
    """The blocks of items, or of those with a phrase as one: the shorter to write."""
    plain = find(items)
    phrase = find_phrase(items)
    if phrase is None or _told(phrase, plain):
        return plain
    short, began = condensed(items, phrase)
    found = [_moved(block, began) for block in find(short)]
    kind = 1 + max((block.kind for block in _all(found)), default=0)
    alone = [Block(a, b, kind) for a, b in phrase.spans()]
    whole = _with_parts(found, alone)
    return min(plain, alone, whole, key=lambda blocks: _size(blocks, len(items)))


def _told(phrase: Phrase, blocks: Sequence[Block]) -> bool:
    """Whether most of its places stand alone in a block that has been found."""
    around = Counter(
        max((b.start, -b.end) for b in _all(blocks) if b.start <= at < b.end)
        for at in phrase.starts
        if any(b.start <= at < b.end for b in blocks)
    )
    return 2 * list(around.values()).count(1) > len(phrase.starts)


def _all(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        yield from _all(block.inner)


def _moved(block: Block, began: Sequence[int]) -> Block:
    """A block of condensed items, as one of the items."""
    inner = [_moved(part, began) for part in block.inner]
    return replace(block, start=began[block.start], end=began[block.end], inner=inner)


def _with_parts(blocks: Sequence[Block], parts: Sequence[Block]) -> list[Block]:
    """The blocks with smaller ones in them, and those that are in none, in order."""
    for block in blocks:
        inside = [p for p in parts if block.start <= p.start < block.end]
        block.inner = _with_parts(block.inner, inside)
    outside = [p for p in parts if not any(b.start <= p.start < b.end for b in blocks)]
    return sorted([*blocks, *outside], key=lambda block: block.start)


def _size(blocks: Sequence[Block], items: int) -> int:
    """Lines that a network of so many items takes with these classes."""

    def body(parts: Sequence[Block], count: int) -> int:
        return count + len(parts) - sum(p.end - p.start for p in parts)

    kinds = {block.kind: block for block in _all(blocks)}
    classes = (body(b.inner, b.end - b.start) + CLASS for b in kinds.values())
    return body(blocks, items) + sum(classes)


def find_phrase(items: Sequence[Item]) -> Phrase | None:
    """The phrase that spares most, if there is one."""
    lines = [tuple(item.signature for item in items[a:b]) for a, b in _lines(items)]
    places: dict[Words, list[tuple[int, int]]] = {}  # line and offset
    for number, line in enumerate(lines):
        for start in range(len(line)):
            for end in range(start + MIN_ITEMS, min(len(line), start + MOST_ITEMS) + 1):
                places.setdefault(line[start:end], []).append((number, start))
    starts = [a for a, _ in _lines(items)]
    found = []
    for words, where in places.items():
        if len(where) < MIN_PLACES or not _maximal(words, where, lines):
            continue
        first, *_ = where
        at = starts[first[0]] + first[1]
        if sum(item.is_layer for item in items[at : at + len(words)]) < MIN_LAYERS:
            continue
        kept = _apart(sorted(starts[n] + i for n, i in where), len(words))
        if len(kept) >= MIN_PLACES and _whole_runs(words, where, lines):
            found.append(Phrase(words, kept))

    def spared(phrase: Phrase) -> int:  # lines, written once and called at its places
        return (len(phrase.starts) - 1) * (len(phrase.words) - 1)

    return max(found, key=spared, default=None)


def condensed(items: Sequence[Item], phrase: Phrase) -> tuple[list[Item], list[int]]:
    """The items with one for each place of a phrase, and where each of them began."""
    made: list[Item] = []
    began: list[int] = []
    ends = dict(phrase.spans())
    at = 0
    while at < len(items):
        end = ends.get(at, at + 1)
        item = items[at]
        if at in ends:
            reads = dict.fromkeys(v for i in items[at:end] for v in i.reads)
            own = {v for i in items[at : end - 1] for v in i.outputs}
            given = tuple(v for v in reads if v not in own)
            item = Item("; ".join(phrase.words), given, items[end - 1].outputs, True)
        made.append(item)
        began.append(at)
        at = end
    return made, [*began, len(items)]


def _lines(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """Stretches in which each item alone reads what the one before it makes."""
    readers: Counter[Hashable] = Counter(v for i in items for v in set(i.reads))
    start = 0
    for at in range(1, len(items) + 1):
        if at < len(items):
            made = items[at - 1].outputs
            alone = len(made) == 1 and readers[made[0]] == 1
            if alone and set(items[at].reads) == set(made):
                continue
        first = start + (len(set(items[start].reads)) > 1)
        if at - first >= MIN_ITEMS:
            yield first, at
        start = at


def _maximal(
    words: Words, where: Sequence[tuple[int, int]], lines: Sequence[Words]
) -> bool:
    """Whether the places differ in what is in front of them, and in what is behind."""
    size = len(words)
    before = {lines[n][i - 1] if i else None for n, i in where}
    after = {lines[n][i + size] if i + size < len(lines[n]) else None for n, i in where}
    return all(len(side) > 1 or None in side for side in (before, after))


def _whole_runs(
    words: Words, where: Sequence[tuple[int, int]], lines: Sequence[Words]
) -> bool:
    """Whether a phrase ends no row of equal parts early, and is always one as long."""
    size = len(words)
    for line, start in ((lines[n], i) for n, i in where):
        for part in range(1, size):
            before, after = line[max(start - part, 0) : start], line[start + size :]
            if before == words[:part] or after[:part] == words[-part:]:
                return False
    part = next(n for n in range(1, size + 1) if words == words[:n] * (size // n))
    root = words[:part]
    if root == words:
        return True
    for line in lines:
        at = 0
        while at < len(line):
            run = 0
            while line[at + run * part : at + (run + 1) * part] == root:
                run += 1
            if run and run * part != size:
                return False
            at += max(run * part, 1)
    return True


def _apart(starts: Sequence[int], size: int) -> tuple[int, ...]:
    """Those that overlap no earlier one."""
    kept: list[int] = []
    for start in starts:
        if not kept or start >= kept[-1] + size:
            kept.append(start)
    return tuple(kept)
