"""Pages of docs/ that people write, with tables that benchmarks put between marks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def table(rows: Iterable[Iterable[str]], left: Collection[int] = (0,)) -> str:
    """In Markdown, the head first; columns but those in `left` stand to the right."""
    head, *others = map(list, rows)
    rule = ["---" if i in left else "---:" for i in range(len(head))]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, rule, *others))


def write(page: Path, parts: Mapping[str, str]) -> None:
    """Put each text between `<!-- NAME -->` and `<!-- end of NAME -->` of a page.

    Raises ValueError where a page lacks a mark.
    """
    text = page.read_text("utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"{page} has no {begin} with {end} behind it")
        text = f"{before}{begin}\n\n{part.strip()}\n\n{end}{after}"
    page.write_text(text, "utf-8", newline="\n")
