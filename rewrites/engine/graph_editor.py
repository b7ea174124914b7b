"""Put planned nodes into a graph, sharing those that are there already."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.errors import FairhandError
from ...analysis.graph.constants import RANDOM
from ...analysis.graph.parameters import is_parameter
from ...analysis.graph.shape_facts import NodeFacts
from ...analysis.graph.traversal import all_graphs, trimmed
from ...analysis.graph.weight_access import glance, note_read
from ...analysis.ops.registry import lookup
from ...analysis.shapes.infer import dims_by_rule, elements_by_rule
from ..adapters.provenance import shared_metadata, shared_name
from ..adapters.unique_names import UniqueNames
from ..language.facts import Facts
from ..language.operators.read_write import Draft, Input, NewConstant, Output

# Results of these have another element type than their first operand.
_TYPES = {
    **dict.fromkeys(
        "And Or Xor Not Equal Less LessOrEqual Greater GreaterOrEqual IsNaN "
        "IsInf".split(),
        ir.DataType.BOOL,
    ),
    **dict.fromkeys("Shape Size ArgMax ArgMin NonZero".split(), ir.DataType.INT64),
}

_AXIS_OF_RESULT = ("OneHot", "ConcatFromSequence")  # that has an axis more
_UNREAD = object()

# Constants of up to so many elements are told apart by their elements alone.
_FEW = 16

# To the last bit. Max and Min aren't: of 0.0 and -0.0 they pick one by its place.
_COMMUTATIVE = frozenset("Add Mul And Or Xor Equal".split())

# And of these as another operand.
_TYPED_LIKE = {"Where": 1, "DequantizeLinear": 1, "QuantizeLinear": 2}


class GraphEditor:
    """The graph being rewritten, its names, and which node computes what already."""

    def __init__(self, model: ir.Model, facts: Facts) -> None:
        self.model, self.facts = model, facts
        self.graphs = all_graphs(model)
        self.names = UniqueNames(self.graphs)
        for graph in self.graphs:
            for value in (*graph.inputs, *graph.initializers.values()):
                self.names.value(value.name or "")
            for node in graph:
                self.names.node(node.name or "")
                for value in node.outputs:
                    self.names.value(value.name or "")
        self._known: dict[Hashable, ir.Node] = {}
        self._constants: dict[Hashable, ir.Value] = {}
        self._tokens: dict[ir.Value, Hashable] = {}
        self._attributes: dict[ir.Node, Hashable] = {}
        self._numbers: dict[Hashable, ir.TensorProtocol] = {}

    # ---- hash-consing

    def twin(self, node: ir.Node) -> ir.Node | None:
        """An earlier node that computes the same, if any; else `node` is noted."""
        attributes = self._attributes.get(node, _UNREAD)
        if attributes is _UNREAD:
            attributes = self._attributes[node] = attributes_key(node)
        if attributes is None or node.op_type in RANDOM or node.graph is None:
            return None
        inputs = self._operands(node)
        key = _key(node.op_type, node.domain, inputs, attributes)
        key = (id(node.graph), len(node.outputs), key)
        known = self._known.setdefault(key, node)
        if known is node:
            return None
        if not self._computes(known, inputs):
            self._known[key] = node
            return None
        return known

    def _operands(self, node: ir.Node) -> list[Hashable]:
        """What tells operands apart: who they are, or of small constants, what."""
        inputs = [None if x is None else self._token(x) for x in node.inputs]
        if not node.domain and node.op_type.startswith("Reduce") and inputs[1:]:
            inputs[1] = self._axes(node) or inputs[1]
        return _in_order(node.domain, node.op_type, inputs)

    def _axes(self, node: ir.Node) -> Hashable:
        """The axes that a node reduces, from the front; None if they aren't known."""
        x, axes = node.inputs[:2]
        if axes is None or axes.const_value is None or x is None or not x.shape:
            return None
        return tuple(sorted({int(a) % len(x.shape) for a in glance(axes.const_value)}))

    def _token(self, value: ir.Value) -> Hashable:
        token = self._tokens.get(value)
        if token is None:
            tensor = value.const_value
            if tensor is None:
                return id(value)
            if not _is_number(value):
                self._tokens[value] = token = id(value)
                return token
            self._tokens[value] = token = _content(glance(tensor))
            alike = self._numbers.setdefault(token, tensor)
            if alike is not tensor:
                note_read(alike, tensor)
        return token

    def _computes(self, node: ir.Node, inputs: Sequence[Hashable]) -> bool:
        """Whether a noted node is still in the graph, with these inputs."""
        given = trimmed(inputs)
        return node.graph is not None and trimmed(self._operands(node)) == given

    def existing_of(
        self, drafts: Sequence[Draft], at: ir.Node
    ) -> dict[int, ir.Node | None]:
        """For each draft, operands first, the node that computes it; by id(draft)."""
        found: dict[int, ir.Node | None] = {}
        for draft in drafts:
            found[id(draft)] = self._existing(draft, at, found)
        return found

    def _existing(
        self, draft: Draft, at: ir.Node, known: Mapping[int, ir.Node | None]
    ) -> ir.Node | None:
        """A node in the graph that computes what a draft does.

        `known` tells it of the drafts that are its operands.
        """
        inputs: list[Hashable] = []
        for x in draft.inputs:
            if isinstance(x, Output):
                inner = known[id(x.draft)]
                if inner is None:
                    return None
                inputs.append(self._token(inner.outputs[x.index]))
            elif isinstance(x, NewConstant):
                inputs.append(_content(x.array))
            else:
                inputs.append(None if x is None else self._token(x))
        inputs = _in_order(draft.domain, draft.op_type, inputs)
        given = {k: v for k, v in draft.attributes.items() if v is not None}
        meant = {**usual_attributes(draft.op_type, draft.domain), **given}
        key = _key(draft.op_type, draft.domain, inputs, _plain(meant))
        found = self._known.get((id(at.graph), draft.count, key))
        return found if found is not None and self._computes(found, inputs) else None

    # ---- making nodes

    def add(
        self, drafts: Sequence[Draft], replaced: Sequence[ir.Node]
    ) -> dict[int, ir.Node]:
        """Make nodes of drafts, before the last replaced node; by id(draft)."""
        made: dict[int, ir.Node] = {}
        place = replaced[0]
        for draft in drafts:
            node = self._existing(draft, place, made)
            if node is None:
                # The same operator stays in its module, though an operand (a mask that
                # layers share) is another's; and a layer that takes in a scale beside.
                # One outside of the branch that this is in would lie out of its reach.
                here = [n for n in replaced if n.graph is place.graph]
                alike = [n for n in here if n.op_type == draft.op_type]
                known = lookup(alike[0]) if len(alike) == 1 else None
                same = alike[:1] == [place] or (known and known.module)
                node = self._make(draft, made, alike[:1] if same else replaced)
            made[id(draft)] = node
        return made

    def trial(self, drafts: Sequence[Draft], at: ir.Node) -> list[ir.Node]:
        """New nodes in no graph, to tell their sizes; the caller detaches them.

        Drafts of what the graph computes already give none.
        """
        made: dict[int, ir.Node] = {}
        there = self.existing_of(drafts, at)
        new = []
        for draft in drafts:
            known = there[id(draft)]
            if known is not None:
                made[id(draft)] = known
                continue
            inputs = [
                (
                    ir.val(None, const_value=ir.Tensor(x.array))
                    if isinstance(x, NewConstant)
                    else self.value(x, made)
                )
                for x in draft.inputs
            ]
            node = ir.Node(
                "",
                draft.op_type,
                inputs,
                _attributes_of(draft),
                num_outputs=draft.count,
            )
            self._learn(node)
            made[id(draft)] = node
            new.append(node)
        return new

    def value(self, x: Input, made: dict[int, ir.Node]) -> ir.Value | None:
        """The value that an input of a draft, or a result, stands for."""
        if isinstance(x, Output):
            return made[id(x.draft)].outputs[x.index]
        if isinstance(x, NewConstant):
            return self.constant(x.array)
        return x

    def constant(self, array: np.ndarray) -> ir.Value:
        """An initializer of these elements; equal ones are shared."""
        key = _content(array)
        if key not in self._constants:
            name = self.names.value("number" if array.ndim == 0 else "numbers")
            value = ir.val(name, const_value=ir.Tensor(array, name=name))
            value.meta["made"] = True
            self.model.graph.register_initializer(value)
            self._constants[key] = value
        return self._constants[key]

    def _make(
        self, draft: Draft, made: dict[int, ir.Node], replaced: Sequence[ir.Node]
    ) -> ir.Node:
        inputs = [self.value(x, made) for x in draft.inputs]
        name = self.names.node(shared_name(replaced, draft.op_type))
        node = ir.Node(
            draft.domain,
            draft.op_type,
            inputs,
            _attributes_of(draft),
            num_outputs=draft.count,
            name=name,
            metadata_props=shared_metadata(replaced),
        )
        for i, value in enumerate(node.outputs):
            value.name = self.names.value(
                f"{name}_output_{i}" if i else f"{name}_output"
            )
            value.type = _type(node)
        place = replaced[0]
        assert place.graph is not None
        place.graph.insert_before(place, node)
        self._learn(node)
        self.twin(node)
        return node

    def _learn(self, node: ir.Node) -> None:
        """Sizes of the new values, as far as a rule of shape inference gives them."""
        shapes = self.facts.shapes
        site = NodeFacts(node, shapes)
        try:
            for value, dims in zip(node.outputs, dims_by_rule(site), strict=False):
                if dims is not None and all(n is not None for n in dims):
                    shapes.learn_dims(value, tuple(n for n in dims if n is not None))
            dtype = node.outputs[0].dtype
            if dtype is not None and dtype.is_floating_point():
                return  # shapes don't depend on floats
            if len(node.outputs) == 1 and shapes.small(node.outputs[0]):
                for elements in elements_by_rule(site):
                    shapes.learn_elements(node.outputs[0], elements)
        except (FairhandError, ArithmeticError, LookupError, TypeError, ValueError):
            return  # the next inference of the whole graph will tell


def _attributes_of(draft: Draft) -> list[ir.Attr]:
    return [
        # onnx_ir takes long to see that a list is one.
        (
            ir.AttrInt64s(name, value)
            if isinstance(value, list | tuple) and {*map(type, value)} == {int}
            else ir.convenience.convert_attribute(name, value)
        )
        for name, value in draft.attributes.items()
        if value is not None
    ]


def _is_number(value: ir.Value) -> bool:
    """Whether a constant is a number, or a few, that no program has a name for."""
    tensor = value.const_value
    if tensor is None or value.is_graph_input() or tensor.size > _FEW:
        return False
    return tensor.dtype != ir.DataType.STRING and not is_parameter(value)


def _type(node: ir.Node) -> ir.TypeProtocol | None:
    if node.op_type in _TYPES:
        return ir.TensorType(_TYPES[node.op_type])
    if node.op_type == "Cast":
        return ir.TensorType(ir.DataType(node.attributes["to"].as_int()))
    operand = node.inputs[_TYPED_LIKE.get(node.op_type, 0)]
    return operand.type if operand is not None else None


def _content(array: np.ndarray) -> Hashable:
    return (array.dtype, array.shape, array.tobytes())


def _in_order(domain: str, op: str, operands: list[Hashable]) -> list[Hashable]:
    """Operands that may change places, in one order whatever the exporter's habit."""
    if domain or op not in _COMMUTATIVE:
        return operands
    return sorted(operands, key=hash)


def _key(
    op: str, domain: str, inputs: Sequence[Hashable], attributes: Hashable
) -> Hashable:
    return None if attributes is None else (op, domain, (*trimmed(inputs),), attributes)


@lru_cache
def usual_attributes(op: str, domain: str) -> dict[str, Any]:
    """What the attributes of an operator mean where they aren't written."""
    known = onnx.defs.has(op, domain)
    declared = onnx.defs.get_schema(op, domain=domain).attributes if known else {}
    usual = {name: each.default_value for name, each in declared.items()}
    return {
        k: ir.serde.deserialize_attribute(a).value for k, a in usual.items() if a.type
    }


def attributes_key(node: ir.Node) -> Hashable:
    """Those that a node has or means, an axis of its operand's counted from the front;
    None if any can't be compared."""
    values = {**usual_attributes(node.op_type, node.domain)}
    for name, attribute in node.attributes.items():
        if attribute.is_ref() or attribute.type in (
            ir.AttributeType.GRAPH,
            ir.AttributeType.GRAPHS,
            ir.AttributeType.TENSORS,
            ir.AttributeType.SPARSE_TENSOR,
            ir.AttributeType.TYPE_PROTO,
            ir.AttributeType.TYPE_PROTOS,
        ):
            return None
        values[name] = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            tensor = attribute.as_tensor()
            if tensor.size > 64 or tensor.dtype == ir.DataType.STRING:
                return None
            shape = tuple(tensor.shape.numpy())
            values[name] = (tensor.dtype, shape, tensor.tobytes())
    axis, first = values.get("axis"), [x and x.shape for x in node.inputs[:1]]
    counts = any(first) and node.op_type not in _AXIS_OF_RESULT
    if isinstance(axis, int) and axis < 0 and counts:
        values["axis"] = axis + len(first[0] or ())
    return _plain(values)


def _plain(attributes: dict[str, Any]) -> Hashable:
    return tuple(
        sorted(
            (k, tuple(v) if isinstance(v, list | tuple) else v)
            for k, v in attributes.items()
        )
    )
