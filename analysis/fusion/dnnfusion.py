"""The fusion plan of DNNFusion (PLDI 2021, listing 1): groups of operators, and why.

A group grows from a seed, the operator of the simplest type whose result is smallest,
to successors and then to predecessors. An operator joins if Table 3 says so for its
type and that of the group (mapping_types.py); if a tile of the larger group fits the
device; in a yellow cell, if the larger group is measured or estimated to be no slower;
and, which the paper leaves out, if no path leads out of the group and back, so that the
groups can run one after another.

A break of the table is passed over where every Many-to-Many operator but the first uses
up each tile of its input when that is computed: AGO's intensive fusion (INFOCOM 2023).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from ..cost.device import CPU, Device, Profile
from ..dataflow.dag import Grouping
from ..dataflow.dataflow import Dataflow
from ..dataflow.mapping_types import COMPLEXITY, Cell, Verdict, cell, most_complex
from ..ops.facts.tiles import Tile
from ..ops.registry import (
    MANY_TO_MANY,
    ONE_TO_MANY,
    OPAQUE,
    REORGANIZE,
    SHUFFLE,
    MappingType,
)
from .cost_model import Price, Timer, live

# A bound for those who read a group, and for the time that planning takes.
MAX_OPERATORS = 64


@dataclass(frozen=True)
class Group:
    """Operators, in order, that become one function or kernel."""

    operators: tuple[int, ...]
    mapping: MappingType
    intensive: bool = False


@dataclass(frozen=True)
class _Edge:
    """What was decided about two operators with a tensor between them, and why."""

    first: int
    second: int
    types: tuple[MappingType, MappingType]
    fused: bool
    reason: str

    @property
    def cell(self) -> Cell:
        """The cell of Table 3 that the pair is judged by."""
        return cell(*self.types)


@dataclass(frozen=True)
class FusionPlan:
    """Groups that cover the graph, in topological order."""

    method: str
    groups: tuple[Group, ...]
    edges: tuple[_Edge, ...]
    bytes_before: int
    bytes_after: int


def dnnfusion(
    flow: Dataflow,
    device: Device = CPU,
    profile: Profile | None = None,
    intensive: bool = True,
    timer: Timer | None = None,
) -> FusionPlan:
    """The plan for a graph on a device.

    `profile` and `timer` give measured seconds, without which costs are estimated;
    `intensive` allows a second Many-to-Many operator as AGO does.
    """
    price = Price(flow, device, profile or Profile(), timer)
    planner = _Planner(flow, price, intensive)
    planner.run()
    grouping = planner.grouping
    groups = tuple(
        Group(
            tuple(sorted(grouping.members[name])),
            planner.types[name],
            name in planner.intensive_groups,
        )
        for name in grouping.in_order()
    )
    return plan_of("dnnfusion", flow, groups, planner.edges)


def plan_of(
    method: str,
    flow: Dataflow,
    groups: Sequence[Group],
    examined: dict[tuple[int, int], _Edge],
) -> FusionPlan:
    """A plan with a decision for each edge, and the bytes between operators and groups.

    The outcome of an edge is where its ends are; the reason is that of `examined`.
    """
    group_of = {node: i for i, g in enumerate(groups) for node in g.operators}
    edges = []
    for first, second in flow.dag.edges():
        fused = group_of[first] == group_of[second]
        edge = examined.get((first, second))
        if edge is None or edge.fused != fused:
            types = (flow.operators[first].mapping, flow.operators[second].mapping)
            reason = "both joined through others" if fused else "in another group"
            edge = _Edge(first, second, types, fused, reason)
        edges.append(edge)
    before = after = 0
    for tensor in flow.tensors:
        if tensor.producer is None or tensor.returned or not tensor.readers:
            continue
        before += tensor.bytes
        home = group_of[tensor.producer]
        if any(group_of[reader] != home for reader in tensor.readers):
            after += tensor.bytes
    return FusionPlan(method, tuple(groups), tuple(edges), before, after)


class _Planner:
    """Listing 1, one block after another."""

    def __init__(self, flow: Dataflow, price: Price, intensive: bool) -> None:
        self.flow, self.price, self.intensive = flow, price, intensive
        self.grouping = Grouping(flow.dag)
        self.types = {i: op.mapping for i, op in enumerate(flow.operators)}
        self.intensive_groups: set[int] = set()
        self.edges: dict[tuple[int, int], _Edge] = {}
        self._done: set[int] = set()  # operators whose group has grown

    def run(self) -> None:
        for seed in self._seeds():
            if seed not in self._done:
                while self._grow(seed, True) or self._grow(seed, False):
                    pass
                self._done.update(self.grouping.members[self.grouping.group_of[seed]])

    def _seeds(self) -> list[int]:
        """The paper starts from One-to-One operators; the others follow.

        So two operators that no One-to-One operator touches can still be fused.
        """
        written = [
            sum(self.flow.tensors[t].bytes for t in op.writes)
            for op in self.flow.operators
        ]
        fusible = [i for i, t in self.types.items() if t is not OPAQUE]
        return sorted(
            fusible, key=lambda i: (COMPLEXITY.index(self.types[i]), written[i], i)
        )

    def _grow(self, seed: int, forward: bool) -> bool:
        """Take in what follows the group, or what it follows; whether anything came."""
        dag, grouping = self.flow.dag, self.grouping
        ways = dag.successors if forward else dag.predecessors
        pending = list(grouping.members[grouping.group_of[seed]])
        came = False
        for inside in pending:  # which grows
            for other in ways[inside]:
                block = grouping.group_of[seed]
                if other in self._done or grouping.group_of[other] == block:
                    continue
                ends = (inside, other) if forward else (other, inside)
                if self._examine(block, other, ends, forward):
                    pending.append(other)
                    came = True
        return came

    def _examine(
        self, block: int, other: int, ends: tuple[int, int], forward: bool
    ) -> bool:
        """Fuse an operator with a block if all checks allow it; note why or why not."""
        first, second = (block, other) if forward else (other, block)
        types = (self.types[first], self.types[second])
        allowed, reason = self._allowed(first, second, types)
        fused = allowed and self.grouping.merge(first, second)
        if allowed and not fused:
            reason = "a path leads out of the group and back"
        self.edges[ends] = _Edge(*ends, types, fused, reason)
        if fused:
            result = cell(*types)
            if result.verdict is Verdict.BREAK:
                self.intensive_groups.add(first)
                self.types[first] = most_complex(*types)
            else:
                self.types[first] = result.result
            if second in self.intensive_groups:
                self.intensive_groups.add(first)
        return fused

    def _spell(self, group: int) -> str:
        count = len(self.grouping.members[group])
        return self.types[group].value + (f" group of {count}" if count > 1 else "")

    def _allowed(
        self, first: int, second: int, types: tuple[MappingType, MappingType]
    ) -> tuple[bool, str]:
        """What the checks say, but for that on paths."""
        members, device = self.grouping.members, self.price.device
        both = [*members[first], *members[second]]
        verdict = cell(*types).verdict
        pair = f"{self._spell(first)} into {self._spell(second)}"
        held: int | None = 0
        if OPAQUE in types:
            return False, "an opaque operator stays alone"
        if len(both) > MAX_OPERATORS:
            return False, f"more than {MAX_OPERATORS} operators"
        intensive = not self.intensive_groups.isdisjoint((first, second))
        if verdict is Verdict.BREAK and not self.intensive:
            held = None
        elif verdict is Verdict.BREAK or intensive:
            held = uses_up_tiles(self.flow, both)
        if held is None:
            breaks = verdict is Verdict.BREAK
            return False, f"{pair} breaks" if breaks else f"{pair} repeats work"
        values, row_bytes = live(self.flow, both, device.live_values)
        if values > device.live_values:
            return False, f"{values} live values, at most {device.live_values} fit"
        if held + row_bytes > device.on_chip_bytes:
            return False, f"a tile needs {held + row_bytes} bytes on chip"
        if verdict is Verdict.FUSE:
            return True, f"{pair} fuses"
        faster, figures = self.price.compare(members[first], members[second])
        if verdict is Verdict.BREAK:
            return faster, f"intensive: each tile is used up; {figures}"
        return faster, figures


# ---- AGO: several Many-to-Many operators that share one pass over tiles

# What came before: something complex; since then, axes or even rows that changed.
_STARTED, _RESHAPED, _MOVED = 1, 2, 4


def uses_up_tiles(flow: Dataflow, operators: Iterable[int]) -> int | None:
    """The bytes to keep on chip if no tile has to be computed twice; else None.

    One operator is the first to be Many-to-Many. Each further one has to follow its
    first input tile by tile (tiling.py), all by the same kind of tile, with nothing in
    between that breaks tiles up, and nothing may read a row again that was costly.
    """
    members = sorted(operators)
    state: dict[int | None, int] = {}
    held, roots = 0, 0
    tiles: set[Tile] = set()
    for i in members:
        op = flow.operators[i]
        states = {t: state.get(flow.tensors[t].producer, 0) for t in op.reads}
        started = [t for t, before in states.items() if before & _STARTED]
        before = reduce(or_, states.values(), 0)
        if op.repeats > 1 and before & _STARTED:
            return None
        if op.mapping is MANY_TO_MANY and before & _STARTED:
            if op.tiling is None or started != [op.reads[0]]:
                return None
            if before & (_MOVED if op.tiling.tile is Tile.ROW else _MOVED | _RESHAPED):
                return None
            held += op.tiling.held_bytes
            tiles.add(op.tiling.tile)
        elif op.mapping is MANY_TO_MANY:
            roots += 1
        if op.mapping in (MANY_TO_MANY, ONE_TO_MANY):
            before |= _STARTED
        elif op.mapping in (REORGANIZE, SHUFFLE) and before & _STARTED:
            before |= _RESHAPED if op.keeps_rows else _MOVED
        state[i] = before
    return held if roots <= 1 and len(tiles) <= 1 else None
