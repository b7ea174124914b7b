"""What `fairhand inspect` says about fusion and lanes, as text and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir
from rich.console import Console

from ...analysis.cost.device import CPU, DEVICES, Profile
from ...analysis.dataflow.dataflow import Dataflow, dataflow
from ...analysis.errors import FairhandError
from ...analysis.fusion.dnnfusion import FusionPlan, dnnfusion
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.literals import printable, shown
from ...analysis.schedule.lanes import LanePlan, batch_makespans, costs_of, plan_lanes
from ..lanes.plan_json import Plans
from ..profile.op_timings import measured_profile, pair_timer


@dataclass(frozen=True)
class Wanted:
    """The options of the command: which plans, and for what."""

    fusion: str | None = None  # one of choices.METHODS
    lanes: int | None = None
    batch: int = 1
    device: str = "cpu"  # a key of DEVICES
    profile: bool = False

    @property
    def any(self) -> bool:
        """Whether some plan is wanted."""
        return self.fusion is not None or self.lanes is not None


def make_plans(model: ir.Model, shapes: ShapeFacts, wanted: Wanted) -> Plans:
    """Plans for a rewritten graph, whose shapes are known."""
    flow = dataflow(model, shapes)
    device = DEVICES[wanted.device]
    profile, timer = Profile(), None
    if wanted.profile and device is not CPU:
        raise FairhandError(
            f"--profile measures this machine's processor, not device {device.name}",
            hint="leave one of both out",
        )
    if wanted.profile:
        profile = measured_profile(model, shapes, flow)
        timer = pair_timer(model, shapes, flow)
    fusion = lanes = None
    batch: dict[str, float] = {}
    if wanted.fusion is not None:
        fusion = dnnfusion(flow, device, profile, timer=timer)
    if wanted.lanes is not None:
        costs = costs_of(flow, device, profile)
        lanes = plan_lanes(flow, costs, wanted.lanes)
        if wanted.batch > 1:
            batch = batch_makespans(flow.dag, lanes.lanes, costs, wanted.batch)
    return Plans(flow, wanted.device, fusion, lanes, batch)


# ---- as text


def show_plans(plans: Plans, out: Console) -> None:
    """Tables and sums of the plans."""

    def say(text: str) -> None:
        out.print(printable(text), soft_wrap=True)

    if plans.flow.assumed:
        sizes = (
            f"{shown(name)} = {n}" for name, n in sorted(plans.flow.assumed.items())
        )
        say(f"dynamic sizes are taken for {', '.join(sizes)}")
    if plans.fusion is not None:
        for line in _aligned(_edges(plans.flow, plans.fusion)):
            say(line)
        say(fusion_summary(plans.flow, plans.fusion))
    if plans.lanes is not None:
        for line in _aligned(_lanes(plans.flow, plans.lanes)):
            say(line)
        say(lanes_summary(plans.lanes))
        for name, seconds in plans.batch.items():
            say(f"  batch, {name}: {seconds * 1e3:.3f} ms")


def fusion_summary(flow: Dataflow, plan: FusionPlan) -> str:
    """One line: groups, and bytes between them before and after."""
    operators, groups = len(flow.operators), len(plan.groups)
    intensive = sum(group.intensive for group in plan.groups)
    rate = operators / groups if groups else 1.0
    return (
        f"fusion {plan.method}: {operators} operators in {groups} groups"
        f" ({rate:.2f} to 1, {intensive} of them intensive); intermediate values"
        f" {_amount(plan.bytes_before)} before, {_amount(plan.bytes_after)} after"
    )


def lanes_summary(plan: LanePlan) -> str:
    """One line: lanes, and their predicted times."""
    schedule = plan.schedule
    return (
        f"{len(plan.clusters)} linear clusters, {len(plan.merged)} after merging,"
        f" {len(plan.lanes)} lanes, {len(plan.clones)} nodes cloned;"
        f" work over critical path {plan.parallelism:.2f}\n"
        f"one lane {plan.serial * 1e3:.3f} ms, these {schedule.makespan * 1e3:.3f} ms:"
        f" {plan.reason}\n"
        f"{len(schedule.hand_offs)} hand-offs, {_amount(schedule.moved_bytes)};"
        f" at most {_amount(schedule.peak_bytes)} of results at a time"
    )


def _amount(number: int) -> str:
    return f"{number / 1e6:.2f} MB"


Rows = list[tuple[str, ...]]


def _aligned(rows: Rows) -> Iterator[str]:
    """One line per row, however wide: a table that folds can't be searched."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(n) for cell, n in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()


def _edges(flow: Dataflow, plan: FusionPlan) -> Rows:
    rows: Rows = [("from", "to", "types", "cell", "decision", "reason")]
    for edge in plan.edges:
        rows.append(
            (
                _named(flow, edge.first),
                _named(flow, edge.second),
                " -> ".join(t.value for t in edge.types),
                edge.cell.verdict.value,
                "fused" if edge.fused else "apart",
                edge.reason,
            )
        )
    return rows


def _lanes(flow: Dataflow, plan: LanePlan) -> Rows:
    rows: Rows = [("lane", "operators", "busy ms", "first", "last", "waits for")]
    for k, lane in enumerate(plan.lanes):
        busy = sum(t.end - t.start for t in plan.schedule.tasks if t.lane == k)
        sources = Counter(h.source for h in plan.schedule.hand_offs if h.target == k)
        waits = ", ".join(f"lane {i} ({n})" for i, n in sorted(sources.items()))
        first, last = _named(flow, lane[0]), _named(flow, lane[-1])
        rows.append((str(k), str(len(lane)), f"{busy * 1e3:.3f}", first, last, waits))
    return rows


def _named(flow: Dataflow, operator: int) -> str:
    found = flow.operators[operator]
    return f"{found.name} ({found.kind})"
