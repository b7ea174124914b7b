"""Where the parts of blocks begin."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from .cycles import Block
from .single_entry_regions import Item


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
