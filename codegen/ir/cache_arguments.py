"""Inputs and outputs that come in numbered pairs: a decoder's past and present.

`past_k0, past_v0, past_k1, ...` become one argument, a tuple with a pair per layer, and
so do all keys before all values; the flat ONNX names stay Session's. Only names of
letters, digits, dots and underscores count, since they go into an f-string; a size may
be named after its tensor.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile

import onnx_ir as ir

from .identifiers import unused, variable

_NUMBERED = re.compile(r"([A-Za-z_.]*?[A-Za-z_.])([0-9]{1,4})([A-Za-z_.]*)")
_CACHES = re.compile(r"past|present|cache|state|mems", re.IGNORECASE)


@dataclass(frozen=True)
class CacheArgument:
    """`name[i]` is a tuple of the values called `templates` with i for {i}."""

    name: str
    templates: tuple[str, ...]
    rows: tuple[tuple[ir.Value, ...], ...]

    @property
    def columns(self) -> tuple[tuple[ir.Value, ...], ...]:
        """For each template the values of all rows."""
        return tuple(zip(*self.rows, strict=True))

    @property
    def parts(self) -> tuple[str, ...]:
        """What tells the templates apart: k and v; one empty word if there is one."""
        words = [re.findall(r"[A-Za-z]+|\{i\}", t) for t in self.templates]
        start = _common(words)
        rest = [mine[start:] for mine in words]
        end = _common([mine[::-1] for mine in rest])
        return tuple("_".join(mine[: len(mine) - end]) for mine in rest)

    def labels(self) -> tuple[str, ...]:
        """Names for the members of one row: past_k, past_v."""
        taken: list[str] = []
        for part in self.parts:
            label = f"{self.name}_{part}" if part else self.name
            taken.append(unused(variable(label), taken))
        return tuple(taken)

    @property
    def annotation(self) -> str:
        """The type of the argument: list[Tensor], or a list of tuples."""
        width = len(self.templates)
        item = f"tuple[{', '.join(['Tensor'] * width)}]" if width > 1 else "Tensor"
        return f"list[{item}]"

    @property
    def pattern(self) -> str:
        """The templates as one, with {part} where they differ."""
        words, start, end = self._cut()
        first = words[0]
        return "".join([*first[:start], "{part}", *first[len(first) - end :]])

    @property
    def fillings(self) -> tuple[str, ...]:
        """What stands for {part} in each of the templates."""
        words, start, end = self._cut()
        return tuple("".join(mine[start : len(mine) - end]) for mine in words)

    def _cut(self) -> tuple[list[list[str]], int, int]:
        """The templates' words, and how many of them all begin and end with."""
        words = [re.findall(r"[A-Za-z]+|\{i\}|.", t) for t in self.templates]
        start = _common(words)
        return words, start, _common([mine[start:][::-1] for mine in words])


def _common(words: list[list[str]]) -> int:
    """How many words all lists begin with."""
    alike = (len(set(column)) == 1 for column in zip(*words, strict=False))
    return len(list(takewhile(bool, alike)))


def find_families(
    values: list[ir.Value], others: Collection[CacheArgument] = ()
) -> list[CacheArgument]:
    """The families among inputs or outputs, whose order they keep.

    None is called as one of the `others` is.
    """
    groups: dict[str, dict[str, dict[int, ir.Value]]] = {}
    for value in values:
        found = _NUMBERED.fullmatch(value.name or "")
        if (
            found is None
            or not _CACHES.search(found[1] + found[3])
            or found[2] != str(int(found[2]))
        ):
            continue
        stem = re.split(r"[^A-Za-z]", found[1].strip("_."))[0]
        template = f"{found[1]}{{i}}{found[3]}"
        groups.setdefault(stem, {}).setdefault(template, {})[int(found[2])] = value
    families = []
    for stem, members in groups.items():
        called = {family.name for family in others}
        name = variable(stem)
        name = f"new_{name}" if name in called else name
        family = _family(name, members)
        if family is not None and _stands(family, values):
            families.append(family)
    return families


def _family(name: str, members: dict[str, dict[int, ir.Value]]) -> CacheArgument | None:
    """Those that are counted from 0 without a gap, as far as most of them are."""
    count = max(map(len, members.values()))
    whole = {t: m for t, m in members.items() if sorted(m) == list(range(count))}
    if count < 2 or not whole or len(whole) > 4:
        return None
    rows = tuple(tuple(m[i] for m in whole.values()) for i in range(count))
    return CacheArgument(name, tuple(whole), rows)


def _stands(family: CacheArgument, values: list[ir.Value]) -> bool:
    """Whether the first of the first row comes first, and all are computed or none."""
    flat = [value for row in family.rows for value in row]
    computed = {v.producer() is not None for v in flat}
    return min(flat, key=values.index) is flat[0] and len(computed) == 1


def in_its_words(size: str, name: str, word: str) -> str:
    """`size` with `word` for the name of its tensor, if an f-string can hold the rest.

    Exporters call the unknown size of an output Concatpresent_k0_dim_2.
    """
    plain = name and re.fullmatch(r"[\w.]+", size)
    return size.replace(name, word) if plain else size
