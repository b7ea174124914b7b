"""What `fairhand inspect` says about fusion and lanes, as text and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from rich.console import Console

from ...analysis.cost.device import CPU, DEVICES, Profile
from ...analysis.dataflow.dataflow import Dataflow, dataflow
from ...analysis.errors import FairhandError
from ...analysis.fusion.dnnfusion import FusionPlan, dnnfusion, unfused
from ...analysis.fusion.tvm_baseline import tvm
from ...analysis.schedule.lanes import LanePlan, batch_makespans, costs_of, plan_lanes
from ...analysis.shapes.infer import ShapeFacts
from ..profile.op_timings import measured_profile, pair_timer
from ..request.choices import METHODS


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
        return self.fusion is not None or self.lanes is not None


@dataclass(frozen=True)
class Plans:
    """What was asked for; None for what wasn't."""

    flow: Dataflow
    device: str
    fusion: FusionPlan | None
    lanes: LanePlan | None
    batch: dict[str, float]


def make_plans(
    model: ir.Model,
    shapes: ShapeFacts,
    wanted: Wanted,
    progress: Callable[[str], None] = lambda text: None,
) -> Plans:
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
        profile = measured_profile(model, shapes, flow, progress=progress)
        timer = pair_timer(model, shapes, flow)
    fusion = lanes = None
    batch: dict[str, float] = {}
    if wanted.fusion == "dnnfusion":
        fusion = dnnfusion(flow, device, profile, timer=timer)
    elif wanted.fusion is not None:
        fusion = tvm(flow) if wanted.fusion == "tvm" else unfused(flow)
    if wanted.lanes is not None:
        costs = costs_of(flow, device, profile)
        lanes = plan_lanes(flow, costs, wanted.lanes)
        if wanted.batch > 1:
            batch = batch_makespans(flow.dag, lanes.lanes, costs, wanted.batch)
    return Plans(flow, wanted.device, fusion, lanes, batch)


def fusion_plan(model: ir.Model, shapes: ShapeFacts, method: str) -> FusionPlan:
    """The groups of a rewritten graph, by estimates for one core."""
    if method not in METHODS[1:]:
        raise FairhandError(
            f"fusion={method!r} is no way to group operators",
            hint=f"give {' or '.join(METHODS[1:])}",
        )
    flow = dataflow(model, shapes)
    return dnnfusion(flow) if method == "dnnfusion" else tvm(flow)


# ---- as text


def show_plans(plans: Plans, out: Console) -> None:
    """Tables and sums of the plans."""

    def say(text: str) -> None:
        out.print(text, soft_wrap=True)

    if plans.flow.assumed:
        sizes = (f"{name} = {n}" for name, n in sorted(plans.flow.assumed.items()))
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
    operators, groups = len(flow.operators), len(plan.groups)
    intensive = sum(group.intensive for group in plan.groups)
    rate = operators / groups if groups else 1.0
    return (
        f"fusion {plan.method}: {operators} operators in {groups} groups"
        f" ({rate:.2f} to 1, {intensive} of them intensive); intermediate values"
        f" {_amount(plan.bytes_before)} before, {_amount(plan.bytes_after)} after"
    )


def lanes_summary(plan: LanePlan) -> str:
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


# ---- as data


def plan_data(plans: Plans) -> dict[str, Any]:
    """Everything above for other programs; operators by their position in the list."""
    flow = plans.flow
    found: dict[str, Any] = {
        "device": plans.device,
        "assumed_sizes": dict(sorted(flow.assumed.items())),
        "operators": [
            {"name": op.name, "type": op.kind, "mapping": op.mapping.value}
            | {"flops": op.flops, "bytes": op.moved_bytes}
            for op in flow.operators
        ],
    }
    if plans.fusion is not None:
        found["fusion"] = _fusion_data(plans.fusion)
    if plans.lanes is not None:
        found["lanes"] = _lanes_data(plans.lanes) | {"batch_seconds": plans.batch}
    return found


def _fusion_data(plan: FusionPlan) -> dict[str, Any]:
    return {
        "method": plan.method,
        "groups": [
            {"operators": list(group.operators), "mapping": group.mapping.value}
            | {"intensive": group.intensive}
            for group in plan.groups
        ],
        "edges": [
            {
                "from": edge.first,
                "to": edge.second,
                "types": [t.value for t in edge.types],
                "cell": edge.cell.verdict.value,
                "fused": edge.fused,
                "reason": edge.reason,
            }
            for edge in plan.edges
        ],
        "intermediate_bytes": {"before": plan.bytes_before, "after": plan.bytes_after},
    }


def _lanes_data(plan: LanePlan) -> dict[str, Any]:
    return {
        "lanes": [list(lane) for lane in plan.lanes],
        "clusters": [list(cluster) for cluster in plan.clusters],
        "merged": [list(cluster) for cluster in plan.merged],
        "clones": list(plan.clones),
        "tasks": [[t.node, t.lane, t.start, t.end] for t in plan.schedule.tasks],
        "hand_offs": [[h.node, h.source, h.target] for h in plan.schedule.hand_offs],
        "serial_seconds": plan.serial,
        "seconds": plan.schedule.makespan,
        "gain": plan.gain,
        "parallelism": plan.parallelism,
        "peak_bytes": plan.schedule.peak_bytes,
        "moved_bytes": plan.schedule.moved_bytes,
        "reason": plan.reason,
    }
