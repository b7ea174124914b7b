"""The picture of docs/performance.md, from what benchmarks/cpu.py kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any
from xml.sax.saxutils import escape

from cpu_page import lead

Row = dict[str, Any]

NAMES, WIDTH, LINE, TOP = 130, 330, 18, 64  # of the names, a panel, a row and the head
COLOURS = {
    "package": "#000",
    "eager": "#c33",
    "packed": "#a60",
    "onednn": "#693",
    "compile": "#36c",
    "aoti": "#0aa",
    "onnx2torch": "#c6c",
    "openvino": "#e90",
}


def plot(threads: dict[str, dict[str, Row]]) -> str:
    """All ratios: a panel for each number of threads, a row for each model."""
    panels = sorted(threads, key=int)
    last = threads[panels[-1]]
    models = sorted(
        (name for name, row in last.items() if "package" in row),
        key=lambda name: -last[name]["package"]["ratio"],
    )
    good = [r for rows in threads.values() for r in rows.values() if "package" in r]
    columns = [column for column in COLOURS if any(column in row for row in good)]
    places = (place(row, c) for row in good for c in columns if c in row)
    most = max(places, default=1) + 0.05
    wide, high = NAMES + WIDTH * len(panels) + 20, TOP + LINE * len(models) + 20
    names = (
        f'<text x="{NAMES - 10}" y="{TOP + LINE * i + 4}" text-anchor="end">'
        f"{escape(name)}</text>"
        for i, name in enumerate(models)
    )
    bodies = (
        f'<g transform="translate({NAMES + WIDTH * i} {TOP})">\n'
        + "\n".join(panel(each, threads[each], models, columns, most))
        + "\n</g>"
        for i, each in enumerate(panels)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}"'
        ' font-family="sans-serif" font-size="11">\n'
        f'<rect width="{wide}" height="{high}" fill="white"/>\n'
        + "\n".join([*legend(columns), *names, *bodies])
        + "\n</svg>\n"
    )


def place(row: Row, column: str) -> float:
    """ONNX Runtime's time over a column's, by way of the package's."""
    return float(row["package"]["ratio"] / lead(row, column))


def legend(columns: Iterable[str]) -> Iterator[str]:
    for i, column in enumerate(columns):
        x = NAMES + 90 * i
        yield f'<circle cx="{x}" cy="18" r="4" fill="{COLOURS[column]}"/>'
        yield f'<text x="{x + 8}" y="22">{column}</text>'


def panel(
    threads: str,
    rows: dict[str, Row],
    models: list[str],
    columns: list[str],
    most: float,
) -> Iterator[str]:
    """A dot for each column, a bar over the quartiles of the package's; 1 is a line."""
    scale = (WIDTH - 30) / most
    bottom = LINE * len(models) - LINE // 2
    some = "thread" if threads == "1" else "threads"
    yield f'<text x="0" y="-22" font-weight="bold">{threads} {some}</text>'
    for tick in (0, 0.25, 0.5, 0.75, 1, 1.25):
        if tick > most:
            break
        colour = "#888" if tick == 1 else "#ddd"
        x = f"{tick * scale:.1f}"
        yield f'<path d="M{x} -10V{bottom}" stroke="{colour}"/>'
        yield f'<text x="{x}" y="{bottom + 14}" fill="#666">{tick}</text>'
    for i, name in enumerate(models):
        row, y = rows.get(name, {}), LINE * i
        for column in reversed(columns):  # the package on top
            if column not in row:
                continue
            found, colour = row[column], COLOURS[column]
            if column == "package":
                low, high = scale * found["low"], scale * found["high"]
                yield f'<path d="M{low:.1f} {y}H{high:.1f}" stroke="{colour}"/>'
            x = scale * place(row, column)
            yield f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}"/>'
