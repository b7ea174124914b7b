"""What a plan claims of each operator, for `fairhand check`: how its inputs and results
are cut, and where something is exchanged."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ...analysis.graph.constants import is_constant
from ...analysis.graph.dims import Dims
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.ops.facts.cuts import Cut, Pieces
from ...analysis.partition.batch import Place
from ...analysis.partition.layers import Layer, Way
from ...analysis.partition.regions import Region, known_by_sizes, site_cuts
from .network import Network
from .plan import Plan, cuts_of, parts_of, results_of

# An axis, [axis, pieces], or [axis, pieces, component], of which elements count places;
# pieces of several sizes are a list of them, and below 0 is the size of each. Of an
# input "once", "sizes" (those of the part's result), "words"; of a result "sum".
Claimed = int | list[Any] | str | None


def certificate(network: Network, plan: Plan) -> dict[str, Any]:
    """The claims as JSON. Values are named as in the graph that was written."""
    shapes, layers = network.shapes, plan.sharing.ways if plan.degrees.tp > 1 else {}
    cuts = cuts_of(plan.sharing) if layers else {}
    claims: dict[str, Any] = {}
    exchanges: dict[str, str] = {}
    for region in plan.sharing.regions if plan.degrees.tp > 1 else ():
        claims |= _region_claims(region, shapes)
        exchanges |= {node.outputs[0].name or "": "sum" for node in region.sums}
    for layer, (_, pieces) in cuts.items():
        claims |= _layer_claims(layer, layers[layer], pieces, shapes)
    for layer, way in layers.items():
        if way.exchange == "sum":
            results = (node.outputs[0].name or "" for node in layer.nodes)
            (summed,) = (x for x in results if claims.get(x, [[], []])[1] == ["sum"])
            exchanges[summed] = "sum"
        elif way.exchange:
            exchanges[layer.result.name or ""] = "gather"
    ties = {k: key for k, key in network.aliases.items() if k != key}
    found: dict[str, Any] = {"degrees": plan.degrees.mesh, "ties": ties}
    if plan.degrees.tp > 1:
        found["layers"] = {
            x.path: [way, _listed(pieces), x.matrix]
            for x, (way, pieces) in cuts.items()
        }
        found |= {"cuts": claims, "exchanges": exchanges}
        found["parts"] = {
            value.name: axis
            for region in plan.sharing.regions
            for value, axis in region.caches.items()
        }
    if plan.degrees.dp > 1 or plan.batches > 1:
        found["rows"] = {
            node.outputs[0].name: [[_plain(p) for p in side] for side in claim]
            for node, claim in network.rows.claims.items()
        }
    if plan.degrees.pp > 1:
        steps = network.compiled.classes.root.call.steps()
        done = {node for step in steps for node in step.work()}
        found["same"] = [
            node.outputs[0].name
            for node in network.graph
            if node not in done and not known_by_sizes(node, shapes)
        ]
        found["units"] = {
            unit.path: [node.outputs[0].name for node in dict.fromkeys(unit.nodes)]
            for unit in network.units
        }
        parts = parts_of(network.units, plan.starts)
        found["stages"] = [[unit.path for unit in part] for part in parts]
        found["results"] = results_of(network, plan.starts)
        found["crossing"] = [
            {
                str(place): value.name
                for place, value in zip(unit.crossing or (), unit.crossed, strict=True)
            }
            for unit in (network.units[i] for i in plan.starts)
        ]
    return found


def _plain(place: Place | None) -> Claimed:
    if place is None:
        return None
    if place.counted is not None:
        return [place.axis, place.pieces, place.counted]
    return place.axis if place.pieces == 1 else [place.axis, place.pieces]


def _axis(axis: int | None, pieces: Pieces) -> Claimed:
    return axis if axis is None or pieces == 1 else [axis, _listed(pieces)]


def _listed(pieces: Pieces) -> int | list[int]:
    return pieces if isinstance(pieces, int) else list(pieces)


def _claim(
    node: ir.Node, cut: Cut, shapes: ShapeFacts, pieces: Pieces = 1, made: Pieces = 1
) -> dict[str, Any]:
    given: list[Claimed] = [_axis(axis, pieces) for axis in cut.inputs]
    for place in range(1, len(given)):
        value = node.inputs[place]
        if (
            given[place] is None
            and value is not None
            and _is_sizes(node, value, shapes)
        ):
            given[place] = "sizes"
        if place in cut.once:
            given[place] = "once"
    results = ["sum"] if cut.sums else [_axis(axis, made) for axis in cut.outputs]
    return {node.outputs[0].name or "": [given, results]}


def _is_sizes(node: ir.Node, value: ir.Value, shapes: ShapeFacts) -> bool:
    """Whether an input has the sizes of what the node gives."""
    content = shapes.content(value)
    if content is None or content.ndim != 1:
        return False
    made = [shapes.dims(result) for result in node.outputs]
    wanted: list[Dims | None] = [made[0]]
    if len(made) > 1 and None not in made:
        count = len(made[0] or ())
        wanted = [tuple((dims or ())[a] for dims in made) for a in range(count)]
    return any(
        sizes is not None
        and len(sizes) == len(content)
        and all(n == m or n in (0, -1) for n, m in zip(content, sizes, strict=True))
        for sizes in wanted
    )


def _region_claims(region: Region, shapes: ShapeFacts) -> dict[str, Any]:
    claims: dict[str, Any] = {}
    for node, cut in (*region.steps.items(), *region.sums.items()):
        claims |= _claim(node, cut, shapes, cut.pieces, cut.made)
    return claims


def _layer_claims(
    layer: Layer, way: Way, pieces: Pieces, shapes: ShapeFacts
) -> dict[str, Any]:
    """Columns up to the layer's result, or the sum of what rows or words give."""
    claims: dict[str, Any] = {}
    cut: dict[ir.Value, int] = {}
    if way is Way.ROWS:
        cut[layer.source] = (shapes.rank(layer.source) or 1) - 1
    for node in layer.nodes:
        result = node.outputs[0]
        if way is Way.VOCABULARY:
            return {result.name or "": [[0, "words"], ["sum"]]}
        last = None if way is Way.ROWS else (shapes.rank(result) or 1) - 1
        law = next(
            law
            for law in site_cuts(node, shapes, sums=way is Way.ROWS)
            if law.outputs == (last,)
            and law.pieces == law.made == 1
            and all(
                axis == cut.get(value)
                for value, axis in zip(node.inputs, law.inputs, strict=False)
                if value is not None and not is_constant(value)
            )
        )
        claims |= _claim(node, law, shapes, pieces, pieces)
        for value, axis in zip(node.inputs, law.inputs, strict=False):
            if axis is not None and value not in cut:
                claims |= _turned_claims(value, axis, shapes)
        if last is None:
            return claims
        cut[result] = last
    return claims


def _turned_claims(
    value: ir.Value | None, axis: int | None, shapes: ShapeFacts
) -> dict[str, Any]:
    """Of what turns a weight that stays as it is, as one that is tied to another's."""
    claims: dict[str, Any] = {}
    while node := value and value.producer():
        law = next(x for x in site_cuts(node, shapes) if x.outputs == (axis,))
        claims |= _claim(node, law, shapes)
        value, axis = node.inputs[0], law.inputs[0]
    return claims
