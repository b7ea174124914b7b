"""Fusion and lanes as data: plan.json, `inspect --json`, and what report.json says."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...analysis.dataflow.dataflow import Dataflow
from ...analysis.fusion.dnnfusion import FusionPlan, dnnfusion
from ...analysis.schedule.lanes import LanePlan, batch_makespans
from ..ir.package_plan import PackagePlan
from .divide import Divided

BATCH = 2  # samples: the least for which it matters how they are put together


@dataclass(frozen=True)
class Plans:
    """What was asked for; None for what wasn't."""

    flow: Dataflow
    device: str
    fusion: FusionPlan | None
    lanes: LanePlan | None
    batch: dict[str, float]


def write_plan(folder: Path, plan: PackagePlan, divided: Divided) -> None:
    """The whole model's plans, and what of the lanes is in model.py."""
    costed = divided.costed
    flow, lanes = costed.flow, costed.plan
    batch = batch_makespans(flow.dag, lanes.lanes, costed.shared, BATCH)
    plans = Plans(flow, "cpu", dnnfusion(flow), lanes, batch)
    data = plan_data(plans) | {"emitted": _emitted(plan, divided)}
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    text = text.replace('],"', '],\n"').replace("},{", "},\n{")
    (folder / "plan.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def parts_report(
    divided: Divided | None, lanes: int | str | None, profile: bool, fusion: str | None
) -> dict[str, Any]:
    """What report.json says of lanes or of groups, if they were asked for."""
    found: dict[str, Any] = {} if fusion is None else {"fusion": fusion}
    if divided is not None:
        asked = {"asked": lanes, "profile": profile}
        found["lanes"] = asked | _predicted(divided)
    return found


def _predicted(divided: Divided) -> dict[str, Any]:
    costed, measured = divided.costed, divided.measured
    found: dict[str, Any] = {
        "count": divided.count,
        "threads_per_lane": costed.share,
        "predicted_seconds": divided.seconds,
        "predicted_seconds_without": divided.serial,
        "predicted_seconds_of_clusters": costed.plan.schedule.makespan,
        "reason": divided.reason,
    }
    if measured is not None:
        found["measured_seconds"] = measured.lanes
        found["measured_seconds_without"] = measured.alone
        found["engine_without"] = measured.engine
    return found


def _emitted(plan: PackagePlan, divided: Divided) -> dict[str, Any]:
    """Of each class that forks, which operators each lane runs in all instances."""
    forking = {cls.name: cls for cls in divided.forks}
    classes = {}
    for written in plan.classes:
        if written.name not in forking:
            continue
        cls = forking[written.name]
        forks = zip(
            written.forks, divided.forks[cls], divided.operators[cls], strict=True
        )
        classes[written.name] = [
            {
                "seconds": fork.seconds,
                "saved": fork.saved,
                "lanes": [
                    {"calls": call, "operators": list(operators)}
                    for call, operators in zip(calls, lanes, strict=True)
                ],
            }
            for calls, fork, lanes in forks
        ]
    return {**_predicted(divided), "classes": classes}


def plan_data(plans: Plans) -> dict[str, Any]:
    """The plans for other programs; operators by their position in the list."""
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
