"""Layers that share a matrix of the file: one parameter under several names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from ..ir.package_plan import ClassPlan, SourceNodes, WeightPlan
from .stored_parameters import is_filled

MIN_ROUNDS = 3
VARIABLES = "ij"  # of loops in each other

_INDEX = re.compile(r"(?<=\[)\d+(?=\])")


@dataclass(frozen=True)
class Tied:
    """What is stored, and the keys that are one parameter, the stored one first.

    That is the first by the alphabet, as in what safetensors' save_model writes.
    """

    weights: list[WeightPlan]
    keys: tuple[list[str], ...]
    lines: tuple[str, ...]  # self.lm_head.weight = self.transformer.wte.weight
    spared: int  # elements that are not stored again

    def network(self, plan: ClassPlan) -> ClassPlan:
        """The network's class, whose last lines make layers share their weights."""
        sources = (*plan.member_sources, *(SourceNodes() for _ in self.lines))
        members = (*plan.members, *self.lines)
        return replace(plan, members=members, member_sources=sources)


def tie(weights: Sequence[WeightPlan]) -> Tied:
    """Layers share weights that come of one initializer and are equal to the bit."""
    owners: dict[str, list[WeightPlan]] = {}
    keys: dict[str, list[str]] = {}
    lines: list[str] = []
    spared = 0
    for weight in weights:
        if not weight.origin:
            continue
        same = owners.setdefault(weight.origin, [])
        owner = next((w for w in same if _equal(w.array(), weight.array())), None)
        if owner is None:
            same.append(weight)
            continue
        if not _made_alike(owner, weight):
            _note_read(owner, weight)
        keys.setdefault(owner.key, [owner.key]).append(weight.key)
        lines.append(f"{weight.path} = {owner.path}")
        spared += weight.array().size
    groups = tuple(sorted(group) for group in keys.values())
    copies = {key for group in groups for key in group[1:]}
    stored = [weight for weight in weights if weight.key not in copies]
    return Tied(stored, groups, tuple(tied_lines(lines)), spared)


def _made_alike(a: WeightPlan, b: WeightPlan) -> bool:
    """Whether two tensors are equal whatever the initializer holds."""
    if a.weight is None or b.weight is None:
        return False
    same = a.weight.value is b.weight.value
    how = a.weight.convert is b.weight.convert or len(a.weight.how) > 0
    return same and how and a.weight.how == b.weight.how


def _note_read(*weights: WeightPlan) -> None:
    for weight in weights:
        if weight.weight is not None:
            weight.weight.array()


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and not is_filled(a)
        and (a is b or bool(np.array_equal(a, b)))
    )


# ---- the lines: in a loop where they differ in a number


@dataclass(frozen=True)
class _Line:
    """`text` for all numbers of some loops, the outermost first."""

    text: str
    loops: tuple[str, ...] = ()


def tied_lines(texts: Sequence[str]) -> list[str]:
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
