"""One spelling per concept, whatever exporter and opset the model comes from.

Afterwards there are no functions, no Constant nodes and no nodes that do nothing;
every weight is an initializer and no input; every value and node has a name of its own;
nodes stand in an order in which they can be computed, the exporter's where it is one;
and every ai.onnx node is spelled as in opset 26. Names and metadata of nodes and
weights are those of the file: the names in the emitted code come from them.
"""

from __future__ import annotations

from contextlib import suppress

import onnx
import onnx_ir as ir

from ..analysis.graph.map_types import is_map, set_map_type
from ..analysis.graph.traversal import all_nodes, sort
from ..analysis.graph.weightless import skeleton
from ..analysis.ops.registry import OWN
from ..analysis.ops.trainable import mark_parameters
from ..analysis.ops.type_rules import known_to_onnx
from .adapters import (  # noqa: F401
    opset_experimental,
    opset_inputs,
    opset_legacy,
    opset_nn,
)
from .adapters.cleanup import (
    drop_default_inputs,
    drop_zeros,
    inline_functions,
    lift_constants,
    remember_version,
    remove_idle_nodes,
    remove_unused,
    settle_switches,
    slice_sequences,
    split_long,
    unused_opsets,
)
from .adapters.counted_loops import count_loops
from .adapters.function_operators import expand, expandable
from .adapters.opset_adapters import (
    ADAPTERS,
    EXTENSIONS,
    TARGET_OPSET,
    AdapterSite,
    adapter_of,
)
from .adapters.provenance import name_prepared, number_nodes, remember_origins
from .adapters.unique_names import UniqueNames, fix_names
from .folding.duplicate_constants import turn_back
from .lowering import load
from .lowering.by_type import lower

__all__ = ["ADAPTERS", "EXTENSIONS", "normalise"]


def normalise(model: ir.Model) -> ir.Model:
    """Bring `model`, which must have passed `load`, to one spelling; return it.

    Of other domains than ai.onnx, the nodes of ONNX Runtime's own that ONNX can spell
    become ONNX's; the rest stay. Raises Unsupported for a node that can't be brought to
    the newest opset.
    """
    for node in all_nodes(model.graph):
        load(node.domain, node.op_type)
    nodes = number_nodes(model)
    remember_version(model.graph, model.graph.opset_imports)
    inline_functions(model)
    settle_switches(model)
    if wanted := expandable(model):
        _infer_types(model)
        expand(model, wanted)
    drop_default_inputs(model)
    name_prepared(model)
    names = fix_names(model)
    remember_origins(model, nodes)
    lift_constants(model)
    drop_zeros(model)
    sort(model.graph)
    _adapt(model, names)
    slice_sequences(model, names)
    count_loops(model, names)
    split_long(model, names)
    lower(model, names, lambda: _infer_types(model))
    remove_idle_nodes(model, names)
    turn_back(model, names)
    remove_unused(model)
    _import_newest(model)
    mark_parameters(model)
    return model


def _adapt(model: ir.Model, names: UniqueNames) -> None:
    opset = model.graph.opset_imports.get("", TARGET_OPSET)
    found = [
        (node, version, adapter)
        for node in all_nodes(model.graph)
        if (version := node.version or opset)
        and (adapter := adapter_of(node, version)) is not None
    ]
    early = [item for item in found if item[0].domain and not item[2].needs_types]
    for node, version, adapter in early:  # what makes bodies, which have types as well
        adapter.apply(AdapterSite(node, version, model.graph, names))
        model.graph.opset_imports[OWN] = 1
    done = {node for node, _, _ in early}
    if any(adapter.needs_types for _, _, adapter in found):
        _infer_types(model)
    for node, version, adapter in found:
        if node not in done:
            adapter.apply(AdapterSite(node, version, model.graph, names))


def _infer_types(model: ir.Model) -> None:
    """Fill in element types and shapes that the file leaves out, as far as they follow.

    This is ONNX's own inference, at the model's own opset. What it can't tell, or
    refuses, stays unknown, and every adapter can do without.
    """
    proto, _ = skeleton(model, 1024)
    with suppress(onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        with known_to_onnx(proto):
            inferred = onnx.shape_inference.infer_shapes(proto)
        _fill_types(model.graph, inferred.graph)


def _fill_types(graph: ir.Graph, inferred: onnx.GraphProto) -> None:
    known = {info.name: info for info in [*inferred.value_info, *inferred.output]}
    for node, proto in zip(graph, inferred.node, strict=True):
        for value in node.outputs:
            info = known.get(value.name or "")
            if info is None:
                continue
            if is_map(info.type):
                set_map_type(value, info.type)
                continue
            if value.type is None:
                value.type = ir.serde.deserialize_type_proto_for_type(info.type)
            if value.shape is None:
                value.shape = ir.serde.deserialize_type_proto_for_shape(info.type)
        inner = {attribute.name: attribute.g for attribute in proto.attribute}
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _fill_types(attribute.as_graph(), inner[attribute.name])


def _import_newest(model: ir.Model) -> None:
    """Declare the opset that the nodes are spelled in now."""
    imports = model.graph.opset_imports
    imports[""] = max(imports.get("", TARGET_OPSET), TARGET_OPSET)
    for domain in list(unused_opsets(model)):
        del imports[domain]
    opset = onnx.helper.make_opsetid("", imports[""])
    model.ir_version = onnx.helper.find_min_ir_version_for([opset])
    for node in all_nodes(model.graph):
        node.version = None
