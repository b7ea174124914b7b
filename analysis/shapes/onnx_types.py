"""What onnx.shape_inference knows of a model, found without its weights.

The model is written out as a skeleton: large constants become graph inputs, every value
gets a short unique name, and doc strings and metadata stay behind. So a model of any
size fits a protobuf, and a value is found again by its name, in whatever subgraph.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

import onnx
import onnx_ir as ir
from onnx import shape_inference

from ..graph.dims import text
from ..graph.map_types import map_type
from ..graph.shape_facts import ShapeFacts
from ..ops.type_rules import known_to_onnx

logger = logging.getLogger(__name__)

_KNOWN_DOMAINS = ("", "ai.onnx.ml")
# Operators of ai.onnx.ml that have no inference in onnx.
_UNTYPED = frozenset({"DictVectorizer", "TreeEnsembleRegressor"})
_LARGE = 1024  # elements; smaller constants may be shapes, which onnx looks into
_TAKE_SCALES = ("Resize", "Upsample")  # the vectors of floats that it looks into


def infer_types(
    model: ir.Model, known: ShapeFacts, without: Collection[ir.Node] = ()
) -> dict[ir.Value, onnx.TypeProto]:
    """The type of each value that onnx can tell; input sizes keep their names.

    What the nodes `without` compute has its type and sizes, and is taken for an input.
    Empty if onnx finds the model inconsistent: the rules here and the runtime then say
    what is wrong, with names that the user knows.
    """
    skeleton = _Skeleton(known, without)
    proto = skeleton.model(model)
    try:
        # Without data_prop: it evaluates chains of Concat of any length, so that a few
        # nodes can exhaust memory; the elements that matter come from our own rules.
        with known_to_onnx(proto):
            inferred = shape_inference.infer_shapes(
                proto, check_type=False, strict_mode=False, data_prop=False
            )
    except Exception as error:
        logger.info("onnx.shape_inference gave up: %s", error)
        return {}
    found: dict[str, onnx.TypeProto] = {}
    _collect(inferred.graph, found)
    named = ((value, found.get(name)) for value, name in skeleton.names.items())
    return {value: type_ for value, type_ in named if type_ is not None}


def type_by_schema(value: ir.Value) -> ir.TypeProtocol | None:
    """The type of an input that the operator's schema says is this result's, too.

    onnx tells no types behind sizes that it has wrong, as it has those of an STFT.
    """
    node, index = value.producer(), value.index()
    if node is None or index is None or node.domain:
        return None
    try:
        schema = onnx.defs.get_schema(node.op_type)
    except onnx.defs.SchemaError:
        return None
    made = schema.outputs[min(index, len(schema.outputs) - 1)]
    if not made.is_homogeneous:  # as a Loop's values, of any types
        return None
    pairs = zip(node.inputs, schema.inputs, strict=False)
    alike = (given for given, formal in pairs if formal.type_str == made.type_str)
    return next((v.type for v in alike if v is not None and v.type is not None), None)


def _is_inferable(node: ir.Node) -> bool:
    """Whether onnx can tell the types of what the node computes."""
    if node.domain not in _KNOWN_DOMAINS:
        return False
    return not node.domain or node.op_type not in _UNTYPED


def _collect(graph: onnx.GraphProto, found: dict[str, onnx.TypeProto]) -> None:
    for info in (*graph.input, *graph.value_info, *graph.output):
        found[info.name] = info.type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _collect(attribute.g, found)


class _Skeleton:
    """Writes the model without its weights."""

    def __init__(self, known: ShapeFacts, without: Collection[ir.Node]) -> None:
        self.names: dict[ir.Value, str] = {}
        self._known, self._without = known, without
        self._hoisted: list[onnx.ValueInfoProto] = []

    def model(self, model: ir.Model) -> onnx.ModelProto:
        """The whole model; functions that are still there go along."""
        proto = onnx.ModelProto(ir_version=model.ir_version)
        for domain, version in model.graph.opset_imports.items():
            proto.opset_import.add(domain=domain, version=version)
        self._graph(model.graph, proto.graph)
        for value in [v for node in self._without for v in node.outputs]:
            if value in self.names:
                self._hoist(value, None)
        proto.graph.input.extend(self._hoisted)
        proto.functions.extend(
            map(ir.serde.serialize_function, model.functions.values())
        )
        return proto

    def _name(self, value: ir.Value | None) -> str:
        if value is None or value.name == "":
            return ""
        name = self.names.get(value)
        if name is None:
            name = self.names[value] = f"v{len(self.names)}"
        return name

    def _graph(self, graph: ir.Graph, proto: onnx.GraphProto) -> None:
        proto.name = "g"
        given = set(graph.inputs)
        proto.input.extend(map(self._info, graph.inputs))
        for node in graph:
            if node not in self._without:
                self._node(node, proto)
        outputs = [x for x in graph.outputs if x.producer() not in self._without]
        proto.output.extend(map(self._output, outputs))
        listed: set[str] = set()
        for i, info in enumerate(proto.output):
            if info.name in listed:  # of a name listed twice onnx types the last alone
                again = f"{info.name}_{i}"
                proto.node.add(op_type="Identity", input=[info.name], output=[again])
                info.name = again
            listed.add(info.name)
        for value in graph.initializers.values():
            tensor = value.const_value
            if value not in self.names:
                continue
            if tensor is None or _is_data(value, tensor):
                if value not in given:
                    self._hoist(value, tensor)
            else:
                self._store(tensor, self._name(value), proto)

    def _store(
        self, tensor: ir.TensorProtocol, name: str, graph: onnx.GraphProto
    ) -> None:
        if type(tensor) is ir.Tensor:  # at a tenth of the general way's cost
            graph.initializer.add(
                name=name,
                data_type=int(tensor.dtype),
                dims=tensor.shape.numpy(),
                raw_data=tensor.tobytes(),
            )
        else:
            stored = ir.serde.serialize_tensor(tensor)
            stored.name = name
            graph.initializer.append(stored)

    def _output(self, value: ir.Value) -> onnx.ValueInfoProto:
        """What a file declares of an output is a claim; onnx is to find it itself."""
        node = value.producer()
        if node is None or not _is_inferable(node):
            return self._info(value)
        return onnx.ValueInfoProto(name=self._name(value))

    def _node(self, node: ir.Node, graph: onnx.GraphProto) -> None:
        payload = node.attributes.get("value") if node.op_type == "Constant" else None
        if payload is not None and payload.value.size > _LARGE:
            self._hoist(node.outputs[0], payload.value)
            return
        if node.op_type == "GroupNormalization" and not node.domain:
            # onnx infers nothing for it; its result is like its input.
            graph.node.add(
                op_type="Identity",
                input=[self._name(node.inputs[0])],
                output=[self._name(node.outputs[0])],
            )
            return
        proto = graph.node.add(op_type=node.op_type, domain=node.domain)
        proto.overload = node.overload
        proto.input.extend(map(self._name, node.inputs))
        proto.output.extend(map(self._name, node.outputs))
        for attribute in node.attributes.data.values():
            if attribute.is_ref():
                continue
            kind = attribute.type
            if kind == ir.AttributeType.GRAPH:
                body = proto.attribute.add(name=attribute.name, type=int(kind)).g
                self._graph(attribute.as_graph(), body)
            elif kind == ir.AttributeType.INT:  # at a tenth of the general way's cost
                number = attribute.value
                proto.attribute.add(name=attribute.name, type=int(kind), i=number)
            elif kind == ir.AttributeType.INTS:
                numbers = attribute.value
                proto.attribute.add(name=attribute.name, type=int(kind), ints=numbers)
            else:
                proto.attribute.append(ir.serde.serialize_attribute(attribute))
        if not _is_inferable(node):
            # onnx can tell nothing of such an operator; the file may.
            told = (v for v in node.outputs if v.type and not v.is_graph_output())
            graph.value_info.extend(map(self._info, told))

    def _hoist(self, value: ir.Value, tensor: ir.TensorProtocol | None) -> None:
        """A large constant, wherever it stands, becomes an input of the model."""
        if tensor is None:
            self._hoisted.append(self._info(value))
            return
        info = onnx.ValueInfoProto(name=self._name(value))
        info.type.tensor_type.elem_type = int(tensor.dtype)
        shape = info.type.tensor_type.shape
        for size in tensor.shape.numpy():
            shape.dim.add(dim_value=size)
        self._hoisted.append(info)

    def _info(self, value: ir.Value) -> onnx.ValueInfoProto:
        info = onnx.ValueInfoProto(name=self._name(value))
        kind = map_type(value)
        if kind is not None:
            info.type.CopyFrom(kind)
        elif value.type is not None:
            ir.serde.serialize_type_into(info.type, value.type)
        sizes = self._known.dims(value)
        if sizes is None and value.shape is not None:
            sizes = tuple(d if isinstance(d, int) else "" for d in value.shape)
        if sizes is not None and info.type.HasField("tensor_type"):
            shape = info.type.tensor_type.shape
            shape.SetInParent()
            for size in sizes:
                if isinstance(size, int):
                    shape.dim.add(dim_value=size)
                else:
                    shape.dim.add(dim_param=text(size))
        return info


def _is_data(value: ir.Value, tensor: ir.TensorProtocol) -> bool:
    if tensor.dtype.is_floating_point() and tensor.size > 1:
        return not any(node.op_type in _TAKE_SCALES for node, _ in value.uses())
    return tensor.size > _LARGE
