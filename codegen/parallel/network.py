"""All of a compiled network that a plan for several devices hangs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import onnx_ir as ir

from ...analysis.cost.graph_cost import flops
from ...analysis.cost.typical_sizes import BATCH, Sizes
from ...analysis.graph.dims import product
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.partition.batch import Rows
from ...analysis.partition.layers import Layer
from ...analysis.partition.regions import Region, degrees, find_regions
from ...analysis.partition.search import Work
from ...analysis.shapes.one_batch import batch_sizes
from ..plan.make_plan import CompiledModel
from .tree import Paths, Unit, divide_tree, has_blocks, layers_of, tensors_of


@dataclass
class Network:
    """`layers` with their `regions`, `units` for stages, and amounts of work."""

    compiled: CompiledModel
    layers: list[Layer]
    regions: list[Region]
    units: list[Unit]
    held: dict[str, int]  # bytes of each tensor, by its key
    sizes: Sizes
    tried: dict[str, int] = field(default_factory=dict)  # the sizes of --check
    refused: str = ""  # why no plan can be made of it at all
    _flops: dict[ir.Node, float] = field(default_factory=dict)

    @property
    def shapes(self) -> ShapeFacts:
        """Of the rewritten graph."""
        return self.compiled.rewriting.shapes

    @property
    def graph(self) -> ir.Graph:
        """That was rewritten."""
        return self.compiled.graph.graph

    @cached_property
    def rows(self) -> Rows:
        """How a batch is divided, or why it can't be."""
        return Rows(self.compiled.graph, self.shapes)

    @cached_property
    def batch(self) -> list[str]:
        """The names of the sizes that are the batch's."""
        return sorted(size.name for size in batch_sizes(self.graph, self.shapes))

    @cached_property
    def degrees(self) -> list[int]:
        """Into how many parts its layers can be cut."""
        return degrees(self.regions, self.tables)

    @cached_property
    def tables(self) -> list[Layer]:
        """Those that share their matrix with no other layer: they can be cut alone."""
        tied = {layer for tie in self.ties for layer in tie}
        return [x for x in self.layers if x.looks_up and x not in tied]

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The key under which a tensor is stored that others share, by its names."""
        ties = self.compiled.plan.state.ties
        return {key: keys[0] for keys in ties for key in keys}

    @cached_property
    def by_path(self) -> dict[str, Layer]:
        """The layers by their paths: that which runs last, of several calls of one."""
        return {layer.path: layer for layer in self.layers}

    @cached_property
    def tensors(self) -> dict[str, list[str]]:
        """The names of the tensors of each unit; under "" those that are in none."""
        found: dict[str, list[str]] = {"": []}
        for name in dict.fromkeys([*self.held, *self.aliases]):
            found.setdefault(self.unit_of(name), []).append(name)
        return found

    @cached_property
    def _paths(self) -> set[str]:
        return {unit.path for unit in self.units}

    def unit_of(self, name: str) -> str:
        """The path of the unit that a layer or tensor is in; "" for none."""
        parts = name.split(".")
        ahead = (".".join(parts[:i]) for i in range(1, len(parts) + 1))
        return next((path for path in ahead if path in self._paths), "")

    @cached_property
    def ties(self) -> list[frozenset[Layer]]:
        """Layers that share a matrix."""
        groups: dict[str, set[Layer]] = {}
        for layer in self.layers:
            groups.setdefault(layer.stored, set()).add(layer)
        return [frozenset(group) for group in groups.values() if len(group) > 1]

    def node_flops(self, node: ir.Node) -> float:
        """Operations of a node; 0 where they aren't known."""
        if node not in self._flops:
            count = flops(node, self.shapes)
            self._flops[node] = 0.0 if count is None else self.sizes.number(count)
        return self._flops[node]

    @cached_property
    def work(self) -> Work:
        """Numbers of one call."""
        tokens, results = {}, {}
        for layer in self.layers:
            dims = self.sizes.dims(layer.source) or (1,)
            tokens[layer] = int(product(dims if layer.looks_up else dims[:-1]))
            results[layer] = self.sizes.bytes(layer.result)
        between = {
            id(region): sum(map(self.node_flops, region.steps))
            for region in self.regions
        }
        sums = {
            id(region): [self.sizes.bytes(node.outputs[0]) for node in region.sums]
            for region in self.regions
        }
        own = {node for layer in self.layers for node in layer.nodes}
        own |= {node for region in self.regions for node in region.steps}
        rest = sum(self.node_flops(node) for node in self.graph if node not in own)
        layered = {layer.path for layer in self.layers}
        besides = sum(
            size
            for key, size in self.held.items()
            if layered.isdisjoint((key, key.rpartition(".")[0]))
        )
        return Work(tokens, results, between, float(besides), rest, sums)


def read_network(compiled: CompiledModel, rows: int | None = None) -> Network:
    """What a plan hangs on, of a compiled network; `rows` are those of a batch."""
    classes, plan, shapes = compiled.classes, compiled.plan, compiled.rewriting.shapes
    paths = Paths(classes)
    layers = layers_of(classes.root.call, paths, plan.state.ties)
    sizes = Sizes(shapes)
    for size in batch_sizes(compiled.graph.graph, shapes):
        sizes.taken[size.name] = BATCH if rows is None else rows
    held = {weight.key: weight.array().nbytes for weight in compiled.weights}
    tensors = tensors_of(compiled.weights)
    regions = find_regions([*layers, *tensors], shapes)
    cut = {x for region in regions if not region.blocked for x in region.columns}
    layers += [tensor for tensor in tensors if tensor in cut]
    units = divide_tree(classes, paths, compiled.graph.graph.outputs)
    return Network(
        compiled, layers, regions, units, held, sizes, {}, _refused(compiled, layers)
    )


def _refused(compiled: CompiledModel, layers: Sequence[Layer]) -> str:
    plan = compiled.plan
    if plan.state.constants or plan.state.unwritten:
        return "its constants are read by its constructor: compile with -O1"
    if plan.lanes or plan.kernels:
        return "it has lanes or kernels"
    if has_blocks(compiled.classes.root.call):
        return "it has branches or loops"
    if any(
        "(" in t.dtype or t.dtype == "object" or t.shape is None
        for t in plan.interface.tensors
    ):
        return "it takes or gives what is no tensor"
    return ""
