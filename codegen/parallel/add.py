"""parallel.py is added to a package that is written, and tried."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...analysis.partition.machine import Machine, read_machine
from ...analysis.partition.request import Degrees, read_degrees, reduced
from ..emit.runtime_files import copied_whole
from ..load.placement import Placed
from ..plan.make_plan import CompiledModel
from .annotate import ANNOTATED, annotate, read_given
from .certificate import certificate
from .network import Network, read_network
from .plan import Given, Plan, held_by_stage, plans
from .rehearse import rehearse
from .write import exchanges, page_text, story

REHEARSED = 8  # devices at most; of more, a smaller mesh of the same plan is tried


def add_parallel(
    folder: Path,
    compiled: CompiledModel,
    wanted: str,
    machine: str = "cpu",
    memory: float | None = None,
    verify: bool = True,
    placed: Mapping[str, Placed] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write parallel.py, after its plan ran; returns what report.json has of it.

    `wanted` and `machine` are as `--parallel` and `--devices` give them, `memory` the
    bytes of a device. Raises FairhandError where there is no such plan, and
    VerificationError where it doesn't run as it says.
    """
    devices: Machine = read_machine(machine, memory)
    network = read_network(compiled)
    found = plans(network, _wanted(network, wanted, placed), devices)
    best, others = found[0], found[1:4]
    path = folder / "parallel.py"
    for name in ("devices.py", "slices.py"):
        runtime = copied_whole(name)
        (folder / name).write_text(runtime, encoding="utf-8", newline="\n")
    said = ""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    tries = report["sizes"]  # where something is cached, if there is such a one
    network.tried = next((x for x in tries if all(x.values())), tries[0])
    if verify:
        smaller = _smaller(network, best)
        path.write_text(page_text(network, smaller), encoding="utf-8", newline="\n")
        said = rehearse(folder, smaller.degrees.world)
    text = page_text(network, best, others)
    path.write_text(text, encoding="utf-8", newline="\n")
    claims = {"certificate": certificate(network, best)}
    return {"parallel": _report(network, best, others, said) | claims}


def described(
    compiled: CompiledModel,
    wanted: str,
    machine: str,
    memory: float | None,
    placed: Mapping[str, Placed],
    annotated: tuple[Path, Path] | None = None,
    page: Path | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """The best plan as text, with its price and the runners-up; and all as data.

    Raises FairhandError as `add_parallel` does; nothing is run. Where
    `annotated` is the file and another, the plan is written into that as ONNX has it;
    `page` is one to look at.
    """
    network, devices = read_network(compiled), read_machine(machine, memory)
    found = plans(network, _wanted(network, wanted, placed), devices)[:4]
    if annotated is not None:
        annotate(*annotated, network, found[0])
    lines = story(network, found[0], found[1:])
    at_once = found[0].degrees.dp * found[0].batches
    each = f"each of {at_once} calls at once" if at_once > 1 else "a call"
    price = f"Price    {found[0].seconds:.3g} s for {each} predicted, on {devices.name}"
    text = "\n".join([*lines, price])
    if page is not None:
        write_picture(page, compiled.plan.title, text, found[0], devices.memory)
    data = [_report(network, plan, [], "") for plan in found]
    data[0]["certificate"] = certificate(network, found[0])
    return text, data


def _wanted(
    network: Network, text: str, placed: Mapping[str, Placed]
) -> Degrees | int | Given:
    if text == ANNOTATED:
        return read_given(network, placed)
    return read_degrees(text)


def _smaller(network: Network, plan: Plan) -> Plan:
    """The same ways on as few devices as show them, where there are too many to try."""
    if plan.degrees.world <= REHEARSED:
        return plan
    degrees = reduced(plan.degrees)
    sharing = replace(plan.sharing, degree=degrees.tp)
    step = len(plan.starts) // max(degrees.pp - 1, 1)
    starts = plan.starts[:: max(step, 1)][: degrees.pp - 1]
    held = held_by_stage(network, sharing, degrees, starts)
    return replace(plan, degrees=degrees, sharing=sharing, starts=starts, held=held)


def _report(
    network: Network, plan: Plan, others: list[Plan], said: str
) -> dict[str, Any]:
    return {
        "degrees": plan.degrees.mesh,
        "bytes": list(plan.held),
        "exchanges": exchanges(network, plan),
        "seconds": float(f"{plan.seconds:.3g}"),
        "stages": [network.units[i].path for i in plan.starts],
        "layers": {x.path: way.value for x, way in plan.sharing.ways.items()},
        "others": {str(p.degrees): float(f"{p.seconds:.3g}") for p in others},
        "check": said,
    }


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
