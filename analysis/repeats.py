"""Repeated parts of a computation that carries no names: what may be a class.

A network is a few frequent subgraphs, one after the other. Where one value alone leads
from what is before to what is behind, a block may end; blocks that do the same, numbers
aside, are of one kind, and kinds that come round in a fixed order are a larger one.
Works on the order of execution, with what reads what, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

# A value that is needed for longer than this part of all items leads past many blocks,
# like the outer skips of a U-Net.
FAR_PART = 0.4
MIN_ITEMS, MIN_LAYERS = 3, 2
MAX_PERIOD = 12  # blocks in one round
# A block of so many items, or of so many equal rounds, is no class but several.
LONG, MANY = 40, 4


@dataclass(frozen=True)
class Item:
    """One operation: what it does, numbers aside, and the values it reads and makes."""

    signature: str
    reads: tuple[Hashable, ...]
    outputs: tuple[Hashable, ...]
    is_layer: bool


@dataclass
class Block:
    """Items [start, end) that are one instance of a kind."""

    start: int
    end: int
    kind: int
    inner: list[Block] = field(default_factory=list)


def find_blocks(items: Sequence[Item]) -> list[Block]:
    """Disjoint blocks in order, each of a kind that occurs at least twice."""
    return _Finder(items).run()


class _Finder:
    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.kinds: dict[tuple[str, ...], int] = {}

    def run(self) -> list[Block]:
        segments = self.segments()
        blocks = self.repeated(segments)
        blocks = self.nearly(blocks)
        self.absorb(blocks)
        return self.rounds(blocks)

    # ---- where one value alone leads on

    def segments(self) -> list[tuple[int, int]]:
        """The items between two cuts."""
        last: dict[Hashable, int] = {}
        made: dict[Hashable, int] = {}
        for i, item in enumerate(self.items):
            for value in item.reads:
                last[value] = i
            for value in item.outputs:
                made[value] = i
        far = FAR_PART * len(self.items)
        early = self.early()
        alive: set[Hashable] = set()
        found = []
        start = 0
        for i, item in enumerate(self.items):
            given = (v for v in item.reads if v not in made)  # of the whole, an input
            alive.update(
                v
                for v in (*item.outputs, *given)
                if v in last and v not in early and last[v] - i <= far
            )
            alive = {v for v in alive if last[v] > i}
            if len(alive) <= 1:
                found.append((start, i + 1))
                start = i + 1
        if start < len(self.items):
            found.append((start, len(self.items)))
        return found

    def early(self) -> set[Hashable]:
        """Values that no layer has to do with: masks, which all blocks may use."""
        late: set[Hashable] = set()
        found: set[Hashable] = set()
        for item in self.items:
            is_late = item.is_layer or not late.isdisjoint(item.reads)
            (late if is_late else found).update(item.outputs)
        return found

    # ---- kinds

    def kind(self, start: int, end: int) -> int:
        key = tuple(item.signature for item in self.items[start:end])
        return self.kinds.setdefault(key, len(self.kinds))

    def large(self, start: int, end: int) -> bool:
        layers = sum(item.is_layer for item in self.items[start:end])
        return end - start >= MIN_ITEMS and layers >= MIN_LAYERS

    def repeated(self, segments: list[tuple[int, int]]) -> list[Block]:
        """Segments of a kind that occurs again; long others are searched inside."""
        blocks = [Block(a, b, self.kind(a, b)) for a, b in segments]
        counts = Counter(block.kind for block in blocks)
        found: list[Block] = []
        for block in blocks:
            if not self.large(block.start, block.end):
                continue
            long = block.end - block.start >= LONG
            rounds = self.tandem(block.start, block.end)
            if counts[block.kind] > 1 or not (long or len(rounds) >= MANY):
                found.append(block)
            else:
                found += rounds
        return found

    def tandem(self, start: int, end: int) -> list[Block]:
        """Stretches of items that come round again and again."""
        words = [item.signature for item in self.items[start:end]]
        best: tuple[int, int, int] | None = None  # items covered, where, period
        for period in range(MIN_ITEMS, len(words) // 2 + 1):
            run = 0
            for i in range(len(words) - period):
                run = run + 1 if words[i] == words[i + period] else 0
                count = run // period + 1
                if count > 1 and (best is None or count * period > best[0]):
                    first = i + period + 1 - count * period
                    if self.large(start + first, start + first + period):
                        best = (count * period, first, period)
        if best is None:
            return []
        covered, first, period = best
        words = words[first : first + covered]
        joins = [i for i, word in enumerate(words[:period]) if "cat(" in word]
        if len(joins) == 1 and joins[0]:  # begin with what all others are given
            first, covered = first + joins[0], covered - period
        return [
            Block(at, at + period, self.kind(at, at + period))
            for at in range(start + first, start + first + covered, period)
        ]

    # ---- near repeats

    def nearly(self, blocks: list[Block]) -> list[Block]:
        """Blocks that lack one item of a frequent kind, or have one more, are of it."""
        counts = Counter(block.kind for block in blocks)
        words = {n: key for key, n in self.kinds.items()}
        found = list(blocks)
        for kind, count in counts.most_common():
            if count < 2:
                continue
            for block in found:
                rarer = counts[block.kind] <= count and block.kind != kind
                if rarer and one_apart(words[block.kind], words[kind]):
                    block.kind = kind
            found = self.windows(words[kind][:-1], kind, found)
            if "cat(" in words[kind][0]:  # there is one operand to begin with
                found = self.windows(words[kind][1:], kind, found)
        found.sort(key=lambda block: block.start)
        again = Counter(block.kind for block in found)
        return [block for block in found if again[block.kind] > 1]

    def windows(
        self, short: tuple[str, ...], kind: int, blocks: list[Block]
    ) -> list[Block]:
        """The blocks, and where the items do what one does, its last or first left out.

        A block that is a part of such a place gives way to it.
        """
        size = len(short)
        owner: dict[int, Block] = {
            i: block for block in blocks for i in range(block.start, block.end)
        }
        signatures = [item.signature for item in self.items]
        kept = {block.start: block for block in blocks}
        i = 0
        while i + size <= len(signatures):
            there = {id(b): b for k in range(i, i + size) if (b := owner.get(k))}
            free = all(
                b.start >= i and b.end <= i + size and b.end - b.start < size
                for b in there.values()
            )
            if (
                free
                and tuple(signatures[i : i + size]) == short
                and self.large(i, i + size)
            ):
                for block in there.values():
                    del kept[block.start]
                new = kept[i] = Block(i, i + size, kind)
                owner.update(dict.fromkeys(range(i, i + size), new))
                i += size
            else:
                i += 1
        return list(kept.values())

    def absorb(self, blocks: list[Block]) -> None:
        """What stands behind, or in front of, every block of a kind belongs to it."""
        kinds: dict[int, list[Block]] = {}
        for block in blocks:
            kinds.setdefault(block.kind, []).append(block)
        for same in kinds.values():
            for step in (1, -1):
                while self.beside(same, step, blocks):
                    for block in same:
                        if step > 0:
                            block.end += 1
                        else:
                            block.start -= 1

    def beside(self, same: list[Block], step: int, blocks: list[Block]) -> bool:
        """Whether all blocks of a kind have the same free item on one side."""
        starts = {block.start for block in blocks}
        ends = {block.end for block in blocks}
        found = set()
        for block in same:
            at = block.end if step > 0 else block.start - 1
            if not 0 <= at < len(self.items) or at in starts or at + 1 in ends:
                return False
            item = self.items[at]
            # A layer begins what follows, unless it norms what there is.
            if step > 0 and item.is_layer and "Norm" not in item.signature:
                return False
            found.add(item.signature)
        return len(found) == 1

    # ---- rounds

    def rounds(self, blocks: list[Block]) -> list[Block]:
        """Blocks, and single items between them, that come round in a fixed order."""
        tokens: list[Block] = []
        at = 0
        for block in [*blocks, Block(len(self.items), len(self.items), -1)]:
            tokens += [
                Block(i, i + 1, self.kind(i, i + 1)) for i in range(at, block.start)
            ]
            if block.kind >= 0:
                tokens.append(block)
            at = block.end
        names = [token.kind for token in tokens]
        found: list[Block] = []
        i = 0
        while i < len(tokens):
            period, count = self.best_round(tokens, names, i)
            if count < 2:
                if tokens[i].end - tokens[i].start > 1:
                    found.append(tokens[i])
                i += 1
                continue
            kind = self.kinds.setdefault(
                ("round", *map(str, names[i : i + period])), len(self.kinds)
            )
            for k in range(count):
                parts = tokens[i + k * period : i + (k + 1) * period]
                inner = [part for part in parts if part.end - part.start > 1]
                found.append(Block(parts[0].start, parts[-1].end, kind, inner))
            i += count * period
        return found

    def best_round(
        self, tokens: list[Block], names: list[int], start: int
    ) -> tuple[int, int]:
        """The period that covers most from here, and how often it comes."""
        best = (1, 1)
        for period in range(1, min(MAX_PERIOD, (len(names) - start) // 2) + 1):
            first = names[start : start + period]
            large = [t for t in tokens[start : start + period] if t.end - t.start > 1]
            if not large or len(set(first)) == 1:
                continue
            count = 1
            while names[start + count * period : start + (count + 1) * period] == first:
                count += 1
            if count > 1 and count * period > best[0] * best[1]:
                best = (period, count)
        return best


def one_apart(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether one list is the other with one element left out or exchanged."""
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b, strict=True)) == 1
    long, short = (a, b) if len(a) > len(b) else (b, a)
    return len(long) == len(short) + 1 and short in set(_without_one(long))


def _without_one(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [words[:i] + words[i + 1 :] for i in range(len(words))]
