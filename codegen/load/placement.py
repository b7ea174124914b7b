"""On which devices an annotated file has its nodes and tensors run."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import onnx

from .validate_tensors import nodes_of

MOST = 1 << 16  # shards, or stages


@dataclass(frozen=True)
class Placed:
    """Of a node: its stage, and of inputs by place the axis and number of shards."""

    stage: int | None = None
    cuts: dict[int, tuple[int, int]] = field(default_factory=dict)


def take_placement(proto: onnx.ModelProto) -> dict[str, Placed]:
    """What the first configuration says, by the first output of each node; taken out,
    as those devices are not the ones that run this. What it says is not checked."""
    name = proto.configuration[0].name if proto.configuration else ""
    found = {}
    for node in proto.graph.node:
        for placed in node.device_configurations:
            own = placed.configuration_id
            if node.output and (not own or name in ("", own)):
                found[node.output[0]] = _placed(node, placed)
                break
    proto.ClearField("configuration")
    for body in [proto.graph.node, *(f.node for f in proto.functions)]:
        for node in nodes_of(body):
            node.ClearField("device_configurations")
    return found


def _placed(node: onnx.NodeProto, placed: onnx.NodeDeviceConfigurationProto) -> Placed:
    stage = placed.pipeline_stage if placed.HasField("pipeline_stage") else None
    cuts = {}
    for spec in placed.sharding_spec:
        for dim in spec.sharded_dim:
            shards = prod(x.num_shards for x in dim.simple_sharding)
            for place, name in enumerate(node.input):
                if name == spec.tensor_name and 1 < shards <= MOST:
                    cuts[place] = dim.axis, shards
    return Placed(stage, cuts)
