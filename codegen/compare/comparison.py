"""What tells two networks apart: nothing, weights, laws, or these lines and nodes."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..emit.source_map import same_lines
from .sides import Side, two_sides

SAME, WEIGHTS, LAWS, CHANGED = "same", "weights", "laws", "changed"


@dataclass(frozen=True)
class Place:
    """A line of a model.py, and the nodes of the ONNX file behind it."""

    line: int
    text: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """`verdict` is "same", "weights" (nothing but their values), "laws" (another graph
    that the rewrites named by `laws` bring to the same network) or "changed".

    `rows` are lines that differ, side by side; `weights` counts how many there are on
    both sides, and names those that are other, missing or new. `laws` has the rewrites
    that were applied more often on one side: how often on each. `nodes` are those
    behind the rows: "before" and "after" that the other side has none for that do the
    same, or all "behind" them where a text was edited, and which these are isn't known.
    """

    sides: tuple[Path, Path]
    verdict: str
    rows: Sequence[tuple[Place | None, Place | None]]
    weights: Mapping[str, Sequence[str]]
    shared: int
    laws: Mapping[str, tuple[int, int]]
    nodes: Mapping[str, Sequence[str]]

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it: docs/schemas/diff.json."""
        return {
            "sides": [str(path) for path in self.sides],
            "verdict": self.verdict,
            "lines": [
                [
                    None if p is None else {**vars(p), "nodes": list(p.nodes)}
                    for p in row
                ]
                for row in self.rows
            ],
            "weights": {"shared": self.shared, **self.weights},
            "laws": {name: list(counts) for name, counts in self.laws.items()},
        }


def compare(one: Path, other: Path) -> Comparison:
    """Compare packages or ONNX files. Raises FairhandError for what is neither."""
    a, b = two_sides(one, other)
    rows = list(_rows(a, b))
    common = [key for key in a.weights if key in b.weights]
    weights = {
        "changed": [key for key in common if a.weights[key] != b.weights[key]],
        "missing": [key for key in a.weights if key not in b.weights],
        "new": [key for key in b.weights if key not in a.weights],
    }
    counts = {
        name: (a.laws.get(name, 0), b.laws.get(name, 0))
        for name in {**a.laws, **b.laws}
    }
    laws = {name: pair for name, pair in counts.items() if pair[0] != pair[1]}
    written = bool(a.origin) and a.origin == b.origin
    if rows and not written:
        verdict = CHANGED
    elif any(weights.values()) and not written:
        verdict = WEIGHTS
    elif rows or laws or (a.is_model and b.is_model and a.hash != b.hash):
        verdict = LAWS
    else:
        verdict = SAME
    nodes = _apart(a, b, rows)
    return Comparison((one, other), verdict, rows, weights, len(common), laws, nodes)


def _apart(
    a: Side, b: Side, rows: Sequence[tuple[Place | None, Place | None]]
) -> dict[str, Sequence[str]]:
    names: list[list[str]] = [
        list(dict.fromkeys(n for place in column if place for n in place.nodes))
        for column in zip(*rows, strict=True)
    ] or [[], []]
    if a.text != a.emitted or b.text != b.emitted:
        return {"behind": list(dict.fromkeys(names[0] + names[1]))}
    one, other = (
        [side.kinds.get(name, (name, "")) for name in column]
        for side, column in zip((a, b), names, strict=True)
    )
    matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
    for block in matcher.get_matching_blocks()[::-1]:
        del names[0][block.a : block.a + block.size]
        del names[1][block.b : block.b + block.size]
    return {"before": names[0], "after": names[1]}


def _rows(a: Side, b: Side) -> Iterator[tuple[Place | None, Place | None]]:
    """Lines that differ, in pairs as long as both sides have some; blank ones aside."""
    numbers = [*a.lines], [*b.lines]
    behind = nodes_behind(a), nodes_behind(b)
    texts = [*a.lines.values()], [*b.lines.values()]
    matcher = difflib.SequenceMatcher(None, *texts, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            continue
        left, right = (
            [
                Place(n, side.lines[n].strip(), tuple(nodes.get(n, ())))
                for n in part
                if side.lines[n].strip()
            ]
            for side, nodes, part in zip(
                (a, b), behind, (numbers[0][i:j], numbers[1][k:m]), strict=True
            )
        )
        for row in range(max(len(left), len(right))):
            yield (
                left[row] if row < len(left) else None,
                right[row] if row < len(right) else None,
            )


def nodes_behind(side: Side) -> dict[int, dict[str, None]]:
    """Names of nodes by lines; of an edited text, by those that it left alone."""
    moved = same_lines(side.emitted, side.text)
    found: dict[int, dict[str, None]] = {}
    for span, groups in side.nodes.items():
        first, _, last = span.partition("-")
        for line in range(int(first), int(last or first) + 1):
            names = dict.fromkeys(n for group in groups.values() for n in group)
            found.setdefault(moved.get(line, 0), {}).update(names)
    return found
