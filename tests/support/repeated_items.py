"""Items of computations that repeat, for the finders of blocks."""

from __future__ import annotations

from fairhand.analysis.repeats.find_blocks import Block
from fairhand.analysis.repeats.single_entry_regions import Item


def chain(words: str) -> list[Item]:
    """Each item reads what the one before made; capitals are layers."""
    return [
        Item(word, (i - 1,) if i else (), (i,), word.isupper())
        for i, word in enumerate(words)
    ]


def residuals(words: str) -> list[Item]:
    """As `chain`; "+" also reads what the last "+" or "p" made, or the first item."""
    items, skip = [], 0
    for i, word in enumerate(words):
        reads = (i - 1, skip) if word == "+" else (i - 1,)
        items.append(Item(word, reads if i else (), (i,), word.isupper()))
        skip = i if word in "+p" else skip
    return items


def spans(blocks: list[Block]) -> list[tuple[int, int]]:
    return [(block.start, block.end) for block in blocks]
