"""The picture of docs/performance.md, by matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cpu_page import lead

Row = dict[str, Any]
COLOURS = {
    "package": "#000",
    "eager": "#c33",
    "packed": "#a60",
    "onednn": "#693",
    "compile": "#36c",
    "aot": "#0aa",
    "onnx2torch": "#c6c",
    "openvino": "#e90",
}


def plot(threads: dict[str, dict[str, Row]], path: Path) -> None:
    """All ratios: a panel for each number of threads, a row for each model, in it a dot
    for each column and a bar over the quartiles of the package's."""
    from matplotlib.figure import Figure

    last = threads[max(threads, key=int)]
    models = [name for name, row in last.items() if "package" in row]
    models.sort(key=lambda name: last[name]["package"]["ratio"])
    figure = Figure(figsize=(4.5 * len(threads), 1 + 0.22 * len(models)))
    panels = figure.subplots(1, len(threads), sharey=True, squeeze=False)[0]
    for panel, each in zip(panels, sorted(threads, key=int), strict=True):
        rows = [(i, threads[each].get(name, {})) for i, name in enumerate(models)]
        good = [(i, row) for i, row in rows if "package" in row]
        for column, colour in reversed(COLOURS.items()):  # the package on top
            dots = [(place(row, column), i) for i, row in good if column in row]
            if dots:
                panel.plot(*zip(*dots, strict=True), "o", color=colour, label=column)
        spread = [(row["package"]["low"], row["package"]["high"]) for _, row in good]
        panel.hlines(
            [i for i, _ in good], *zip(*spread, strict=True), COLOURS["package"]
        )
        panel.axvline(1, color="#888")
        panel.set(
            title=f"{each} threads".replace("1 threads", "1 thread"), xlim=(0, None)
        )
        panel.set_yticks(range(len(models)), models)
    panels[0].legend(fontsize="small")
    figure.savefig(path, bbox_inches="tight")


def place(row: Row, column: str) -> float:
    """ONNX Runtime's time over a column's, by way of the package's."""
    return float(row["package"]["ratio"] / lead(row, column))
