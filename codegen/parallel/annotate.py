"""ONNX's own annotations of devices: read as a plan, and written of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx
import onnx_ir as ir

from ...analysis.errors import FairhandError
from ...analysis.literals import one_line
from ...analysis.partition.layers import Layer, Way
from ...analysis.partition.regions import site_cuts
from ...analysis.partition.request import Degrees
from ..load.placement import Placed
from .network import Network
from .plan import Given, Plan, cuts_of, parts_of

ANNOTATED = "annotated"
_IR_VERSION = 11  # the first that has them


def read_given(network: Network, placed: Mapping[str, Placed]) -> Given:
    """The plan that the file has: layers by how their matrices are cut, stages, and
    inputs that are cut along their first axis. Raises FairhandError where it has none,
    or one that can't be carried out."""
    cut: dict[Layer, Way] = {}
    shards: set[int] = set()
    for layer in network.layers:
        for node in layer.nodes:
            own = placed.get(node.outputs[0].name or "", Placed())
            for index, (axis, count) in own.cuts.items():
                value = node.inputs[index] if index < len(node.inputs) else None
                if value is not None and value.const_value is not None:
                    shards.add(count)
                    cut[layer] = _way(network, layer, node, index, axis)
    rows = {
        count
        for node in network.graph
        for index, (axis, count) in placed.get(_name(node), Placed()).cuts.items()
        if axis == 0
        for value in node.inputs[index : index + 1]
        if value is not None and value.is_graph_input()
    }
    starts = _starts(network, placed)
    if len(shards) > 1 or len(rows) > 1:
        raise FairhandError(f"the file cuts into {sorted(shards | rows)} at once")
    degrees = Degrees(len(starts) + 1, max({1, *rows}), max({1, *shards}))
    if degrees.world == 1:
        hint = "give tp=2, pp=2, dp=2,tp=2 or a number of devices"
        raise FairhandError("the file has no plan for several devices", hint=hint)
    return Given(degrees, cut, starts)


def _name(node: ir.Node) -> str:
    return node.outputs[0].name or ""


def _way(network: Network, layer: Layer, node: ir.Node, index: int, axis: int) -> Way:
    """Columns in a region or not are GATHERED here, as `share` takes them."""
    for way in (Way.VOCABULARY,) if layer.looks_up else (Way.GATHERED, Way.ROWS):
        for place in _places(network, node, way):
            if place in ((index, axis), (index, axis + 2)):
                return way
    what = f"{layer.path} can't be cut along axis {axis} of input {index}"
    raise FairhandError(f"the file's plan: {what}")


def _places(network: Network, node: ir.Node, way: Way) -> Iterator[tuple[int, int]]:
    """The constants that are cut then, by the laws of their node, and along which
    axes: a matrix, and what has an element for each column."""
    constants = [i for i, v in enumerate(node.inputs) if v and v.const_value]
    if way is Way.VOCABULARY:
        yield from ((i, 0) for i in constants)
        return
    rank = network.shapes.rank(node.outputs[0]) or 1
    wanted = None if way is Way.ROWS else rank - 1
    for law in site_cuts(node, network.shapes, sums=way is Way.ROWS):
        if law.outputs == (wanted,) and law.pieces == law.made == 1:
            for i in constants:
                if i < len(law.inputs) and (axis := law.inputs[i]) is not None:
                    yield i, axis


def _starts(network: Network, placed: Mapping[str, Placed]) -> tuple[int, ...]:
    starts: list[int] = []
    for i, unit in enumerate(network.units):
        found = {placed[n].stage for n in map(_name, unit.nodes) if n in placed}
        found -= {None, len(starts)}
        if not found:
            continue
        reason = unit.reason or "stages begin at modules that take all that crosses"
        if found != {len(starts) + 1} or i == 0:
            reason = f"it is of stage {min(map(str, found))}, behind {len(starts)}"
        if found != {len(starts) + 1} or unit.crossing is None:
            what = f"the file's plan: no stage can begin at {unit.path}"
            raise FairhandError(what, hint=reason)
        starts.append(i)
    return tuple(starts)


def annotate(source: Path, out: Path, network: Network, plan: Plan) -> None:
    """Write the model of a file with a plan. Raises FairhandError where that can't be
    said of its nodes."""
    proto = onnx.load(str(source), load_external_data=False)
    if plan.degrees.each:
        raise FairhandError("a plan is noted with one degree of tp, not with several")
    outside = any(x.external_data for x in proto.graph.initializer)
    if out.resolve() == source.resolve() or (
        outside and out.resolve().parent != source.resolve().parent
    ):
        what = f"{out} would {'replace' if out == source else 'lose the data of'} it"
        raise FairhandError(what, hint=f"give another file beside {source}")
    nodes = {node.output[0]: node for node in proto.graph.node if node.output}
    for node in nodes.values():
        node.ClearField("device_configurations")
    del proto.configuration[:]
    proto.configuration.add(name=str(plan.degrees), num_devices=plan.degrees.world)
    proto.ir_version = max(proto.ir_version, _IR_VERSION)
    for layer in cuts_of(plan.sharing) if plan.degrees.tp > 1 else ():
        _note_layer(nodes, network, plan, layer)
    if plan.degrees.dp > 1:
        inputs = {value.name for value in network.graph.inputs}
        for node in nodes.values():
            for name in inputs.intersection(node.input):
                _note_cut(_of(node, plan), name or "", 0, plan.degrees.dp)
    if plan.degrees.pp > 1:
        _note_stages(proto.graph, network, plan)
    onnx.save(proto, str(out))


def _note_layer(
    nodes: Mapping[str, onnx.NodeProto], network: Network, plan: Plan, layer: Layer
) -> None:
    pieces, way = cuts_of(plan.sharing)[layer][1], plan.sharing.ways[layer]
    noted = False
    if not isinstance(pieces, int):
        what = f"{one_line(layer.path, 60)} is cut in pieces of several sizes"
        raise FairhandError(f"{what}, which can't be noted in a file")
    for node in layer.nodes:
        found = nodes.get(_name(node))
        if found is not None and found.op_type == node.op_type:
            for index, axis in dict(_places(network, node, way)).items():
                cut = axis, plan.degrees.tp, pieces
                _note_cut(_of(found, plan), found.input[index], *cut)
                noted = True
    if not noted:
        what = f"{one_line(layer.path, 60)} is no node of the file, so that its cut"
        raise FairhandError(f"{what} can't be noted there")


def _of(node: onnx.NodeProto, plan: Plan) -> onnx.NodeDeviceConfigurationProto:
    if not node.device_configurations:
        node.device_configurations.add(configuration_id=str(plan.degrees))
    return node.device_configurations[0]


def _note_cut(
    placed: onnx.NodeDeviceConfigurationProto,
    name: str,
    axis: int,
    shards: int,
    pieces: int = 1,
) -> None:
    """Of `pieces` that lie side by side, each is cut."""
    dim = placed.sharding_spec.add(tensor_name=name).sharded_dim.add(axis=axis)
    if pieces > 1:
        dim.simple_sharding.add(dim_value=pieces, num_shards=1)
    dim.simple_sharding.add(num_shards=shards)


def _note_stages(graph: onnx.GraphProto, network: Network, plan: Plan) -> None:
    """Nodes that are in no unit run where what they take is made."""
    stages = {
        _name(node): number
        for number, part in enumerate(parts_of(network.units, plan.starts))
        for unit in part
        for node in unit.nodes
    }
    for node in graph.node:
        before = (stages[name] for name in node.input if name in stages)
        number = stages.get(node.output[0], max(before, default=0))
        stages.update(dict.fromkeys(node.output, number))
        _of(node, plan).pipeline_stage = number
