"""Where a cut may go on: from columns of some layers to rows of others.

A region begins where layers compute columns, goes on through operators that may be cut
along the axis at hand (OpDef.cut), and ends in layers that take rows: query, key and
value up to the output's projection, or the layers of an MLP. Within it no device needs
anything of another.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ..graph.dims import Dims
from ..graph.shape_facts import NodeFacts, ShapeFacts
from ..literals import one_line
from ..ops import lookup
from ..ops.facts import cuts
from ..ops.facts.cuts import Cut, Pieces, shares
from .layers import Layer


@dataclass
class Region:
    """`columns` to `rows`; `parts` is what a degree has to divide.

    `cut` has the axis and pieces of each value, `steps` the cut of each node between,
    `sums` those that add up what is cut, as rows do; `pieces` is in what pieces a joint
    product is used; `caches` are what the network takes and gives of it in parts;
    `blocked` says why there is no region after all.
    """

    columns: list[Layer]
    rows: list[Layer] = field(default_factory=list)
    parts: int = 0
    cut: dict[ir.Value, tuple[int, Pieces]] = field(default_factory=dict)
    steps: dict[ir.Node, Cut] = field(default_factory=dict)
    sums: dict[ir.Node, Cut] = field(default_factory=dict)
    pieces: dict[Layer, Pieces] = field(default_factory=dict)
    caches: dict[ir.Value, int] = field(default_factory=dict)
    blocked: str = ""

    @property
    def layers(self) -> list[Layer]:
        """All of them."""
        return [*self.columns, *self.rows]


def site_cuts(node: ir.Node, shapes: ShapeFacts, sums: bool = False) -> list[Cut]:
    """The cuts of a node, or those whose results add up; none of an operator of which
    nothing is said."""
    rule = _rule(node)
    results: list[Dims | None] = [shapes.dims(value) for value in node.outputs]
    site = NodeFacts(node, shapes)
    found = (site.ask(rule, results) if rule is not None else None) or []
    return [cut for cut in found if cut.sums == sums]


def known_by_sizes(node: ir.Node, shapes: ShapeFacts) -> bool:
    """Whether all that a node gives hangs on sizes alone."""
    return all(shapes.content(value) is not None for value in node.outputs)


def find_regions(layers: Sequence[Layer], shapes: ShapeFacts) -> list[Region]:
    """All of them, by their first layers; those that are blocked say why."""
    owners = {node: layer for layer in layers for node in layer.nodes}
    grown = [_grow(x, owners, shapes) for x in layers if not x.looks_up]
    joined = list(_joined([region for region in grown if not region.blocked]))
    for region in joined:
        if region.columns[0].along is not None and region.rows:
            region.blocked = "what it is used with is whole"
        _check_others(region)
        _keep_caches(region, shapes)
    return [*joined, *(region for region in grown if region.blocked)]


def _grow(seed: Layer, owners: dict[ir.Node, Layer], shapes: ShapeFacts) -> Region:
    """From the columns of one layer onwards, until rows take them all: in one piece, or
    in such as lead there."""
    rank = shapes.rank(seed.result)
    if not rank:
        return Region([seed], blocked="its result's rank is not known")
    begin = rank - 1 if seed.along is None else seed.along
    grown = []
    for pieces in _pieces(seed.result, begin, owners, shapes):
        grown.append(_grown(seed, begin, pieces, owners, shapes))
        if not grown[-1].blocked:
            return grown[-1]
    return grown[0]


def _grown(
    seed: Layer,
    begin: int,
    pieces: Pieces,
    owners: dict[ir.Node, Layer],
    shapes: ShapeFacts,
) -> Region:
    region = Region([seed])
    region.pieces[seed], region.parts = pieces, seed.columns // sum(shares(pieces))
    region.cut[seed.result] = begin, pieces
    # The nearest first: a norm blocks sooner than the sums of all blocks behind it.
    todo = deque[tuple[ir.Value, int, Pieces]]([(seed.result, begin, pieces)])
    while todo and not region.blocked:
        value, axis, held = todo.popleft()
        for node in dict.fromkeys(node for node, _ in value.uses()):
            layer = owners.get(node)
            if layer is not None:
                last = axis == (shapes.rank(value) or 0) - 1
                joint = held != 1
                if layer.source is not value or not last or joint or layer.looks_up:
                    region.blocked = f"{layer.path} needs all of its input"
                elif layer not in region.rows:
                    region.rows.append(layer)
                    region.parts = math.gcd(region.parts, layer.rows)
                continue
            if known_by_sizes(node, shapes):
                continue  # whole on all devices, whatever is cut
            step = _step(node, value, axis, held, shapes)
            if step is None and seed.along is not None and _rule(node) is cuts.adds:
                added = _step(node, value, axis, held, shapes, sums=True)
                region.sums |= {} if added is None else {node: added}
            if node in region.sums:
                continue
            if step is None or not isinstance(step.parts, int):
                region.blocked = f"{_label(node)} needs all of what {seed.path} gives"
                break
            region.steps[node] = step
            region.parts = math.gcd(region.parts, step.parts)
            for result, new in zip(node.outputs, step.outputs, strict=True):
                if new is not None and result not in region.cut:
                    region.cut[result] = new, step.made
                    todo.append((result, new, step.made))
    if not region.rows and not region.sums and not region.blocked:
        region.blocked = "nothing takes its result"
    return region


def _pieces(
    value: ir.Value, axis: int, owners: dict[ir.Node, Layer], shapes: ShapeFacts
) -> list[Pieces]:
    """In what pieces a value may be used; 1 is as a whole."""
    found: list[Pieces] = [
        cut.pieces
        for node, _ in value.uses()
        for cut in ([] if node in owners else site_cuts(node, shapes))
        if cut.inputs[0] == axis and shares(cut.pieces)
    ]
    return sorted(set(found) or {1}, key=shares)


def _step(
    node: ir.Node,
    value: ir.Value,
    axis: int,
    pieces: Pieces,
    shapes: ShapeFacts,
    sums: bool = False,
) -> Cut | None:
    """The cut of a node along an axis of an input, which has such pieces."""
    for cut in site_cuts(node, shapes, sums):
        places = [i for i, other in enumerate(node.inputs) if other is value]
        if any(cut.inputs[i] != axis for i in places):
            continue
        if cut.pieces == pieces:
            return cut
        if keeps_pieces(node, cut, shapes):  # these say how often it can be cut
            return replace(cut, parts=0, pieces=pieces, made=pieces)
    return None


def keeps_pieces(node: ir.Node, law: Cut, shapes: ShapeFacts) -> bool:
    """Whether what is cut stays one axis, so that pieces of it stay, too."""
    sides = (node.inputs, law.inputs), (node.outputs, law.outputs)
    sizes = {
        (shapes.dims(value) or ())[axis]
        for side in sides
        for value, axis in zip(*side, strict=False)
        if value is not None and axis is not None
    }
    return law.pieces == law.made == 1 and len(sizes) == 1


def _joined(regions: Sequence[Region]) -> Iterator[Region]:
    """Those that meet, in a value or in a layer that takes rows, are one. A tensor that
    would keep others from being cut stays whole."""
    left = list(regions)
    while left:
        one = left.pop(0)
        while met := [other for other in left if _meet(one, other)]:
            for other in met:
                left.remove(other)
                both = _union(one, other)
                if other.columns[0].along is None or (
                    not both.blocked and both.parts == one.parts
                ):
                    one = both
                else:
                    other.blocked = both.blocked or "others are cut in more parts"
                    yield other
        yield one


def _meet(a: Region, b: Region) -> bool:
    steps, ends = (a.steps | a.sums).keys(), (b.steps | b.sums).keys()
    return not set(a.rows).isdisjoint(b.rows) or not steps.isdisjoint(ends)


def _union(a: Region, b: Region) -> Region:
    rows = list(dict.fromkeys([*a.rows, *b.rows]))
    both = Region([*a.columns, *b.columns], rows, math.gcd(a.parts, b.parts))
    both.cut, both.steps = a.cut | b.cut, a.steps | b.steps
    both.sums = a.sums | b.sums
    both.pieces = a.pieces | b.pieces
    same = all(a.steps[n] == b.steps[n] for n in a.steps.keys() & b.steps.keys())
    if not same or any(a.cut[v] != b.cut[v] for v in a.cut.keys() & b.cut.keys()):
        both.blocked = f"{a.columns[0].path} and {b.columns[0].path} need other cuts"
    if not both.steps.keys().isdisjoint(both.sums):
        both.blocked = f"{a.columns[0].path} would be added up, and used before"
    if not set(both.columns).isdisjoint(rows):
        both.blocked = "a layer would give columns and take rows"
    return both


_SPREAD = (cuts.elementwise, cuts.attention, cuts.matmul, cuts.concat)


def _check_others(region: Region) -> None:
    """What else a node takes is cut likewise, or whole on all devices, of which each
    takes its part: DTensor does so for these operators, devices.py for masks."""
    for node, step in region.steps.items():
        spread = _rule(node) in _SPREAD
        for value, axis in zip(node.inputs, step.inputs, strict=False):
            if value is None:
                continue
            held = region.cut.get(value)
            given = value.is_graph_input() or value.const_value is not None
            if held is not None and held != (axis, step.pieces):
                region.blocked = f"{_label(node)} needs all of {_name(value)}"
            own = (spread or given) and isinstance(step.pieces, int)
            if held is None and axis is not None and not own:
                region.blocked = f"{_label(node)} takes {_name(value)}, which is whole"


def _keep_caches(region: Region, shapes: ShapeFacts) -> None:
    """A result that is cut stays in parts where an input is its like, as caches are:
    cut along the same axis, of sizes that differ along one other at most."""
    given = {v: place for v, place in region.cut.items() if v.is_graph_output()}
    taken = {
        value: (axis, step.pieces)
        for node, step in region.steps.items()
        for value, axis in zip(node.inputs, step.inputs, strict=False)
        if value is not None and value.is_graph_input() and axis is not None
    }
    for result, place in given.items():
        same = [x for x, other in taken.items() if other == place and place[1] == 1]
        like = [x for x in same if _alike(x, result, shapes)]
        if not like:
            region.blocked = f"{_name(result)} is an output of the network"
        for value in like:
            users = {node for node, _ in value.uses()} - region.steps.keys()
            if not all(known_by_sizes(node, shapes) for node in users):
                region.blocked = f"{_name(value)} is read elsewhere, too"
        region.caches |= dict.fromkeys([result, *like], place[0])


def _alike(a: ir.Value, b: ir.Value, shapes: ShapeFacts) -> bool:
    one, other = shapes.dims(a), shapes.dims(b)
    if one is None or other is None or len(one) != len(other) or a.dtype != b.dtype:
        return False
    return sum(bool(n != m) for n, m in zip(one, other, strict=True)) <= 1


def _rule(node: ir.Node) -> cuts.Rule | None:
    op = lookup(node)
    return None if op is None else op.cut


def _label(node: ir.Node) -> str:
    return one_line(f"{node.op_type} {node.name or _name(node.outputs[0])}", 60)


def _name(value: ir.Value) -> str:
    return one_line(value.name or "?", 40)


def degrees(
    regions: Iterable[Region], tables: Iterable[Layer] = (), most: int = 1024
) -> list[int]:
    """Into how many parts all regions that may be cut at all can be, from 2 on, or
    tables where there are none; where there is no such number, some of them."""
    usable = [r for r in regions if not r.blocked and r.parts > 1]
    counts = [r.parts for r in usable if r.rows] or [r.parts for r in usable]
    counts = counts or [x.rows for x in tables]
    common = math.gcd(*counts)
    if common == 1:
        return sorted({n for count in counts for n in _divisors(count, most)})
    return _divisors(common, most)


def _divisors(count: int, most: int) -> list[int]:
    return [n for n in range(2, min(count, most) + 1) if count % n == 0]
