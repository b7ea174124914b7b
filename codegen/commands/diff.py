"""`fairhand diff`: what tells two networks apart, for terminals, reviews, programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...analysis.literals import one_line
from ..compare.comparison import CHANGED, LAWS, SAME, WEIGHTS, Comparison, Place

MOST_NAMES = 4  # of nodes or weights that are listed


Mark = Callable[[str], str]


def _plain(name: str) -> str:
    return one_line(name, 60)


def code(name: str) -> str:
    """A name from a file, as Markdown shows it and doesn't read it."""
    return f"`{_plain(name).replace('`', '?')}`"


def headline(found: Comparison, mark: Mark = _plain) -> str:
    """What tells them apart, in a line, with names as `mark` shows them."""
    if found.verdict == SAME:
        return "the same"
    if found.verdict == WEIGHTS:
        return f"weights only: {_weights(found, mark)}"
    pairs = [*zip(*found.rows, strict=True)]
    lines = " : ".join(str(sum(p is not None for p in side)) for side in pairs)
    differ = f"{lines} lines differ" if lines else ""
    weights = _weights(found, mark)
    if found.verdict == LAWS:
        named = [f"{name} ({a} : {b})" for name, (a, b) in found.laws.items()]
        differ = f"the same up to {_some(named) or 'names and order'}" + (
            f", of one file; {differ}" if differ else ""
        )
    return differ + (f"; {weights}" if weights else "")


def _weights(found: Comparison, mark: Mark) -> str:
    counts = {"changed": f"of {found.shared} weights differ", "missing": "are gone"}
    counts["new"] = "are new"
    parts = [
        f"{len(found.weights[kind])} {text} ({_some(found.weights[kind], mark)})"
        for kind, text in counts.items()
        if found.weights[kind]
    ]
    return ", ".join(parts)


def _some(names: Sequence[str], mark: Mark = _plain) -> str:
    shown = ", ".join(map(mark, names[:MOST_NAMES]))
    return shown + (
        f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    )


def show(found: Comparison, out: Console) -> None:
    """Print a comparison, lines side by side."""
    out.print(headline(found), soft_wrap=True)
    if found.verdict != CHANGED:
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in found.sides:
        table.add_column(justify="right", style="dim")
        table.add_column(overflow="fold", ratio=1)
    for row in found.rows:
        table.add_row(*_cell(row[0], "red"), *_cell(row[1], "green"))
    out.print(table)
    for what, names in found.nodes.items():
        if names:
            out.print(Text(f"nodes {what}  {_some(names)}", "dim"), soft_wrap=True)


def _cell(place: Place | None, style: str) -> tuple[str, Text]:
    if place is None:
        return "", Text()
    return str(place.line), Text(place.text, style)


def markdown(found: Comparison) -> Iterator[str]:
    """The lines of a comment on a review."""
    yield f"**{headline(found, code)}**"
    if found.verdict != CHANGED:
        return
    yield from ("", "```diff")
    for a, b in found.rows:
        yield from (f"-{a.line:5} {a.text}" for _ in (1,) if a is not None)
        yield from (f"+{b.line:5} {b.text}" for _ in (1,) if b is not None)
    yield "```"
    for what, names in found.nodes.items():
        if names:
            yield f"ONNX nodes {what}: {_some(names, code)}"
