"""Which blocks of a module tree fork into lanes, and what that is predicted to gain.

The plan of linear clusters (analysis/schedule/lanes.py) may cut across modules and hand
results over anywhere. What is emitted forks and joins inside of one forward, so that a
reader finds all of it in one place; both predictions are reported side by side.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ...analysis.cost.device import CPU, Profile
from ...analysis.dataflow.dag import Dag
from ...analysis.dataflow.dataflow import Dataflow, dataflow
from ...analysis.errors import FairhandError
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.schedule.fork_join import Fork, Work, find_forks, fork_seconds
from ...analysis.schedule.lanes import WORTH, LanePlan, costs_of, plan_lanes
from ...analysis.schedule.linear_clustering import Costs
from ..classes.module_classes import ClassTable, ModuleClass
from ..ir.assignment import Assignment
from ..ir.control_flow import Block
from ..ir.module_call import ModuleCall
from ..ir.statement_tree import reads
from ..load.random_outputs import draws

MOST_ASKED = 64  # lanes; no model has work for more
MOST_LANES = 8  # that the tool chooses from
# What a prediction has to promise: gains measured on two cores (docs/lanes.md) are 0.87
# to 1.08 of those predicted, and lanes that lose are worse than none.
SURE = 1.2
EAGER = "eager"  # the engine that lanes run on
MOST_FORKS = 4  # in one forward; a reader loses count of more
NOTICED = 0.01  # of the time of the model that a class has to save

# Seconds of a graph's operators, measured with each of these numbers of threads.
Measure = Callable[[ir.Model, ShapeFacts, Dataflow, Sequence[int]], Profile]


@dataclass(frozen=True)
class Costed:
    """A model's costs: with the `share` of threads that a lane has, and with all.

    `plan` is that of linear clusters for at most `count` lanes.
    """

    flow: Dataflow
    count: int
    share: int
    threads: int
    shared: Costs
    whole: Costs
    plan: LanePlan


@dataclass(frozen=True)
class Times:
    """Measured seconds: of one lane on the engine that such a package has, of lanes."""

    alone: float
    lanes: float
    engine: str


@dataclass(frozen=True)
class Divided:
    """The forks of each class, and seconds of the model without and with them.

    `alike` are those without them and with no more threads than each of the lanes has.
    `operators` are those in each lane of each fork, of all instances. Without enough
    gain, predicted or measured, there are no forks; nor without a measurement where one
    lane would run on another engine (`rival`) than the eager one, which predictions are
    for.
    """

    costed: Costed
    forks: Mapping[ModuleClass, tuple[Fork, ...]]
    operators: Mapping[ModuleClass, tuple[tuple[tuple[int, ...], ...], ...]]
    serial: float
    seconds: float
    alike: float
    measured: Times | None = None
    rival: str = EAGER

    @property
    def gain(self) -> float:
        """Measured, or predicted."""
        if self.measured is not None:
            return self.measured.alone / self.measured.lanes
        return self.serial / self.seconds if self.seconds else 1.0

    @property
    def needed(self) -> float:
        """The gain from which on lanes are worth it."""
        return SURE if self.measured is None else WORTH

    def settled(self) -> Divided:
        """Without forks if they gain too little."""
        worth = self.gain >= self.needed and not self._unknown
        return self if worth else replace(self, forks={}, operators={})

    @property
    def _unknown(self) -> bool:
        return self.measured is None and self.rival != EAGER

    @property
    def reason(self) -> str:
        """What was decided, with numbers."""
        cost = self.costed
        if cost.count == 1:
            return "none, since one lane is all there is"
        share = f"{cost.share} thread{'s' if cost.share > 1 else ''}"
        alone = f"{cost.threads} thread{'s' if cost.threads > 1 else ''}"
        found, serial, seconds = "are predicted", self.serial, self.seconds
        if (times := self.measured) is not None:
            found, serial, seconds = "were measured", times.alone, times.lanes
            alone += f" on engine {times.engine}"
        text = (
            f"{cost.count} lanes with {share} each {found} to take"
            f" {seconds * 1e3:.1f} ms, one with {alone} {serial * 1e3:.1f} ms:"
            f" {self.gain:.2f} times as fast"
        )
        if self.forks:
            return text
        if self.gain < self.needed:
            return f"none, since {text}, less than {self.needed}"
        if self.alike < WORTH * self.seconds:
            other = f"one lane with {share} would take {self.alike * 1e3:.1f} ms"
        else:
            other = f"one lane would run on engine {self.rival}, which was not measured"
        return f"none, though {text}: {other}"

    @property
    def count(self) -> int:
        """Of lanes that are emitted."""
        return self.costed.count if self.forks else 1


def _cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cost_lanes(
    model: ir.Model,
    shapes: ShapeFacts,
    lanes: int | str | None,
    measure: Measure | None = None,
) -> list[Costed]:
    """What to choose from: for a number of lanes, or for this machine if "auto".

    A number of lanes is compared with one lane of as many threads as each of them has;
    lanes that the tool chooses, with one lane of all threads that the machine has.
    Costs are estimated where `measure` has none. Raises FairhandError for a number that
    is out of range.
    """
    if lanes is None:
        return []
    if lanes != "auto" and not (isinstance(lanes, int) and 0 < lanes <= MOST_ASKED):
        raise FairhandError(
            f"lanes={lanes!r} is no number of lanes",
            hint=f"give one from 1 to {MOST_ASKED}, or auto",
        )
    flow = dataflow(model, shapes)
    wanted = _choices(lanes if isinstance(lanes, int) else None)
    threads = sorted({n for _, *counts in wanted for n in counts})
    known = Profile() if measure is None else measure(model, shapes, flow, threads)
    found = []
    for count, share, whole in wanted:
        shared, alone = (costs_of(flow, CPU, known, n) for n in (share, whole))
        plan = plan_lanes(flow, shared, count)
        found.append(Costed(flow, count, share, whole, shared, alone, plan))
    return found


def _choices(lanes: int | None) -> list[tuple[int, int, int]]:
    """Numbers of lanes, the threads of each of them, and those of one lane alone."""
    if lanes is not None:
        return [(lanes, 1, 1)]
    threads = _cores()
    counts = range(min(2, threads), min(threads, MOST_LANES) + 1)
    return [(count, threads // count, threads) for count in counts]


def divide(
    classes: ClassTable, model: ir.Model, costed: Sequence[Costed]
) -> Divided | None:
    """Fork the classes of a model as the best of these costs has it, if any."""
    found = (_divided(classes, model, each) for each in costed)
    return max(found, key=lambda divided: divided.gain, default=None)


def _divided(classes: ClassTable, model: ir.Model, costed: Costed) -> Divided:
    found = _Division(classes, model, costed)
    serial = found.seconds(classes.root.call, costed.whole)
    seconds = found.divided(classes.root.call)
    # What more threads gain in one lane is hard to predict, and left to a measurement.
    alike = found.seconds(classes.root.call, costed.shared)
    forks = found.reached() if alike >= WORTH * seconds else {}
    operators = {cls: found.operators(cls) for cls in forks}
    return Divided(costed, forks, operators, serial, seconds, alike)


class _Division:
    """Chooses forks class by class, for all instances of a class together."""

    def __init__(self, classes: ClassTable, model: ir.Model, costed: Costed) -> None:
        self.classes, self.costed = classes, costed
        nodes = [n for n in model.graph if n.domain or n.op_type != "Constant"]
        self._position = {node: i for i, node in enumerate(nodes)}
        self._bytes = {
            value: costed.flow.tensors[t].bytes
            for node, op in zip(nodes, costed.flow.operators, strict=True)
            for read in [[v for v in node.outputs if v.uses() or v.is_graph_output()]]
            for value, t in zip(read, op.writes, strict=True)
        }
        owned = (n for step in classes.root.call.steps() for n in self._own(step))
        self._steps = Counter(self._position[node] for node in owned)  # of each node
        self.forks: dict[ModuleClass, tuple[Fork, ...]] = {}
        self._calls: dict[ModuleClass, list[ModuleCall]] = {}
        self._visit(classes.root.call)
        total = self.seconds(classes.root.call, costed.shared)
        for cls in classes.order:
            forks = self._forks(cls)
            if sum(fork.saved for fork in forks) >= NOTICED * total:
                self.forks[cls] = forks

    def _visit(self, call: ModuleCall) -> None:
        self._calls.setdefault(self._class_of(call), []).append(call)
        for inner in call.calls():
            self._visit(inner)

    def _class_of(self, call: ModuleCall) -> ModuleClass:
        return self.classes.of[call.shares or call]

    # ---- seconds

    def inside(self, item: Assignment | ModuleCall) -> float:
        """In a lane, where nothing forks any more."""
        return self.seconds(item, self.costed.shared)

    def divided(self, item: Assignment | ModuleCall) -> float:
        """With those forks that have been chosen."""
        if isinstance(item, Assignment):
            return self.inside(item)
        forks = self.forks.get(self._class_of(item), ())
        in_forks = {i for fork in forks for lane in fork.lanes for i in lane}
        items = enumerate(item.contents())
        alone = (self.divided(x) for i, x in items if i not in in_forks)
        if not forks:  # of a body with a loop no graph without circles could be made
            return sum(alone)
        work, dag = self._work([item]), body_dag(item)
        return sum(alone) + sum(fork_seconds(dag, work, f.lanes) for f in forks)

    def seconds(self, item: Assignment | ModuleCall, costs: Costs) -> float:
        steps = [item] if isinstance(item, Assignment) else item.steps()
        nodes = (self._position[n] for step in steps for n in self._own(step))
        return sum(costs.nodes[i] / self._steps[i] for i in nodes)

    def _own(self, step: Assignment) -> list[ir.Node]:
        return [node for node in own_nodes(step) if node in self._position]

    def reached(self) -> dict[ModuleClass, tuple[Fork, ...]]:
        """The forks of those classes that are not in lanes themselves, always."""
        classes: dict[ModuleClass, None] = {}

        def visit(call: ModuleCall) -> None:
            cls = self._class_of(call)
            classes[cls] = None
            forks = self.forks.get(cls, ())
            inside = {i for fork in forks for lane in fork.lanes for i in lane}
            for i, item in enumerate(call.contents()):
                if isinstance(item, ModuleCall) and i not in inside:
                    visit(item)

        visit(self.classes.root.call)
        return {cls: self.forks[cls] for cls in classes if cls in self.forks}

    def operators(self, cls: ModuleClass) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Of each lane of each fork, by position."""
        return tuple(
            tuple(
                tuple(sorted({n for i in lane for n in self._positions(cls, i)}))
                for lane in fork.lanes
            )
            for fork in self.forks[cls]
        )

    def _positions(self, cls: ModuleClass, place: int) -> Iterator[int]:
        for call in self._calls[cls]:
            item = call.contents()[place]
            steps = [item] if isinstance(item, Assignment) else item.steps()
            yield from (self._position[n] for s in steps for n in self._own(s))

    # ---- forks

    def _forks(self, cls: ModuleClass) -> tuple[Fork, ...]:
        calls = self._calls.get(cls, [])
        items = cls.call.items
        alike = all(len(call.items) == len(items) for call in calls)
        if cls.chain or not alike or any(isinstance(item, Block) for item in items):
            return ()
        found = find_forks(body_dag(cls.call), self._work(calls), self.costed.count)
        gains = [
            fork for fork in found if all(self._gains(call, fork) for call in calls)
        ]
        best = sorted(gains, key=lambda fork: -fork.saved)[:MOST_FORKS]
        return tuple(fork for fork in found if fork in best)

    def _gains(self, call: ModuleCall, fork: Fork) -> bool:
        """Whether one instance does; others may have more to do in the same lanes."""
        work = self._work([call])
        apart = sum(work.outside[i] for lane in fork.lanes for i in lane)
        return fork_seconds(body_dag(call), work, fork.lanes) < apart

    def _work(self, calls: Sequence[ModuleCall]) -> Work:
        """Of each item, summed over the calls."""
        rows = list(zip(*(call.contents() for call in calls), strict=True))
        return Work(
            [sum(map(self.inside, row)) for row in rows],
            [sum(map(self.divided, row)) for row in rows],
            [sum(map(self._moved, row)) for row in rows],
            self.costed.shared.hand_off * len(calls),
            frozenset(i for i, row in enumerate(rows) if _draws(row[0])),
        )

    def _moved(self, item: Assignment | ModuleCall) -> float:
        return sum(self._bytes.get(v, 0) for v in item.outputs if v) / CPU.bytes


def own_nodes(step: Assignment) -> list[ir.Node]:
    """Those whose work a step does."""
    absorbed = step.form.absorbs if step.form is not None else ()
    return [*absorbed, *([step.node] if step.node is not None else [])]


def _draws(item: Assignment | ModuleCall) -> bool:
    """Whether random numbers are drawn, in an order that lanes would not keep."""
    steps = [item] if isinstance(item, Assignment) else item.steps()
    return any(step.node is not None and draws(step.node) for step in steps)


def body_dag(call: ModuleCall) -> Dag:
    """The items of a body, each after those that it reads of."""
    items = call.contents()
    made = {v: i for i, item in enumerate(items) for v in item.outputs if v}
    edges = (
        (made[value], i)
        for i, item in enumerate(items)
        for value in reads_of(item)
        if value in made
    )
    return Dag.of(len(items), edges)


def reads_of(item: Assignment | ModuleCall) -> list[ir.Value]:
    """The values that a step or a call is given."""
    if isinstance(item, Assignment):
        return item.reads()
    return [*item.inputs, *(v for arg in item.size_args for v in reads(arg))]
