"""Repeated runs in a sequence, so that a picture can show one for all."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

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
