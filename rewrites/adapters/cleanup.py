"""Spellings that differ only in form: constants, functions, nodes that do nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from ...analysis.errors import Unsupported
from ...analysis.graph.constants import uniform_number
from ...analysis.graph.parameters import has_name
from ...analysis.graph.traversal import all_graphs, all_nodes, bodies
from .opset_adapters import TARGET_OPSET, AdapterSite, constant_array
from .unique_names import UniqueNames

_MOST_OPERANDS = 32  # of an operator that joins any number of them
_ON_AT_ONE = {"ceil_mode", "interleaved", "is_causal", "keepdims", "largest"}
_ON_AT_ONE |= {"noop_with_empty_axes", "sorted"}


def inlined(model: ir.Model) -> ir.Model:
    """The model without functions: a copy, which is kept with it, if it has any."""
    if not model.functions:
        return model
    found = model.meta.get("inlined")
    if not isinstance(found, ir.Model):
        found = model.clone()
        inline_functions(found)
        model.meta["inlined"] = found
    return found


def inline_functions(model: ir.Model) -> None:
    """Put the bodies of model-local functions in place of their calls.

    Each node of a body remembers the opset it was written for, because a function may
    import another one than the model does. Where an operator of ONNX has a function's
    name, a call is the operator's, as it is in ONNX Runtime.
    """
    for function in model.functions.values():
        remember_version(function.graph, function.graph.opset_imports)
        _own_outputs(function)
        for domain, version in function.graph.opset_imports.items():
            model.graph.opset_imports.setdefault(domain, version)
    if model.functions:
        _Inliner(model).inline_into(model.graph)
    model.functions.clear()


class _Inliner:
    """Puts copies of functions where they are called, with names of their own.

    onnx_ir's own pass counts from 1 for each name, and so takes a minute for a function
    that is called 4,000 times.
    """

    def __init__(self, model: ir.Model) -> None:
        self.functions = model.functions
        self.imports = model.graph.opset_imports
        self.counts: dict[str, int] = {}  # of the values and nodes that have a name
        for graph in all_graphs(model):
            values = [*graph.inputs, *graph.initializers.values()]
            values += [value for node in graph for value in node.outputs]
            for part in (*values, *graph):
                self.counts[part.name or ""] = 1

    def inline_into(self, graph: ir.Graph) -> None:
        """Replace all calls in a graph and in those of its nodes."""
        for node in graph:  # goes on with what is put behind the node
            function = self.functions.get(node.op_identifier())
            if function is None or self._is_operator(node):
                for body in bodies(node):
                    self.inline_into(body)
                continue
            copies, values = self._copied(function, node)
            outputs = node.outputs[: len(values)]  # the last ones may be left out
            for output in outputs:
                output.name = output.name or None  # else the copy would lose its own
            ir.convenience.replace_nodes_and_values(
                graph, node, [node], copies, outputs, values[: len(outputs)]
            )

    def _is_operator(self, node: ir.Node) -> bool:
        """Whether ONNX has such an operator; definitions of ours have an overload."""
        if node.overload:
            return False
        version = node.version or self.imports.get(node.domain, 1)
        return bool(onnx.defs.has(node.op_type, version, node.domain))

    def _copied(
        self, function: ir.Function, call: ir.Node
    ) -> tuple[list[ir.Node], list[ir.Value]]:
        """The nodes of a function for one call, and what they return."""
        own = function.clone()
        given = {**own.attributes, **call.attributes}
        for node in all_nodes(own.graph):
            node.metadata_props.update(call.metadata_props)
            node.name = self._unused(node.name or node.op_type)
            for value in node.outputs:
                if value.name:
                    value.name = self._unused(value.name)
            bind_attributes(node, given)
        arguments = [*call.inputs, *[None] * len(own.inputs)]
        for parameter, argument in zip(own.inputs, arguments, strict=False):
            for user, place in tuple(parameter.uses()):
                user.replace_input_with(place, argument)
        nodes, outputs = list(own), list(own.outputs)
        own.outputs.clear()
        own.remove(nodes)
        return nodes, outputs

    def _unused(self, name: str) -> str:
        unused = name
        while unused in self.counts:
            self.counts[name] += 1
            unused = f"{name}_{self.counts[name]}"
        self.counts[unused] = 1
        return unused


def bind_attributes(node: ir.Node, given: Mapping[str, ir.Attr]) -> None:
    """Give a node what its function was given for the names that it refers to."""
    for name, attribute in list(node.attributes.items()):
        if attribute.is_ref():
            del node.attributes[name]
            value = given.get(attribute.ref_attr_name or "")
            if value is not None and value.value is not None:
                node.attributes[name] = ir.Attr(name, value.type, value.value)


def remember_version(graph: ir.Graph, imports: dict[str, int]) -> None:
    """Note with each node the opset it was written for."""
    for node in all_nodes(graph):
        node.version = imports.get(node.domain)


def _own_outputs(function: ir.Function) -> None:
    """Give a function an Identity for each output that it takes from elsewhere.

    What a function returns is called as the output of the call. If that is an input of
    the function, or returned twice, a value of the caller would be renamed.
    """
    seen: set[ir.Value] = set(function.inputs)
    for i, output in enumerate(function.outputs):
        if output in seen:
            node = ir.node("Identity", [output], name="Identity")
            node.version = function.opset_imports.get("")
            function.append(node)
            function.outputs[i] = node.outputs[0]
        seen.add(output)


def drop_default_inputs(model: ir.Model) -> None:
    """Inputs of the model that have an initializer are constants.

    Up to IR version 3 every initializer had to be listed as an input, so there the
    listing means nothing. From version 4 on it means a default that a caller may
    override; exporters that still write it (keep_initializers_as_inputs) do so for all
    weights alike, and no converter makes the weights of a network its arguments.
    """
    kept = [value for value in model.graph.inputs if not value.is_initializer()]
    model.graph.inputs.clear()
    model.graph.inputs.extend(kept)


def settle_switches(model: ir.Model) -> None:
    """A switch that is on at 1 alone, not at all but 0, is 0 at any other number."""
    for node in all_nodes(model.graph):
        for name in () if node.domain else _ON_AT_ONE & set(node.attributes):
            if node.attributes[name].value not in (0, 1):
                node.attributes[name] = ir.AttrInt64(name, 0)


def lift_constants(model: ir.Model) -> None:
    """Make an initializer of every Constant node, in its own graph.

    The value keeps its name, and inherits the metadata of the node.
    """
    for node in list(all_nodes(model.graph)):
        if node.op_type != "Constant" or node.domain or node.graph is None:
            continue
        output, graph = node.outputs[0], node.graph
        tensor = constant_tensor(node, output.name)
        noted = {**node.metadata_props, **output.metadata_props}
        lifted = ir.val(output.name, const_value=tensor, metadata_props=noted)
        output.replace_all_uses_with(lifted, replace_graph_outputs=True)
        graph.remove(node)
        graph.register_initializer(lifted)


def constant_tensor(node: ir.Node, name: str | None) -> ir.TensorProtocol:
    """The tensor of a Constant node, whichever attribute holds it."""
    found = [(k, v) for k, v in node.attributes.items() if k.startswith("value")]
    if len(found) != 1:
        where = f"node {node.name!r} (Constant)"
        raise Unsupported(
            "a Constant needs one value", where, f"it has {len(found)} attributes"
        )
    key, attribute = found[0]
    if key == "value":
        return _named(attribute.as_tensor(), name)
    if key in ("value_int", "value_ints"):
        return ir.Tensor(np.array(attribute.value, np.int64), name=name)
    if key in ("value_float", "value_floats"):
        return ir.Tensor(np.array(attribute.value, np.float32), name=name)
    texts = attribute.value if key == "value_strings" else [attribute.value]
    data = [text if isinstance(text, bytes) else text.encode() for text in texts]
    shape = ir.Shape([len(data)] if key == "value_strings" else [])
    return ir.StringTensor(data, shape=shape, name=name)


def _named(tensor: ir.TensorProtocol, name: str | None) -> ir.TensorProtocol:
    """The same content under another name: a function's constant occurs many times."""
    if isinstance(tensor, ir.Tensor):
        return ir.Tensor(tensor.raw, tensor.dtype, shape=tensor.shape, name=name)
    shape = ir.Shape(tensor.shape.numpy())
    if tensor.dtype == ir.DataType.STRING:
        return ir.StringTensor(list(tensor.numpy().reshape(-1)), shape=shape, name=name)
    return ir.LazyTensor(lambda: tensor, tensor.dtype, shape, name=name)


def drop_zeros(model: ir.Model) -> None:
    """A Pad with zeros needn't be told their number."""
    for node in all_nodes(model.graph):
        if node.op_type == "Pad" and not node.domain and node.inputs[2:]:
            number = node.inputs[2] and uniform_number(node.inputs[2].const_value)
            if str(number) in ("0", "0.0"):
                node.replace_input_with(2, None)


def split_long(model: ir.Model, names: UniqueNames) -> None:
    """Let a Sum, Max or Min of many operands take a few at a time, in their order.

    A Mean of many becomes their Sum, divided. As one expression they would nest deeper
    than Python reads.
    """
    for node in list(all_nodes(model.graph)):
        long = not node.domain and len(node.inputs) > _MOST_OPERANDS
        if not long or node.op_type not in ("Sum", "Mean", "Max", "Min"):
            continue
        site = AdapterSite(node, TARGET_OPSET, model.graph, names)
        is_mean, count = node.op_type == "Mean", np.array(len(node.inputs), np.float32)
        joins, given = ("Sum" if is_mean else node.op_type), list(node.inputs)
        while len(given) > (1 if is_mean else _MOST_OPERANDS):
            part = site.before(joins, given[:_MOST_OPERANDS], "part")
            given = [part, *given[_MOST_OPERANDS:]]
        if is_mean:
            number = site.constant("count", count)
            given.append(site.before("CastLike", [number, node.inputs[0]], "part"))
        site.become("Div" if is_mean else joins, given)


def remove_idle_nodes(model: ir.Model, names: UniqueNames) -> None:
    """Remove Identity, and Dropout outside of training, where nothing is lost by it."""
    for node in list(all_nodes(model.graph)):
        if node.domain == "" and _is_idle(node):
            _bypass(node, names)


def _is_idle(node: ir.Node) -> bool:
    if node.op_type == "Identity":
        return True
    if node.op_type != "Dropout":
        return False
    if any(o.uses() or o.is_graph_output() for o in node.outputs[1:]):
        return False  # the mask is all true, but somebody wants it
    training = node.inputs[2] if len(node.inputs) > 2 else None
    array = constant_array(training)
    return training is None or (array is not None and not array.any())


def _bypass(node: ir.Node, names: UniqueNames) -> None:
    """Let the users of the first output take the first input instead.

    The name of a graph's output is part of its interface. The input can take the name
    over if it is computed in that same graph and has no such name itself; if it can't,
    the node stays.
    """
    source, output, graph = node.inputs[0], node.outputs[0], node.graph
    if source is None or graph is None:
        return
    if source.is_initializer() and _is_another(source, output):
        _copy(source, output)
        graph.remove(node, safe=True)
        return
    if output.is_graph_output():
        producer = source.producer()
        if producer is None or producer.graph is not graph or source.is_graph_output():
            return
        # One value may be several outputs only under several names.
        if sum(value is output for value in graph.outputs) > 1:
            return
    if source.type is None:
        source.type = output.type
    if source.shape is None:
        source.shape = output.shape
    was_output, name = output.is_graph_output(), output.name
    output.replace_all_uses_with(source, replace_graph_outputs=True)
    graph.remove(node, safe=True)
    if was_output:
        output.name = names.value(f"{name}_removed")
        source.name = name


def _is_another(source: ir.Value, output: ir.Value) -> bool:
    """Whether TorchScript's exporter took two weights for one since they are equal.

    It leaves each its name. What two modules share has one name alone, and so has what
    the newer exporter calls `alias`: a slice of all there is.
    """
    node = output.producer()
    named = has_name(output) and not output.is_graph_output()
    newer = node is not None and "pkg.torch.onnx.name_scopes" in node.metadata_props
    return named and not newer and source.const_value is not None


def _copy(source: ir.Value, output: ir.Value) -> None:
    """Put an initializer of the same elements in the place of a value."""
    tensor, graph = source.const_value, source.graph
    assert tensor is not None and graph is not None
    new = ir.val(output.name, const_value=tensor)
    output.replace_all_uses_with(new)
    graph.register_initializer(new)


def give_texts(model: ir.Model) -> bool:
    """Give each constant of strings that is a result a node, where it can be written.

    A module holds tensors alone.
    """
    given = False
    for graph in (model.graph, *model.graph.subgraphs()):
        for i, value in enumerate(graph.outputs):
            if value.dtype != ir.DataType.STRING or not value.is_initializer():
                continue
            node = ir.node("Identity", [value], name=f"{value.name}/Identity")
            made, name = node.outputs[0], value.name
            made.type, made.shape = value.type, value.shape
            value.name, made.name = f"{name}_text", name
            graph.outputs[i], given = made, True
            graph.append(node)
    return given


def remove_unused(model: ir.Model) -> None:
    """Remove nodes and initializers that no output depends on."""
    if any(map(_has_unused, all_nodes(model.graph))):
        short = [n for n in all_nodes(model.graph) if n.inputs and n.inputs[-1] is None]
        RemoveUnusedNodesPass()(model)
        for node in short:  # a Loop with neither condition nor values has two inputs
            if node.graph is not None and onnx.defs.has(node.op_type, node.domain):
                least = onnx.defs.get_schema(node.op_type, node.domain).min_input
                node.resize_inputs(max(len(node.inputs), least))
    for graph in all_graphs(model):
        for name, value in list(graph.initializers.items()):
            if not (value.uses() or value.is_graph_output() or value.is_graph_input()):
                del graph.initializers[name]


def _has_unused(node: ir.Node) -> bool:
    """Whether onnx_ir's pass, which looks every operator up, may find something."""
    return (
        not all(y.uses() or y.is_graph_output() for y in node.outputs)
        or (bool(node.inputs) and node.inputs[-1] is None)
        or "training_mode" in node.attributes
        or bool(bodies(node))
    )


def unused_opsets(model: ir.Model) -> Iterator[str]:
    """Domains that the model imports and no node belongs to."""
    used = {"", *(node.domain for node in all_nodes(model.graph))}
    yield from [domain for domain in model.graph.opset_imports if domain not in used]


def slice_sequences(model: ir.Model, names: UniqueNames) -> None:
    """SequenceAt(SplitToSequence(x, sizes), i) = Slice(x), where sizes and i are known.

    What the sequence is needed for besides still reads it.
    """
    for node in list(all_nodes(model.graph)):
        if (node.domain, node.op_type) != ("", "SequenceAt") or node.inputs[0] is None:
            continue
        split = node.inputs[0].producer()
        bounds = _bounds(split, node.inputs[1]) if split is not None else None
        if split is None or bounds is None:
            continue
        site = AdapterSite(node, TARGET_OPSET, model.graph, names)
        numbers = (*bounds, split.attributes.get_int("axis", 0))
        words = ("start", "end", "axis")
        rows = [site.ints(w, [x]) for w, x in zip(words, numbers, strict=True)]
        site.become("Slice", [split.inputs[0], *rows])


def _bounds(split: ir.Node, position: ir.Value | None) -> tuple[int, int] | None:
    """Where a part begins and ends; the last of equal ones may end before."""
    if (split.domain, split.op_type) != ("", "SplitToSequence"):
        return None
    if len(split.inputs) < 2:
        return None
    sizes, at = constant_array(split.inputs[1]), constant_array(position)
    gone = not split.attributes.get_int("keepdims", 1)  # the axis of equal parts
    if sizes is None or at is None or at.size != 1 or (gone and not sizes.ndim):
        return None
    return _part(sizes.reshape(-1).tolist(), sizes.ndim == 0, int(at.reshape(-1)[0]))


def _part(sizes: Sequence[int], equal: bool, i: int) -> tuple[int, int] | None:
    if min(sizes, default=-1) < 0 or not (0 <= i < len(sizes) or (equal and i >= 0)):
        return None
    if equal:
        return i * sizes[0], (i + 1) * sizes[0]
    ends = np.cumsum(sizes)
    return int(ends[i]) - sizes[i], int(ends[i])
