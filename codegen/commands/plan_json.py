"""plan.json: how a model was divided, for people and programs that ask why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...analysis.fusion.dnnfusion import dnnfusion
from ...analysis.schedule.lanes import batch_makespans
from ..ir.package_plan import PackagePlan
from ..lanes.divide import Divided
from .inspect_plans import Plans, plan_data

BATCH = 2  # samples: the least for which it matters how they are put together


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
    kinds = {kind.name: kind for kind in divided.forks}
    classes = {}
    for written in plan.classes:
        if written.name not in kinds:
            continue
        kind = kinds[written.name]
        forks = zip(
            written.forks, divided.forks[kind], divided.operators[kind], strict=True
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
