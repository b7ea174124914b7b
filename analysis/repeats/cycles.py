"""Blocks that come round in a fixed order, and those that always stand together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

MAX_PERIOD = 12  # blocks in one round


@dataclass
class Block:
    """Items [start, end) that are one instance of a kind."""

    start: int
    end: int
    kind: int
    inner: list[Block] = field(default_factory=list)
    is_between: bool = False  # leads from one stage of blocks to the next
    in_row: bool = False  # one of as many equal parts as the whole is deep

    def leaves(self) -> Iterator[Block]:
        """The smallest blocks in it; itself, if there are none."""
        for part in self.inner:
            yield from part.leaves()
        if not self.inner:
            yield self

    @property
    def is_single(self) -> bool:
        """Whether it is a single item, which stands between blocks."""
        return self.end - self.start == 1


def find_rounds(
    tokens: Sequence[Block], kinds: dict[tuple[str, ...], int]
) -> list[Block]:
    """The blocks among tokens; those that come round in a fixed order are one.

    A kind stands in rounds of one kind everywhere, or in none: where rounds leave some
    of its blocks over, or hold them in two ways, those that always stand side by side
    are paired instead, or what is around single ones is left out.
    """
    found = _rounds(tokens, kinds)
    ends = {block.start: block.end for block in tokens}
    around: dict[int, set[int]] = {}
    for block in found:
        whole = ends[block.start] < block.end
        for part in block.inner if whole else [block]:
            around.setdefault(part.kind, set()).add(block.kind)
    if all(len(rounds) == 1 for rounds in around.values()):
        return found

    def single(block: Block) -> Block:
        whole = ends[block.start] < block.end and len(block.inner) == 1
        part = block.inner[0] if whole else block
        return part if len(around.get(part.kind, ())) > 1 else block

    return _pairs(tokens, kinds) or [single(block) for block in found]


def _rounds(tokens: Sequence[Block], kinds: dict[tuple[str, ...], int]) -> list[Block]:
    names = [token.kind for token in tokens]
    found: list[Block] = []
    i = 0
    while i < len(tokens):
        period, count = _best_round(tokens, names, i)
        if count < 2:
            if not tokens[i].is_single:
                found.append(tokens[i])
            i += 1
            continue
        for k in range(count):
            parts = tokens[i + k * period : i + (k + 1) * period]
            found.append(_whole(parts, kinds))
        i += count * period
    return found


def _whole(parts: Sequence[Block], kinds: dict[tuple[str, ...], int]) -> Block:
    words = ("round", *(str(part.kind) for part in parts))
    kind = kinds.setdefault(words, len(kinds))
    inner = [part for part in parts if not part.is_single]
    return Block(parts[0].start, parts[-1].end, kind, inner)


def _best_round(
    tokens: Sequence[Block], names: list[int], start: int
) -> tuple[int, int]:
    """The period that covers most from here, and how often it comes."""
    best = (1, 1)
    for period in range(1, min(MAX_PERIOD, (len(names) - start) // 2) + 1):
        first = names[start : start + period]
        large = [t.kind for t in tokens[start : start + period] if not t.is_single]
        alike = len(set(large)) == 1
        if not large or period == 1 or (alike and len(large) > 1):
            continue  # blocks of one kind in a row are a stage
        count = 1
        while names[start + count * period : start + (count + 1) * period] == first:
            count += 1
        enough = count > (2 if alike else 1)
        if enough and count * period > best[0] * best[1]:
            best = (period, count)
    return best


def _pairs(tokens: Sequence[Block], kinds: dict[tuple[str, ...], int]) -> list[Block]:
    """Each block of one kind with the one in front of it, which is never without it."""
    blocks = [token for token in tokens if not token.is_single]
    for second in {block.kind: None for block in blocks}:
        ends = {block.start: block for block in blocks if block.kind == second}
        firsts = {block.kind for block in blocks if block.end in ends} - {second}
        before = [block for block in blocks if block.kind in firsts]
        if len(before) == len(ends) and all(block.end in ends for block in before):
            taken = {block.start for block in before}
            return [
                (
                    _whole((block, ends[block.end]), kinds)
                    if block.start in taken
                    else block
                )
                for block in blocks
                if block.kind != second
            ]
    return []
