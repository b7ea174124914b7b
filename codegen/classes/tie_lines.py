"""The lines by which layers share weights: in a loop where they differ in a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

MIN_ROUNDS = 3
VARIABLES = "ij"  # of loops in each other

_INDEX = re.compile(r"(?<=\[)\d+(?=\])")


@dataclass(frozen=True)
class _Line:
    """`text` for all numbers of some loops, the outermost first."""

    text: str
    loops: tuple[str, ...] = ()


def tie_lines(texts: Sequence[str]) -> list[str]:
    """Assignments that don't depend on each other's order."""
    lines = [_Line(text) for text in texts]
    for variable in VARIABLES:
        lines = _folded(lines, variable)
    ordered = sorted(lines, key=lambda line: line.loops)
    found: list[str] = []
    for loops, body in groupby(ordered, key=lambda line: line.loops):
        found += ["    " * depth + loop for depth, loop in enumerate(loops)]
        found += ["    " * len(loops) + line.text for line in body]
    return found


def _folded(lines: list[_Line], variable: str) -> list[_Line]:
    """One line for those that differ in a number that counts up, the most first."""
    while True:
        groups: dict[_Line, dict[int, int]] = {}  # the line, and who has each number
        for at, line in enumerate(lines):
            known = any(loop.startswith(f"for {variable} ") for loop in line.loops)
            for number, text in () if known else _counted(line.text, variable):
                groups.setdefault(replace(line, text=text), {})[number] = at
        best = max(groups.items(), key=lambda entry: len(entry[1]), default=None)
        if best is None or len(best[1]) < MIN_ROUNDS:
            return lines
        whole, places = best
        first, last = min(places), max(places)
        if last - first >= len(places):
            return lines
        start = f"{first}, " if first else ""
        loop = f"for {variable} in range({start}{last + 1}):"
        kept = [line for at, line in enumerate(lines) if at not in places.values()]
        lines = [*kept, replace(whole, loops=(*whole.loops, loop))]


def _counted(text: str, variable: str) -> Iterator[tuple[int, str]]:
    """The text with a variable for a number on the left, or for one on either side."""
    places = list(_INDEX.finditer(text))
    middle = text.index(" = ")
    for left in places:
        if left.start() > middle:
            continue
        twins = [p for p in places if p.start() > middle and p[0] == left[0]]
        for chosen in ([left], *([left, twin] for twin in twins)):
            made = text
            for place in reversed(chosen):
                made = made[: place.start()] + variable + made[place.end() :]
            yield int(left[0]), made
