"""How each layer is best shared by devices: one block is decided, its copies follow.

Regions and layers that are alike but for numbers in their paths are one choice (TAP,
Shi et al. 2023). Nothing that is cut leaves its region, so choices add up: the plan is
the one of least time whose weights fit, found among the sets of regions that have no
layer in common, and for each by dynamic programming over time and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from .layers import Layer, Way, fold
from .machine import Machine
from .regions import Region

MOST_REGIONS = 10  # of which every set is tried; of more, all that go together


@dataclass(frozen=True)
class Work:
    """Numbers of one call: of each layer, the rows that it computes, the bytes of its
    result; of each region, the operations between its layers, the bytes of its sums."""

    tokens: Mapping[Layer, int]
    result_bytes: Mapping[Layer, int]
    between: Mapping[int, float]  # by id() of the region
    held_besides: float = 0.0  # bytes that each device holds of what no layer has
    flops_besides: float = 0.0  # operations that belong to no layer and no region
    sums: Mapping[int, Sequence[float]] = field(default_factory=dict)  # by id(), too


@dataclass(frozen=True)
class Choice:
    """What one set of layers might do: its price, and what each device holds."""

    seconds: float
    held: int
    ways: tuple[tuple[Layer, Way], ...]
    regions: tuple[Region, ...] = ()


@dataclass(frozen=True)
class Sharing:
    """A way for each layer, its seconds for a call and bytes on each device."""

    degree: int
    seconds: float
    held: float
    ways: Mapping[Layer, Way]
    regions: tuple[Region, ...]

    def exchanges(self) -> dict[str, int]:
        """How many collectives of each sort a call makes."""
        added = sum(len(region.sums) for region in self.regions)
        found: dict[str, int] = {"sum": added} if added and self.degree > 1 else {}
        for way in self.ways.values():
            if way.exchange and self.degree > 1:
                found[way.exchange] = found.get(way.exchange, 0) + 1
        return found


def layer_seconds(
    layer: Layer, way: Way, degree: int, work: Work, machine: Machine
) -> float:
    """Of a call of a layer, with the exchange behind it."""
    share = 1 if way is Way.WHOLE else degree
    held, size = layer.held(way, degree), work.result_bytes[layer]
    flops = 2.0 * work.tokens[layer] * layer.rows * layer.columns / share
    if layer.looks_up:
        flops, held = 0.0, size
    seconds = machine.compute(flops, held)
    if way.exchange == "sum":
        seconds += machine.sum(size, degree)
    if way.exchange == "gather":
        seconds += machine.gather(size, degree)
    return seconds


def share(
    layers: Sequence[Layer],
    regions: Sequence[Region],
    degree: int,
    work: Work,
    machine: Machine,
    tied: Sequence[frozenset[Layer]] = (),
    given: Mapping[Layer, Way] | None = None,
) -> list[Sharing]:
    """The plan of least time for each set of regions that fits in memory, best first.

    None fits where the list is empty. Layers of `tied` share a matrix, so that all of
    them are whole, or none. Where `given`, those layers
    are cut so, and no others: GATHERED are columns, in a region or not.
    """
    groups = _alike([r for r in regions if _is_given(r, given)], degree)
    found = []
    for chosen in _compatible(groups):
        taken = [region for group in chosen for region in group]
        inside = {layer for region in taken for layer in region.layers}
        if any(inside & tie for tie in tied):
            continue
        rest = [layer for layer in layers if layer not in inside]
        choices = [[_cut(group, degree, work, machine)] for group in chosen] + [
            _alone(same, degree, work, machine, given)
            for same in _alike_layers(rest, tied, given)
        ]
        cut = {id(region) for region in taken}
        flops = work.flops_besides + sum(
            work.between.get(id(r), 0.0) for r in regions if id(r) not in cut
        )
        fixed = machine.compute(flops, 0.0)
        room = machine.memory - work.held_besides
        best = cheapest(choices, room)
        if best is not None:
            ways = {layer: way for choice in best for layer, way in choice.ways}
            held = work.held_besides + sum(choice.held for choice in best)
            seconds = fixed + sum(choice.seconds for choice in best)
            ordered = {layer: ways[layer] for layer in layers}
            found.append(Sharing(degree, seconds, held, ordered, tuple(taken)))
    return sorted(found, key=lambda s: (s.seconds, sum(s.exchanges().values()), s.held))


def _is_given(region: Region, given: Mapping[Layer, Way] | None) -> bool:
    return given is None or (
        all(given.get(x) is Way.GATHERED for x in region.columns if x.along is None)
        and all(given.get(x) is Way.ROWS for x in region.rows)
        and any(x in given for x in region.layers)
    )


def _alike(regions: Sequence[Region], degree: int) -> list[list[Region]]:
    """Regions that may be cut so often, those of a block and its copies together."""
    groups: dict[object, list[Region]] = {}
    for region in regions:
        if not region.blocked and region.parts % degree == 0 and degree > 1:
            key = fold(region.columns), fold(region.rows), region.parts
            groups.setdefault(key, []).append(region)
    return list(groups.values())


def _compatible(groups: Sequence[list[Region]]) -> Iterator[tuple[list[Region], ...]]:
    """Sets of groups without a common layer."""
    layers = [{x for region in group for x in region.layers} for group in groups]
    clash = {
        (i, j) for i, j in combinations(range(len(groups)), 2) if layers[i] & layers[j]
    }
    own = [len(set.union(*[set(r.layers) for r in g])) for g in groups]
    clash |= {
        (i, i)
        for i, group in enumerate(groups)
        if own[i] < sum(len(r.layers) for r in group)
    }
    usable = [i for i in range(len(groups)) if (i, i) not in clash]
    if len(usable) > MOST_REGIONS:
        kept: list[int] = []
        for i in usable:
            if not any((j, i) in clash for j in kept):
                kept.append(i)
        yield tuple(groups[i] for i in kept)
        yield ()
        return
    for count in range(len(usable), -1, -1):
        for chosen in combinations(usable, count):
            if not any(pair in clash for pair in combinations(chosen, 2)):
                yield tuple(groups[i] for i in chosen)


def _alike_layers(
    layers: Sequence[Layer],
    tied: Sequence[frozenset[Layer]],
    given: Mapping[Layer, Way] | None,
) -> list[list[Layer]]:
    groups: dict[object, list[Layer]] = {}
    for layer in layers:
        tie = next((i for i, tie in enumerate(tied) if layer in tie), None)
        key = fold([layer]) if tie is None else tie
        groups.setdefault((key, (given or {}).get(layer)), []).append(layer)
    return list(groups.values())


def _cut(group: Sequence[Region], degree: int, work: Work, machine: Machine) -> Choice:
    ways = [
        (layer, way if layer.along is None else Way.ALONG)
        for region in group
        for way, owned in ((Way.COLUMNS, region.columns), (Way.ROWS, region.rows))
        for layer in owned
    ]
    seconds = sum(layer_seconds(x, way, degree, work, machine) for x, way in ways)
    between = sum(work.between.get(id(region), 0.0) for region in group)
    seconds += machine.compute(between / degree, 0.0)
    added = (size for region in group for size in work.sums.get(id(region), ()))
    seconds += sum(machine.sum(size, degree) for size in added)
    held = sum(layer.held(way, degree) for layer, way in ways)
    return Choice(seconds, held, tuple(ways), tuple(group))


def _alone(
    layers: Sequence[Layer],
    degree: int,
    work: Work,
    machine: Machine,
    given: Mapping[Layer, Way] | None,
) -> list[Choice]:
    found = []
    for index in range(len(layers[0].ways) if degree > 1 else 1):
        ways = tuple((layer, layer.ways[index]) for layer in layers)
        if given is not None and any(given.get(x, Way.WHOLE) != w for x, w in ways):
            continue
        sizes = [x.rows if x.looks_up else x.columns for x in layers]
        if index and any(size % degree for size in sizes):
            continue
        seconds = sum(layer_seconds(x, way, degree, work, machine) for x, way in ways)
        # A matrix that several layers share is held once.
        stored = {layer.stored: layer.held(way, degree) for layer, way in ways}
        found.append(Choice(seconds, sum(stored.values()), ways))
    return found


def cheapest(choices: Sequence[Sequence[Choice]], room: float) -> list[Choice] | None:
    """One of each list, of least time within `room` bytes; None if none fits.

    Only what no other beats in both time and bytes is carried on, so that the answer
    is exact.
    """
    front: list[tuple[float, int, list[Choice]]] = [(0.0, 0, [])]
    for options in choices:
        grown = sorted(
            (
                (seconds + option.seconds, held + option.held, [*path, option])
                for seconds, held, path in front
                for option in options
            ),
            key=lambda found: found[:2],
        )
        front, least = [], float("inf")
        for found in grown:
            if found[1] < least and found[1] <= room:
                front.append(found)
                least = found[1]
        if not front:
            return None
    return front[0][2]
