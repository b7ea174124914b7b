"""Repeated parts of a computation that carries no names: what may be a class.

A network is a few frequent subgraphs, one after the other. A region that one value
enters and one leaves may be a block; blocks that do the same, numbers aside, are of one
kind, and kinds that come round in a fixed order are a larger one. A region within, that
stands in several places, is a smaller one.
Works on the order of execution, with what reads what, and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise

from .cycles import Block, find_rounds
from .repeat_counts import find_depths, one_apart
from .repeated_phrases import with_phrase
from .single_entry_regions import Item, Region, find_regions

# A value that is needed for longer than this part of all items leads past many blocks,
# which may read it besides their own: a bias of all layers, the output of an encoder.
FAR_PART = 0.4
MIN_ITEMS, MIN_LAYERS = 3, 2
# A block of so many items, or of so many equal rounds, is no class but several.
LONG, MANY = 40, 4


def find_blocks(items: Sequence[Item]) -> list[Block]:
    """Disjoint blocks in order, each of a kind that occurs at least twice."""
    return with_phrase(items, lambda some: _Finder(some).run())


class _Finder:
    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.kinds: dict[tuple[str, ...], int] = {}
        self.last = {v: i for i, item in enumerate(items) for v in item.reads}

    def run(self) -> list[Block]:
        self.apart = self.free()
        self.regions = find_regions(self.items, self.apart)
        blocks = self.repeated()
        blocks = self.nearly(blocks)
        whole = tuple(item.signature for item in self.items)
        blocks = find_depths(blocks, self.regions, whole, self.kinds)
        self.absorb(blocks)
        blocks = self.together(blocks)
        self.parts(blocks)
        return self.between(self.stages(blocks))

    # ---- regions

    def free(self) -> set[Hashable]:
        """Values that many blocks may read besides their own."""
        made = {v: i for i, item in enumerate(self.items) for v in item.outputs}
        far = FAR_PART * len(self.items)
        long = {v for v, i in made.items() if self.last.get(v, i) - i > far}
        return self.early() | long

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

    def spans(self) -> list[tuple[int, int]]:
        """Where the large regions begin and end."""
        every = (region for outer in self.regions for region in outer.all())
        return [(r.start, r.end) for r in every if self.large(r.start, r.end)]

    def repeated(self) -> list[Block]:
        """Outermost regions of a kind that occurs again; others are searched inside."""
        counts = Counter(self.kind(*span) for span in self.spans())
        words = list(self.kinds)

        def search(region: Region) -> list[Block]:
            start, end = region.start, region.end
            if not self.large(start, end):
                return []
            kind = self.kind(start, end)
            more = counts[kind] < 2 and self.joins_more(region)
            if more and (rounds := self.tandem(start, end)):
                return rounds
            alike = any(one_apart(words[kind], w) for w in words)
            if counts[kind] > 1 or alike or self.has_neighbour(region):
                return [Block(start, end, kind)]
            inner = [block for part in region.inner for block in search(part)]
            if inner:
                return inner
            rounds = self.tandem(start, end)
            long = end - start >= LONG or len(rounds) >= MANY
            return rounds if long or self.grows(rounds[:1] + rounds) else []

        return [block for region in self.regions for block in search(region)]

    def tandem(self, start: int, end: int) -> list[Block]:
        """Stretches of items that come round again and again."""
        words = [item.signature for item in self.items[start:end]]
        best: tuple[int, int, int] | None = None  # items covered, end, period
        for period in range(MIN_ITEMS, len(words) // 2 + 1):
            run = 0
            for i in range(len(words) - period):
                run = run + 1 if words[i] == words[i + period] else 0
                covered = run + period
                if run < period or (best is not None and covered <= best[0]):
                    continue
                upto = start + i + 1 + period
                if self.large(upto - period, upto):
                    best = (covered, upto, period)
        return self.cut(*best) if best is not None else []

    def cut(self, covered: int, end: int, period: int) -> list[Block]:
        """Rounds of a stretch, cut where the fewest values enter and leave them."""
        made = [(i, v) for i, item in enumerate(self.items) for v in item.outputs]

        def crossing(first: int) -> int:
            cut = first + (covered // period - 1) // 2 * period + period
            alive = [i for i, v in made if i < cut <= self.last.get(v, i)]
            return len(alive) + sum(i >= cut - period for i in alive)

        begins = range(end - covered, end - covered + min(period, covered - period + 1))
        first = min(begins, key=crossing)
        return [
            Block(at, at + period, self.kind(at, at + period))
            for at in range(first, end - period + 1, period)
        ]

    # ---- near repeats

    def nearly(self, blocks: list[Block]) -> list[Block]:
        """Blocks that lack one item of a frequent kind, or have one more, are of it."""
        counts = Counter(block.kind for block in blocks)
        words = {n: key for key, n in self.kinds.items()}
        found = list(blocks)
        for kind, count in counts.most_common():
            for block in found:
                rarer = counts[block.kind] <= count and block.kind != kind
                if rarer and one_apart(words[block.kind], words[kind]):
                    block.kind = kind
            found = self.windows(words[kind], kind, found)
            if "cat(" not in words[kind][-1]:  # which can't stand for the whole
                found = self.windows(words[kind][:-1], kind, found)
            if "cat(" in words[kind][0] and count > 1:  # one operand to begin with
                found = self.windows(words[kind][1:], kind, found)
        found.sort(key=lambda block: block.start)
        again = Counter(block.kind for block in found)
        return [block for block in found if again[block.kind] > 1]

    def windows(
        self, short: tuple[str, ...], kind: int, blocks: list[Block]
    ) -> list[Block]:
        """The blocks, and where items do what one does, or all but its first or last.

        Only what stands beside one of the kind, and cuts no region, is another; a block
        that is a part of such a place gives way to it.
        """
        size = len(short)
        kept = {block.start: block for block in blocks}
        todo = [b for b in blocks if b.kind == kind and size >= MIN_ITEMS]
        while todo:
            block = todo.pop()
            for start in (block.start - size, block.end):
                span = Block(start, start + size, kind)
                if start < 0 or self.words(span) != short or self.crossed(span):
                    continue
                there = [b for b in kept.values() if b.start < span.end > start < b.end]
                if self.large(start, span.end) and all(
                    start <= b.start and b.end <= span.end and b.end - b.start < size
                    for b in there
                ):
                    for inner in there:
                        del kept[inner.start]
                    kept[start] = span
                    todo.append(span)
        return list(kept.values())

    def has_neighbour(self, region: Region) -> bool:
        """Whether the items beside a region do what it does, its last left out."""
        size = region.end - region.start - 1
        *short, last = self.words(region)
        if "cat(" in last:
            return False
        beside = [(region.start - size, region.start), (region.end, region.end + size)]
        return any(a >= 0 and self.words(Region(a, b)) == (*short,) for a, b in beside)

    def crossed(self, block: Block) -> bool:
        """Whether a region begins within a block and ends behind it, or the reverse."""
        every = (region for outer in self.regions for region in outer.all())
        return any(
            (
                r.start < block.start < r.end < block.end
                and not self.line(r.end, block.end)
            )
            or block.start < r.start < block.end < r.end
            for r in every
        )

    def line(self, start: int, end: int) -> bool:
        """Whether each item reads what the one before it made, and no more."""
        return all(
            set(self.items[i].reads) - self.apart <= set(self.items[i - 1].outputs)
            for i in range(start, end)
        )

    def absorb(self, blocks: list[Block]) -> None:
        """What stands behind, or in front of, every block of a kind belongs to it."""
        kinds: dict[int, list[Block]] = {}
        for block in blocks:
            kinds.setdefault(block.kind, []).append(block)
        for step in (1, -1):  # a norm behind a sum is its block's, not the next one's
            for same in kinds.values():
                while self.beside(same, step, blocks):
                    for block in same:
                        block.start += min(step, 0)
                        block.end += max(step, 0)

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
            # A layer begins what follows, unless it norms or mixes what there is.
            joined = "cat(" in self.items[block.end - 1].signature
            own = joined or "Norm" in item.signature
            if step > 0 and item.is_layer and not own:
                return False
            wider = Block(min(at, block.start), max(at + 1, block.end), block.kind)
            if self.links(wider) > self.links(block):
                return False
            found.add(item.signature)
        return len(found) == 1

    def flow(self, start: int, end: int) -> tuple[set[Hashable], set[Hashable]]:
        """What is made there, and what enters."""
        inside = self.items[start:end]
        made = {v for item in inside for v in item.outputs}
        return made, {v for item in inside for v in item.reads} - made - self.apart

    def links(self, block: Block) -> int:
        """How many values enter a block, or leave it."""
        made, read = self.flow(block.start, block.end)
        later = [v for v in made if self.last.get(v, -1) >= block.end]
        return len(read) + len(later)

    # ---- what stands around blocks

    def together(self, blocks: list[Block]) -> list[Block]:
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
        return find_rounds(tokens, self.kinds)

    def between(self, blocks: list[Block]) -> list[Block]:
        """The blocks, and what stands between two of them in several places."""
        gaps = [
            Block(a.end, b.start, self.kind(a.end, b.start), is_between=True)
            for a, b in pairwise(blocks)
            if self.large(a.end, b.start) and self.is_closed(a.end, b.start)
        ]
        counts = Counter(gap.kind for gap in gaps)
        found = [*blocks, *(gap for gap in gaps if counts[gap.kind] > 1)]
        return sorted(found, key=lambda block: block.start)

    def is_closed(self, start: int, end: int) -> bool:
        """Whether at most two values enter, and the last result alone leaves."""
        made, read = self.flow(start, end)
        inner = made.difference(self.items[end - 1].outputs)
        alone = all(self.last.get(v, -1) < end for v in inner)
        return len(read) <= 2 and alone

    # ---- parts

    def parts(self, blocks: list[Block]) -> None:
        """Give blocks the regions within them that stand in more than one place."""
        spans = self.spans()
        same: dict[int, list[Block]] = {}
        for block in blocks:
            for leaf in block.leaves():
                same.setdefault(leaf.kind, []).append(leaf)
        spellings = {
            (kind, self.words(b)) for kind, leaves in same.items() for b in leaves
        }
        places = Counter(self.kinds.get(words) for _, words in spellings)
        within: dict[int, list[tuple[int, int]]] = {}
        for kind, leaves in same.items():
            longest = max(leaves, key=lambda block: block.end - block.start)
            within[kind] = self.smaller(longest, spans)
            places.update(self.kind(*span) for span in within[kind])
        for kind, leaves in same.items():
            longest = max(leaves, key=lambda block: block.end - block.start)
            chosen = outermost(
                s for s in within[kind] if places[self.kind(*s)] > 1 or self.gates(*s)
            )
            for leaf in leaves if chosen else ():
                leaf.inner = self.carried_over(chosen, longest, leaf)
            widen(leaves, self.items, self.last)

    def stages(self, blocks: list[Block]) -> list[Block]:
        """Blocks that each join all before them are the parts of their region."""
        found = list(blocks)
        for region in self.regions:
            start, end = region.start, region.end
            inner = [b for b in found if start <= b.start and b.end <= end]
            if self.grows(inner):
                words = ("stage", *sorted({str(b.kind) for b in inner}))
                kind = self.kinds.setdefault(words, len(self.kinds))
                at = found.index(inner[0])
                found[at : at + len(inner)] = [Block(start, end, kind, inner)]
        return found

    def grows(self, blocks: list[Block]) -> bool:
        """Whether each block joins one value more than the one before it."""
        joins = [self.items[block.start] for block in blocks[1:]]
        return len(blocks) >= MANY - 1 and all(
            "cat(" in join.signature and len(join.reads) == i
            for i, join in enumerate(joins, start=2)
        )

    def joins_more(self, region: Region) -> bool:
        """Whether two values are joined in a region, then three, and so on."""
        inside = self.items[region.start : region.end]
        sizes = [len(item.reads) for item in inside if "cat(" in item.signature]
        return len(sizes) >= MANY - 1 and sizes == list(range(2, len(sizes) + 2))

    def smaller(
        self, block: Block, spans: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The regions within a block that leave it layers of its own."""
        layers = sum(item.is_layer for item in self.items[block.start : block.end])
        return [
            (a, b)
            for a, b in spans
            if block.start <= a < b <= block.end
            and sum(item.is_layer for item in self.items[a:b]) < layers
            and b - a > MIN_ITEMS
        ]

    def gates(self, start: int, end: int) -> bool:
        """Whether a region weighs what enters it, as squeeze and excitation do."""
        first, last = self.items[start], self.items[end - 1]
        return not first.is_layer and last.signature == "v * v"

    def carried_over(
        self, spans: list[tuple[int, int]], whole: Block, block: Block
    ) -> list[Block]:
        """The parts of a block, where another one of its kind has them."""
        mine, theirs = self.words(block), self.words(whole)
        if mine != theirs and not one_apart(mine, theirs):
            return []
        lacks = len(theirs)
        if len(mine) < lacks:
            pairs = enumerate(zip(mine, theirs, strict=False))
            lacks = next((i for i, (a, b) in pairs if a != b), len(mine))
        found = []
        for a, b in spans:
            start, end = a - whole.start, b - whole.start
            kind = self.kind(a, b)
            start, end = start - (lacks < start), end - (lacks < end)
            found.append(Block(block.start + start, block.start + end, kind))
        return found

    def words(self, block: Block | Region) -> tuple[str, ...]:
        items = self.items[block.start : block.end]
        return tuple(item.signature for item in items)


def outermost(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that lie in no other, in order."""
    found: list[tuple[int, int]] = []
    for a, b in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not found or a >= found[-1][1]:
            found.append((a, b))
    return found


def widen(
    blocks: Sequence[Block], items: Sequence[Item], last: Mapping[Hashable, int]
) -> None:
    """All parts of a kind take in what scales or shifts the input of each.

    `blocks` are those that the parts are in, `last` says where a value is last read.
    """
    ends = {part.end for block in blocks for part in block.inner}
    kinds: dict[int, list[tuple[Block, Block]]] = {}
    for block in blocks:
        for part in block.inner:
            kinds.setdefault(part.kind, []).append((part, block))

    def fits(part: Block, block: Block) -> bool:
        if part.start <= block.start or part.start in ends:
            return False
        item = items[part.start - 1]
        own = all(last.get(value, -1) < part.end for value in item.outputs)
        scales = item.signature in ("v * v", "v + v") and len(set(item.reads)) == 1
        return own and scales

    for same in kinds.values():
        while all(fits(part, block) for part, block in same):
            if len({items[part.start - 1].signature for part, _ in same}) > 1:
                break
            for part, _ in same:
                part.start -= 1
