"""The page of `fairhand inspect --parallel --html`: what each device holds, and when
each stage computes."""

from __future__ import annotations

from html import escape
from pathlib import Path

from .plan import Plan

_WIDE, _ROW = 900.0, 24  # of the pictures
_COLOURS = "#66ccee", "#228833"
_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>{title}</title>
<h1>{title}</h1>
<pre>{story}</pre>
<h2>Weights of a device, of {memory:,.0f} MB</h2>
{held}
<h2>Time line of a call: {seconds:.3g} s</h2>
{line}
"""


def write_picture(
    path: Path, title: str, story: str, plan: Plan, memory: float
) -> None:
    """Write the page of a plan for devices of so many bytes."""
    most = max(memory, *plan.held)
    counts = [plan.degrees.dp * tp for tp in plan.degrees.tps]
    held = [
        (i, 0.0, size / most, f"stage {i}, {n} devices: {size / 1e6:,.2f} MB")
        for i, (size, n) in enumerate(zip(plan.held, counts, strict=True))
    ]
    line = time_line(plan)
    end = max(begin + plan.times[stage] for stage, _, begin in line)
    parts = [
        (stage, begin / end, plan.times[stage] / end, f"stage {stage}, part {part}")
        for stage, part, begin in line
    ]
    texts = {"title": escape(title), "story": escape(story)}
    drawn = {"held": _bars(held), "line": _bars(parts)}
    page = _PAGE.format(**texts, **drawn, memory=most / 1e6, seconds=end)
    path.write_text(page, encoding="utf-8", newline="\n")


def _bars(bars: list[tuple[int, float, float, str]]) -> str:
    """Row, begin and width as shares of the whole, and what each is."""
    lines = (
        f'<rect x="{_WIDE * left:.2f}" y="{_ROW * row}" width="{_WIDE * wide:.2f}"'
        f' height="{_ROW - 4}" fill="{_COLOURS[i % 2]}"><title>{said}</title></rect>'
        for i, (row, left, wide, said) in enumerate(bars)
    )
    height = _ROW * (1 + max(row for row, *_ in bars))
    head = f'<svg width="{_WIDE}" height="{height}" style="background: #ddd">'
    return "\n".join([head, *lines, "</svg>"])


def time_line(plan: Plan) -> list[tuple[int, int, float]]:
    """Stages, parts of a batch, and when they begin, in seconds: when the stage before
    has ended, and all parts before are done."""
    ends = [0.0] * plan.batches  # of the stage before
    line = []
    for stage, seconds in enumerate(plan.times):
        free = 0.0
        for part, ready in enumerate(ends):
            begin = max(free, ready)
            line.append((stage, part, begin))
            free = ends[part] = begin + seconds
    return line
