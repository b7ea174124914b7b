"""The tables of docs/performance.md, from what benchmarks/cpu.py kept."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]

NEAR = 0.97  # a lead over this is ahead, or as good as


def table(rows: dict[str, Row], columns: Iterable[str]) -> str:
    """Of one number of threads; what isn't there is a dash, and why stands below."""
    good = {name: row for name, row in sorted(rows.items()) if "package" in row}
    tried = {c for row in good.values() for c in (*row, *row["failed"])}
    extra = [c for c in columns if c in tried]
    head = ["model", "ONNX Runtime, ms", "engine", "package", *extra, "cpu", "error"]
    lines = [head, ["---", "---:", "---", *["---:"] * (len(head) - 3)]]
    for name, row in good.items():
        ours = row["package"]
        spread = f"{ours['ratio']:.2f} ({ours['low']:.2f}-{ours['high']:.2f})"
        others = [f"{row[c]['ratio']:.2f}" if c in row else "-" for c in extra]
        measured = (f"{row['cpu']:.2f}", f"{ours['error']:.0e}")
        theirs = f"{row['onnxruntime']['ms']:.2f}"
        lines.append([name, theirs, row["engine"], spread, *others, *measured])
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
    for column in ("package", *extra):
        text += f"\n{summary(column, good)}\n"
    for name, row in sorted(rows.items()):
        if "broken" in row:
            text += f"\n{name}: {row['broken']}\n"
    return text


def summary(column: str, rows: dict[str, Row]) -> str:
    """What a column comes to, where the package leads it, and what it lacks."""
    found = {name: row[column] for name, row in rows.items() if column in row}
    parts = []
    if found:
        ratios = [each["ratio"] for each in found.values()]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        parts.append(
            f"Geometric mean of {column}: {mean:.2f} over {len(found)} models."
        )
    leads = {name: each["lead"] for name, each in found.items() if "lead" in each}
    if leads and column != "package":
        behind = [f"{name} {x:.2f}" for name, x in leads.items() if x < NEAR]
        parts.append(
            f"The package is ahead of it, or less than 3 % behind, on"
            f" {len(leads) - len(behind)} of {len(leads)}"
            + (f"; not on {', '.join(behind)}." if behind else ".")
        )
        firsts = [each["first_s"] for each in found.values()]
        if max(firsts) > 5:
            parts.append(f"First calls: {min(firsts):.0f} to {max(firsts):.0f} s.")
    failed = defaultdict(list)
    for name, row in rows.items():
        if column in row["failed"]:
            failed[row["failed"][column]].append(name)
    for reason, names in failed.items():
        parts.append(f"No {column} of {', '.join(names)}: {reason.rstrip('.')}.")
    return " ".join(parts)
