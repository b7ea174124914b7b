"""Inputs and outputs that come in numbered pairs: a decoder's past and present.

`past_k0, past_v0, past_k1, ...` become one argument, a tuple with a pair per layer; the
flat ONNX names stay Session's. Only names of letters, digits, dots and underscores
count, since they go into an f-string; a size may be named after its tensor.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import takewhile

import onnx_ir as ir

from ...analysis.graph.shape_facts import ShapeFacts
from .identifiers import unused, variable

_NUMBERED = re.compile(r"([A-Za-z_.]*?[A-Za-z_.])([0-9]{1,4})([A-Za-z_.]*)")
_CACHES = re.compile(r"past|present|cache|state|mems", re.IGNORECASE)


@dataclass(frozen=True)
class CacheArgument:
    """`name[i]` is a tuple of the values called `templates` with i for {i}.

    In ONNX these stand row by row, or `apart`: all keys before all values.
    """

    name: str
    templates: tuple[str, ...]
    rows: tuple[tuple[ir.Value, ...], ...]
    apart: bool = False

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
        """The templates as one, with {part} where they differ; "" if they don't fit."""
        if len(self.templates) == 1:
            return self.templates[0]
        first, part = self.templates[0], self.parts[0]
        for hit in re.finditer(re.escape(part), first) if part else ():
            made = f"{first[: hit.start()]}{{part}}{first[hit.end() :]}"
            texts = tuple(made.replace("{part}", p) for p in self.parts)
            if texts == self.templates:
                return made
        return ""


def _common(words: list[list[str]]) -> int:
    """How many words all lists begin with."""
    alike = (len(set(column)) == 1 for column in zip(*words, strict=False))
    return len(list(takewhile(bool, alike)))


def find_families(
    values: list[ir.Value], shapes: ShapeFacts, others: Collection[CacheArgument] = ()
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
        family = _family(name, members, values)
        if family is not None and _alike(family, shapes):
            families.append(family)
    return families


def _family(
    name: str, members: dict[str, dict[int, ir.Value]], values: list[ir.Value]
) -> CacheArgument | None:
    """None where they don't stand together in one of both orders."""
    counts = {tuple(sorted(numbered)) for numbered in members.values()}
    if len(counts) != 1 or len(members) > 4:
        return None
    (places,) = counts
    if len(places) < 2 or places != tuple(range(len(places))):
        return None
    rows = tuple(tuple(m[i] for m in members.values()) for i in places)
    for apart, order in ((False, rows), (True, zip(*rows, strict=True))):
        flat = [value for part in order for value in part]
        at = values.index(flat[0])
        family = CacheArgument(name, tuple(members), rows, apart)
        if values[at : at + len(flat)] == flat and family.pattern:
            return family
    return None


def _alike(family: CacheArgument, shapes: ShapeFacts) -> bool:
    """Whether the members are alike."""
    flat = [value for row in family.rows for value in row]
    if len({v.producer() is None for v in flat}) > 1:
        return False
    told = {(v.dtype, _sizes(v, shapes.dims(v)), _sizes(v, v.shape)) for v in flat}
    return len(told) == 1


def _sizes(value: ir.Value, dims: Iterable[object] | None) -> str:
    """Sizes that are inferred or declared, but for the tensor's name in their names."""
    return str([in_its_words(str(d), value.name or "", "") for d in dims or ()])


def in_its_words(size: str, name: str, word: str) -> str:
    """`size` with `word` for the name of its tensor, if an f-string can hold the rest.

    Exporters call the unknown size of an output Concatpresent_k0_dim_2.
    """
    plain = name and re.fullmatch(r"[\w.]+", size)
    return size.replace(name, word) if plain else size
