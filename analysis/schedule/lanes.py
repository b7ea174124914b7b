"""Lanes for a graph: linear clusters on a number of workers, if that is worth it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..cost.device import CPU, Device, Profile
from ..dataflow.dag import Dag
from ..dataflow.dataflow import Dataflow
from .linear_clustering import (
    Costs,
    Lanes,
    batch_costs,
    bind,
    clone,
    copies,
    distance_to_end,
    fold,
    hyperclusters,
    in_order,
    linear_clusters,
    merge_clusters,
    whole_samples,
)
from .simulate import Schedule, simulate

HAND_OFF = ("hand-off to a thread that sleeps",)  # stands for an operator
WORTH = 1.05  # less gain than this is not worth the reading


@dataclass(frozen=True)
class LanePlan:
    """What is run where, and what that is predicted to take.

    `clusters` are the linear ones and `merged` those after merging; `clones` are the
    nodes that more than one lane computes. Without enough gain `lanes` is a single one.
    """

    lanes: Lanes
    clusters: Lanes
    merged: Lanes
    clones: tuple[int, ...]
    schedule: Schedule
    serial: float
    critical: float
    reason: str

    @property
    def gain(self) -> float:
        """How many times faster than one lane."""
        took = self.schedule.makespan
        return self.serial / took if took else 1.0

    @property
    def parallelism(self) -> float:
        """All work over the longest path, hand-offs included: what Ramiel hopes for."""
        return self.serial / self.critical if self.critical else 1.0


def costs_of(
    flow: Dataflow,
    device: Device = CPU,
    profile: Profile | None = None,
    threads: int = 1,
) -> Costs:
    """Seconds of operators, measured where the profile has them, and of hand-offs.

    Each operator has `threads` of its own.
    """
    measured = profile or Profile()
    seconds = []
    for op in flow.operators:
        found = measured.seconds(device.name, [op.signature], threads)
        if found is None:
            found = device.seconds(op.flops, op.moved_bytes, threads)
        seconds.append(max(found, 1e-9))
    hand_off = measured.seconds(device.name, HAND_OFF)
    hand_off = device.hand_off if hand_off is None else hand_off
    edges = {
        (first, second): hand_off
        + sum(t.bytes for t in flow.between(first, second)) / device.bytes
        for first, second in flow.dag.edges()
    }
    return Costs(tuple(seconds), edges, hand_off)


def plan_lanes(flow: Dataflow, costs: Costs, count: int) -> LanePlan:
    """The division into at most `count` lanes that is fastest when simulated."""
    written = [sum(flow.tensors[t].bytes for t in op.writes) for op in flow.operators]
    return lanes_for(flow.dag, costs, count, written)


def lanes_for(
    dag: Dag,
    costs: Costs,
    count: int,
    result_bytes: list[int] | None = None,
    cloning: bool = True,
) -> LanePlan:
    """The same for a graph of costs alone.

    There is more than one way to bring clusters down to a few lanes, and cloning adds
    work: all are simulated. A single lane stands beside them, so no plan is slower.
    """
    distance = distance_to_end(dag, costs)
    clusters = linear_clusters(dag, costs, distance)
    merged = merge_clusters(dag, clusters, distance)
    serial: Lanes = (in_order(range(len(dag)), distance),) if len(dag) else ()
    alone = simulate(dag, serial, costs, result_bytes)
    best, lanes = alone, serial
    found = [bind(dag, clusters, costs, distance, count)] if count > 1 else []
    if len(merged) <= count:
        found.append(merged)
    elif count > 1:
        found.append(fold(merged, costs, distance, count))
    for bare in found:
        cloned = [clone(dag, bare, costs, distance)] if cloning else []
        for candidate in (bare, *cloned):
            run = simulate(dag, candidate, costs, result_bytes)
            if run.makespan < best.makespan:
                best, lanes = run, candidate
    gain = alone.makespan / best.makespan if best.makespan else 1.0
    reason = f"predicted {gain:.2f} times as fast as one lane"
    if gain < WORTH:
        reason += f", less than {WORTH}: one lane is kept"
        best, lanes = alone, serial
    places = Counter(node for lane in lanes for node in lane)
    clones = tuple(sorted(node for node, times in places.items() if times > 1))
    critical = max(distance, default=0.0)
    return LanePlan(
        lanes, clusters, merged, clones, best, alone.makespan, critical, reason
    )


def batch_makespans(
    dag: Dag, lanes: Lanes, costs: Costs, batch: int
) -> dict[str, float]:
    """What a batch takes on these lanes, by how its samples are put together.

    "whole samples" per lane is the baseline that the others have to beat.
    """
    distance = distance_to_end(dag, costs)
    every, many = copies(dag, batch), batch_costs(costs, batch)
    divisions = {
        "whole samples": whole_samples(distance, batch, len(lanes)),
        "hyperclusters": hyperclusters(lanes, distance, batch),
        "switched hyperclusters": hyperclusters(lanes, distance, batch, switched=True),
    }
    found = {
        name: simulate(every, division, many).makespan
        for name, division in divisions.items()
    }
    one = simulate(dag, lanes, costs).makespan
    return {"one after another": one * batch, **found}
