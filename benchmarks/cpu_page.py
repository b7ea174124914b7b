"""The page docs/performance.md, from what benchmarks/cpu.py kept."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pages

Row = dict[str, Any]

NEAR = 0.97  # a lead over this is ahead, or as good as


def parts(
    results: dict[str, Any], columns: Iterable[str], picture: str
) -> dict[str, str]:
    """Of all that was measured; `picture` is a file beside the page."""
    tables = "".join(
        f"\n## {threads} thread{'s' if int(threads) > 1 else ''}\n\n"
        + table(results["threads"][threads], columns)
        for threads in sorted(results["threads"], key=int)
    )
    shown = f"![The ratios as a picture]({picture})\n"
    return {"machine": results["machine"], "tables": shown + tables}


def table(rows: dict[str, Row], columns: Iterable[str]) -> str:
    """Of one number of threads; what isn't there is a dash, and why stands below."""
    good = {name: row for name, row in sorted(rows.items()) if "package" in row}
    tried = {c for row in good.values() for c in (*row, *row["failed"])}
    others = [c for c in columns if c in tried]
    head = ["model", "ONNX Runtime, ms", "engine", "package", "cpu", "error"]
    lines = [head]
    for name, row in good.items():
        ours = row["package"]
        spread = f"{ours['ratio']:.2f} ({ours['low']:.2f}-{ours['high']:.2f})"
        measured = (f"{row['cpu']:.2f}", f"{ours['error']:.0e}")
        theirs = f"{row['onnxruntime']['ms']:.2f}"
        lines.append([name, theirs, row["engine"], spread, *measured])
    text = pages.table(lines, (0, 2))
    if good:
        mean = geometric(row["package"]["ratio"] for row in good.values())
        text += f"\nGeometric mean: {mean:.2f} over {len(good)} models.\n"
    if others:
        leads = [["model", *others]]
        for name, row in good.items():
            cells = (f"{lead(row, c):.2f}" if c in row else "-" for c in others)
            leads.append([name, *cells])
        text += "\n" + pages.table(leads)
        text += "".join(f"\n{summary(column, good)}\n" for column in others)
    for name, row in sorted(rows.items()):
        if "broken" in row:
            text += f"\n{name}: {row['broken']}\n"
    return text


def geometric(numbers: Iterable[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, numbers)))


def lead(row: Row, column: str) -> float:
    """A column's time over the package's in the same rounds."""
    measured: float = row[column].get(
        "lead", row["package"]["ratio"] / row[column]["ratio"]
    )
    return measured


def summary(column: str, rows: dict[str, Row]) -> str:
    """What a column comes to, where the package leads it, and what it lacks."""
    leads = {name: lead(row, column) for name, row in rows.items() if column in row}
    parts = []
    if leads:
        behind = [f"{name} {x:.2f}" for name, x in leads.items() if x < NEAR]
        parts.append(
            f"{column} takes {geometric(leads.values()):.2f} of the package's time in"
            f" the geometric mean. The package is ahead of it, or less than 3 % behind,"
            f" on {len(leads) - len(behind)} of {len(leads)}"
            + (f"; not on {', '.join(behind)}." if behind else ".")
        )
        firsts = [rows[name][column]["first_s"] for name in leads]
        if max(firsts) > 5:
            parts.append(f"First calls: {min(firsts):.0f} to {max(firsts):.0f} s.")
    failed = defaultdict(list)
    for name, row in rows.items():
        if column in row["failed"]:
            failed[row["failed"][column]].append(name)
    for reason, names in failed.items():
        parts.append(f"No {column} of {', '.join(names)}: {reason.rstrip('.')}.")
    return " ".join(parts)
