"""A plan for several devices, found among those that there are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import onnx_ir as ir

from ...analysis.cost.typical_sizes import Sizes
from ...analysis.errors import FairhandError
from ...analysis.ops.facts.cuts import Pieces
from ...analysis.partition.layers import Layer, Way
from ...analysis.partition.machine import Machine
from ...analysis.partition.request import Degrees, divisions
from ...analysis.partition.search import Sharing, share
from ...analysis.partition.stages import Chain, Stages, divide
from .network import Network
from .tree import Unit

BATCHES = 4  # parts of a batch that a pipeline runs in turn


@dataclass(frozen=True)
class Plan:
    """How layers are shared, where stages begin, and what a call costs: its share of a
    step, in which `dp` and `batches` have several run at once. All stages cut the same
    layers, each into its own degree; one of degree 1 has them whole.

    `held` are the bytes of weights of a device of each stage, `starts` the units that
    later stages begin with, `batches` the parts of a batch, of each of which a stage
    needs so many seconds (`times`).
    """

    degrees: Degrees
    sharing: Sharing
    starts: tuple[int, ...]
    held: tuple[int, ...]
    seconds: float
    batches: int
    times: tuple[float, ...]


@dataclass(frozen=True)
class Given:
    """A plan that the file has: layers that are cut, and the units that later stages
    begin with; None are those that are best."""

    degrees: Degrees
    cut: Mapping[Layer, Way]
    starts: tuple[int, ...] | None


def plans(
    network: Network, wanted: Degrees | int | Given, machine: Machine
) -> list[Plan]:
    """The best of each division that fits, best first. Raises FairhandError where
    there is none, saying why and which degrees there are."""
    if network.refused:
        raise FairhandError(f"no plan for several devices: {network.refused}")
    if isinstance(wanted, Given):
        found = _given(network, wanted, machine)
    elif isinstance(wanted, Degrees):
        if reason := why_not(network, wanted):
            raise FairhandError(f"no plan for {wanted}: {reason}")
        found = sorted(_arranged(network, wanted, machine), key=_uncut)
        found = [plan for plan in found if _uncut(plan) == _uncut(found[0])]
    else:
        possible = [d for d in divisions(wanted) if not why_not(network, d)]
        found = [p for d in possible for p in list(_arranged(network, d, machine))[:3]]
        if not possible:
            reasons = dict.fromkeys(why_not(network, d) for d in divisions(wanted))
            what = f"{wanted} devices can't share the network"
            raise FairhandError(what, hint="; ".join(list(reasons)[:3]))
    if not found and isinstance(wanted, Degrees):  # tables, whether it pays or not
        tables = [x for x in network.tables if not x.rows % wanted.tp]
        cut = Given(wanted, dict.fromkeys(tables, Way.VOCABULARY), None)
        found = list(_arranged(network, wanted, machine, cut))
    if not found and isinstance(wanted, Degrees):
        _refuse_uncut(network, wanted, machine)
    if not found:
        what = f"no plan needs less than {machine.memory / 1e9:g} GB on each device"
        raise FairhandError(what, hint="give more devices, or more --memory")
    found.sort(key=lambda p: (p.seconds, p.degrees.pp, p.degrees.dp))
    best: dict[Degrees, Plan] = {}
    for plan in found:
        best.setdefault(plan.degrees, plan)
    return list(best.values())


def _given(network: Network, given: Given, machine: Machine) -> list[Plan]:
    if reason := why_not(network, given.degrees):
        raise FairhandError(f"the file's plan for {given.degrees}: {reason}")
    roomy = replace(machine, memory=math.inf)
    if not any(True for _ in _arranged(network, given.degrees, roomy, given)):
        what = "the layers that the file cuts can't be cut so, and no others"
        hint = f"--parallel {given.degrees} finds a plan that can"
        raise FairhandError(what, hint=hint)
    return list(_arranged(network, given.degrees, machine, given))


def _uncut(plan: Plan) -> int:
    """Bytes of the layers that no region cuts: who names a degree wants few."""
    cut = {layer for region in plan.sharing.regions for layer in region.layers}
    return sum(x.weight_bytes for x in plan.sharing.ways if x not in cut)


def _refuse_uncut(network: Network, degrees: Degrees, machine: Machine) -> None:
    """Raises FairhandError where no layer would be cut, however much memory."""
    roomy = replace(machine, memory=math.inf)
    if degrees.tp > 1 and not any(True for _ in _arranged(network, degrees, roomy)):
        shared = ", ".join(sorted({x.path for tie in network.ties for x in tie})[:2])
        raise FairhandError(
            f"no plan for {degrees}: layers that could be cut together run more than"
            f" once or share a matrix ({shared}), as those of equal numbers do, and a"
            " gather behind each costs more than it saves",
            hint="give --memory below what they hold to have them cut one by one",
        )


def why_not(network: Network, degrees: Degrees) -> str:
    """Why the network can't be shared so; "" if it can."""
    for tp in (*degrees.tps, degrees.tp):
        if tp > 1 and tp not in network.degrees:
            possible = ", ".join(map(str, network.degrees))
            if possible:
                return f"its layers can't be cut into {tp}; tp may be {possible}"
            return f"its layers can't be cut: {blocked(network)}"
    places = [unit for unit in network.units if unit.crossing is not None]
    if degrees.pp > len(places) + 1:
        most = f"; pp may be up to {len(places) + 1}" if places else ""
        return f"there are {len(places)} places where a stage may begin{most}"
    if degrees.dp > 1 and network.rows.mixed:
        return f"a batch can't be divided: {network.rows.mixed}"
    return ""


def blocked(network: Network) -> str:
    """Why nothing can be cut, of the layer that holds most."""
    regions = [region for region in network.regions if region.blocked]
    if not regions:
        return "there are no linear layers"
    worst = max(regions, key=lambda r: sum(x.weight_bytes for x in r.layers))
    return f"{worst.columns[0].path}: {worst.blocked}"


def _arranged(
    network: Network, degrees: Degrees, machine: Machine, given: Given | None = None
) -> Iterator[Plan]:
    """Plans of these degrees, one for each good way to share the layers."""
    work = network.work
    batches = 1 if degrees.pp == 1 or network.rows.joined else BATCHES
    roomy = machine if degrees.pp == 1 else replace(machine, memory=math.inf)
    layers = network.layers
    cut = None if given is None else given.cut
    for sharing in share(
        layers, network.regions, degrees.tp, work, roomy, network.ties, cut
    ):
        if degrees.tp > 1 and not cuts_of(sharing):
            continue
        stages: Stages | None
        if degrees.pp == 1:
            stages = Stages(sharing.seconds, (), (sharing.seconds / degrees.dp,))
        else:
            starts = None if given is None else given.starts
            stages = _stages(network, sharing, degrees, batches, machine, starts)
        if stages is None:
            continue
        held = held_by_stage(network, sharing, degrees, stages.starts)
        if max(held) <= machine.memory:
            seconds, times = stages.seconds / batches / degrees.dp, stages.times
            yield Plan(degrees, sharing, stages.starts, held, seconds, batches, times)


def parts_of(units: Sequence[Unit], starts: Sequence[int]) -> list[Sequence[Unit]]:
    """The units of each stage."""
    ends = [*starts, len(units)]
    return [units[a:b] for a, b in zip([0, *starts], ends, strict=True)]


def results_of(network: Network, starts: Sequence[int]) -> list[list[str]]:
    """The results of the network that each stage has in the end: those of its units,
    and the last one all others."""
    parts = parts_of(network.units, starts)
    place = {v: i for i, part in enumerate(parts) for unit in part for v in unit.gives}
    found: list[list[str]] = [[] for _ in parts]
    for value in network.graph.outputs:
        found[place.get(value, -1)].append(value.name or "")
    return found


def _stages(
    network: Network,
    sharing: Sharing,
    degrees: Degrees,
    batches: int,
    machine: Machine,
    starts: Sequence[int] | None,
) -> Stages | None:
    ways = sharing.ways
    by_node = {node: layer for layer in ways for node in layer.nodes}
    inside = {node for r in sharing.regions for node in (*r.steps, *r.sums)}
    split = {value for r in sharing.regions for value in r.cut}

    def chain(before: int, own: int) -> Chain:
        """Of a stage with so many devices, behind one with so many."""
        shared = replace(sharing, degree=own)
        seconds, held, sent = [], [], []
        for i, unit in enumerate(network.units):
            flops = 0.0
            for node in unit.nodes:
                way = ways.get(by_node[node]) if node in by_node else None
                cut = node in inside or way not in (None, Way.WHOLE)
                flops += network.node_flops(node) / (own if cut else 1)
            size = held_bytes(network, shared, {unit.path})
            held.append(size)
            seconds.append(machine.compute(flops, size))
            may = unit.crossing is not None and (starts is None or i in starts)
            may = may and split.isdisjoint(unit.crossed)
            moved = sum(network.sizes.bytes(v) for v in unit.crossed)
            sent.append(machine.send(moved, before, own) if may else math.inf)
        return Chain(seconds, held, sent)

    tps = degrees.tps  # nothing is sent to the first stage
    pairs = list(zip((tps[0], *tps), tps, strict=False))
    chains = {pair: chain(*pair) for pair in dict.fromkeys(pairs)}
    return divide([chains[pair] for pair in pairs], batches, machine.memory)


def held_by_stage(
    network: Network, sharing: Sharing, degrees: Degrees, starts: Sequence[int]
) -> tuple[int, ...]:
    """Bytes of weights that a device of each stage holds."""
    parts = [{u.path for u in part} for part in parts_of(network.units, starts)]
    return tuple(
        held_bytes(network, replace(sharing, degree=tp), part if starts else None)
        for part, tp in zip(parts, degrees.tps, strict=True)
    )


def sharings(network: Network, plan: Plan) -> list[Sharing]:
    """Of each stage the layers and regions that are its own, cut into its degree."""
    parts = enumerate(parts_of(network.units, plan.starts))
    owner = {unit.path: i for i, part in parts for unit in part}
    found = []
    for stage, tp in enumerate(plan.degrees.tps):
        ways = {
            layer: way
            for layer, way in plan.sharing.ways.items()
            if owner.get(network.unit_of(layer.path), stage) == stage
        }
        regions = tuple(r for r in plan.sharing.regions if r.columns[0] in ways)
        found.append(replace(plan.sharing, degree=tp, ways=ways, regions=regions))
    return found


def handed_on(network: Network, plan: Plan) -> list[tuple[Sequence[ir.Value], int]]:
    """What each later stage is given, and how many devices share its layers."""
    pairs = zip(plan.starts, plan.degrees.tps[1:], strict=True)
    return [(network.units[i].crossed, n) for i, n in pairs]


def sent_bytes(network: Network, plan: Plan, sizes: Sizes) -> list[int]:
    """Bytes of that for a part of a batch: each once, in equal slices."""
    given = handed_on(network, plan)
    return [sum(-(-sizes.bytes(v) // n) * n for v in values) for values, n in given]


def held_bytes(network: Network, sharing: Sharing, units: set[str] | None) -> int:
    """Bytes of weights that a device with these units holds; None for all units."""
    there = network.tensors.keys() if units is None else ["", *units]
    names = [name for path in there for name in network.tensors.get(path, ())]
    stored: dict[str, int] = {}
    for name in names:
        key = network.aliases.get(name, name)
        owner, _, leaf = name.rpartition(".")
        size = network.held[key]
        layer = network.by_path.get(name) or network.by_path.get(owner)
        way = Way.WHOLE if layer is None else sharing.ways[layer]
        whole = way is Way.WHOLE or (
            leaf != "weight" and way in (Way.ROWS, Way.VOCABULARY)
        )
        stored[key] = size if layer is None or whole else size // sharing.degree
    return sum(stored.values())


def exchange_bytes(network: Network, sharing: Sharing) -> int:
    """Bytes that a device sends in a call to those that share its layers."""
    n, total = sharing.degree, 0.0
    work = network.work
    for layer, way in sharing.ways.items():
        size = work.result_bytes[layer] * (n - 1) / n
        total += {"sum": 2 * size, "gather": size}.get(way.exchange, 0.0)
    added = (size for r in sharing.regions for size in work.sums[id(r)])
    total += 2 * sum(added) * (n - 1) / n
    return round(total)


def cuts_of(sharing: Sharing) -> dict[Layer, tuple[str, Pieces]]:
    """How each layer that is cut is cut, as parallel.py has it."""
    pieces = {x: n for r in sharing.regions for x, n in r.pieces.items()}
    return {
        x: (way.value, pieces.get(x, 1) if x.along is None else x.along)
        for x, way in sharing.ways.items()
        if way is not Way.WHOLE
    }
