"""Layers that share a matrix of the file: one parameter under several names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ...analysis.graph.parameters import has_name
from ..ir.identifiers import attribute
from ..ir.package_plan import (
    ClassPlan,
    Item,
    MemberPath,
    SourceNodes,
    Variable,
    WeightPlan,
    path_text,
)
from .stored_parameters import is_filled

MIN_ROUNDS = 3
VARIABLES = "ij"  # of loops in each other
# What layers of PyTorch count by themselves, though all may have seen the same so far.
BUFFERS = ("running_mean", "running_var")


@dataclass(frozen=True)
class Tied:
    """What is stored, and the keys that are one parameter, the stored one first.

    That is the first by the alphabet, as in what safetensors' save_model writes.
    """

    weights: list[WeightPlan]
    keys: tuple[list[str], ...]
    lines: tuple[str, ...]  # self.lm_head.weight = self.transformer.wte.weight
    spared: int  # elements that are not stored again
    two_names: bool  # whether some layers have

    def network(self, plan: ClassPlan) -> ClassPlan:
        """The network's class, whose last lines make layers share their weights."""
        init = plan.constructor
        sources = (*init.sources, *(SourceNodes() for _ in self.lines))
        body = (*init.body, *self.lines)
        return replace(plan, constructor=replace(init, body=body, sources=sources))


def tie(weights: Sequence[WeightPlan], faithful: bool = False) -> Tied:
    """Layers share weights that come of one initializer and are equal to the bit.

    Arrays of one number throughout don't: exporters give all norms one array of ones,
    and layers that are yet to be trained one of zeros.
    If `faithful`, one that the file has under another module's name is that one's too:
    a model's `shared` is its decoder's embed_tokens.
    """
    owners: dict[str, list[WeightPlan]] = {}
    modules: dict[str, list[WeightPlan]] = {}
    for weight in weights:
        modules.setdefault(_holder(weight), []).append(weight)
    keys: dict[str, list[str]] = {}
    lines: dict[tuple[MemberPath, MemberPath], None] = {}
    spared, two_names = 0, False
    for weight in weights:
        if not weight.origin:
            continue
        same = owners.setdefault(weight.origin, [])
        others = (w for w in same if _holder(w) != _holder(weight))  # not its own
        owner = next((w for w in others if _equal(w.array(), weight.array())), None)
        if owner is None:
            same.append(weight)
            continue
        vector = weight.array().ndim < 2
        if vector or not _made_alike(owner, weight):
            _note_read(owner, weight)
        if _is_one_number(weight.array()):
            _note_read(owner, weight)
            continue
        pairs, line = [(owner, weight)], (weight.path, owner.path)
        both = modules[_holder(owner)], modules[_holder(weight)]
        if _are_one(*both):  # a module that has two names
            pairs, line = [*zip(*both, strict=True)], (line[0][:-1], line[1][:-1])
            two_names = True
        if line in lines or (len(pairs) == 1 and weight.path[-1] in BUFFERS):
            continue
        lines[line] = None
        for first_named, again in pairs:
            keys.setdefault(first_named.key, [first_named.key]).append(again.key)
            spared += again.array().size
    for weight, again_at in _named_elsewhere(weights) if faithful else ():
        *holder, _ = weight.path
        other = weight.origin.rpartition(".")[0]
        if (line := (again_at, tuple(holder))) in lines:
            continue
        lines[line] = None
        for one in weights:  # the module has all its weights under either name
            if _holder(one) == _holder(weight):
                tied = (group for group in keys.values() if one.key in group)
                group = next(tied, None) or keys.setdefault(one.key, [one.key])
                group.append(f"{other}.{one.key.rpartition('.')[2]}")
    groups = tuple(sorted(group) for group in keys.values())
    first = {key: group[0] for group in groups for key in group}
    stored: dict[str, WeightPlan] = {}
    for weight in weights:  # a module's other name may come first, and no layer have it
        key = first.get(weight.key, weight.key)
        stored.setdefault(key, replace(weight, key=key))
    return Tied([*stored.values()], groups, tuple(tied_lines(lines)), spared, two_names)


def _is_one_number(array: np.ndarray) -> bool:
    flat = array.reshape(-1)
    return all((part == flat[:1]).all() for part in (flat[:64], flat))


def _holder(weight: WeightPlan) -> str:
    return weight.key.rpartition(".")[0]


def _are_one(a: Sequence[WeightPlan], b: Sequence[WeightPlan]) -> bool:
    """Whether two modules are the same layer with the same initializers."""
    return len(a) == len(b) and all(
        x.layer == y.layer
        and x.key.rpartition(".")[2] == y.key.rpartition(".")[2]
        and (_made_alike(x, y) if x.layer and x.origin else not x.path)
        for x, y in zip(a, b, strict=True)
    )


def _named_elsewhere(
    weights: Sequence[WeightPlan],
) -> Iterator[tuple[WeightPlan, MemberPath]]:
    """The first matrix of each initializer with the path of a module that there isn't,
    beside one that there is, and that path. (Exporters share vectors of numbers that
    are equal.)"""
    held = {"", *(path for w in weights for path in _prefixes(w.key))}
    seen = {weight.key for weight in weights}
    for weight in weights:
        stored, (holder, _, last) = weight.weight, weight.origin.rpartition(".")
        if stored is None or stored.how or not has_name(stored.value):
            continue
        if not weight.layer or stored.glance().ndim < 2:
            continue
        if weight.origin in seen or weight.key.rpartition(".")[2] != last:
            continue
        seen.add(weight.origin)
        path = _beside(holder.split("."), weights) if holder not in held else ()
        if path:
            yield weight, path


def _beside(words: Sequence[str], weights: Sequence[WeightPlan]) -> MemberPath:
    """Where a module of that name belongs, as what else is in the module around it: an
    attribute, or the entry of a dictionary. Else ()."""
    *around, last = words
    for weight in weights:
        at, key = len(around), weight.key.split(".")
        if key[:at] == around and len(weight.path) == len(key) > at + 1:
            beside, new = weight.path[at], list[str | Item]()
            if isinstance(beside, Item):
                new = [] if isinstance(beside.key, int) else [Item(last)]
            elif attribute(last) == last:
                new = [last]
            return (*weight.path[:at], *new) if new else ()
    return ()


def _prefixes(key: str) -> Iterator[str]:
    words = key.split(".")
    return (".".join(words[:n]) for n in range(1, len(words)))


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


class _Loop(NamedTuple):
    variable: str
    start: int
    stop: int

    def __str__(self) -> str:
        start = f"{self.start}, " if self.start else ""
        return f"for {self.variable} in range({start}{self.stop}):"


@dataclass(frozen=True)
class _Line:
    """`target = value` for all numbers of some loops, the outermost first."""

    target: MemberPath
    value: MemberPath
    loops: tuple[_Loop, ...] = ()

    def counted(self, variable: str) -> Iterator[tuple[int, _Line]]:
        """The line with a variable for a number on the left, or for one on either
        side, and that number."""
        for i, part in enumerate(self.target):
            if not isinstance(part, Item) or not isinstance(part.key, int):
                continue
            line = replace(self, target=_with(self.target, i, variable))
            yield part.key, line
            for j, other in enumerate(self.value):
                if other == part:
                    value = _with(self.value, j, variable)
                    yield part.key, replace(line, value=value)


def _with(path: MemberPath, i: int, variable: str) -> MemberPath:
    return (*path[:i], Item(Variable(variable)), *path[i + 1 :])


def tied_lines(pairs: Iterable[tuple[MemberPath, MemberPath]]) -> list[str]:
    """Assignments `target = value` that don't depend on each other's order, as source;
    those that differ in a number that counts up are a loop."""
    lines = [_Line(target, value) for target, value in pairs]
    for variable in VARIABLES:
        lines = _folded(lines, variable)
    ordered = sorted(lines, key=lambda line: line.loops)
    found: list[str] = []
    for loops, body in groupby(ordered, key=lambda line: line.loops):
        found += ["    " * depth + str(loop) for depth, loop in enumerate(loops)]
        indent = "    " * len(loops)
        found += [
            f"{indent}{path_text(line.target)} = {path_text(line.value)}"
            for line in body
        ]
    return found


def _folded(lines: list[_Line], variable: str) -> list[_Line]:
    """One line for those that differ in a number that counts up, the most first."""
    while True:
        groups: dict[_Line, dict[int, int]] = {}  # the line, and who has each number
        for at, line in enumerate(lines):
            if all(loop.variable != variable for loop in line.loops):
                for number, counted in line.counted(variable):
                    groups.setdefault(counted, {})[number] = at
        best = max(groups.items(), key=lambda entry: len(entry[1]), default=None)
        if best is None or len(best[1]) < MIN_ROUNDS:
            return lines
        whole, places = best
        first, last = min(places), max(places)
        if last - first >= len(places):
            return lines
        loops = (*whole.loops, _Loop(variable, first, last + 1))
        kept = [line for at, line in enumerate(lines) if at not in places.values()]
        lines = [*kept, replace(whole, loops=loops)]
