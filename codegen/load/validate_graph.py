"""Is this a model that ONNX admits? Everything in the file is untrusted.

The check runs on the skeleton (partial_parse.py), so it costs no memory, and before
anything is built from the file, so that what follows may rely on it: every tensor has
the bytes its shape needs, every value is defined once and before it is needed, every
node is one that the operator's schema allows, and functions end.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    OperatorSetIdProto,
    TensorProto,
)

from ...analysis.errors import LoadError
from ...analysis.lazy import lazy
from ...analysis.ops.registry import DOMAIN, OPS
from ...analysis.ops.type_rules import EARLY
from ...rewrites.adapters.opset_adapters import TARGET_OPSET
from ...rewrites.lowering import load
from ...rewrites.normalise import ADAPTERS, EXTENSIONS
from .tensor_storage import Payloads, shown
from .validate_tensors import called, check_contents, held, nodes_of, subgraphs

nx = lazy("networkx")
runtime = lazy("onnxruntime.capi.onnxruntime_pybind11_state")

# Functions that call functions grow exponentially; real models stay below 100,000.
MOST_NODES = 2_000_000
_OLDEST_OPSET, _NEWEST_OPSET = 1, onnx.defs.onnx_opset_version()
_OLDEST_IR, _NEWEST_IR = 3, onnx.IR_VERSION
_OPTIONAL = {"ai.onnx.ml": onnx.defs.onnx_ml_opset_version(), DOMAIN: 1}
_ELEMENT_TYPES = {kind.value for kind in ir.DataType}
_KEY_TYPES = {
    kind.value
    for kind in ir.DataType
    if kind == ir.DataType.STRING or kind.is_integer()
}
FunctionId = tuple[str, str, str]


def check(proto: ModelProto, payloads: Payloads) -> int:
    """Check a whole model; return its opset. LoadError says what is wrong and where.

    External tensors are settled on the way: they name a cut of `payloads` afterwards.
    """
    if not proto.HasField("graph"):
        raise LoadError("the file is not an ONNX model", "it holds no graph")
    if not proto.graph.output:
        raise LoadError(
            "the model has no outputs",
            f"graph {shown(proto.graph.name)}",
            "there is nothing to compile; declare the outputs when exporting",
        )
    _check_head(proto)
    _check_text(proto)
    check_contents(proto, payloads)
    _import_optional(proto)
    versions = _versions_of(proto.opset_import, "the model")
    _drop_operators(proto, versions)
    functions = _functions(proto)
    _check_growth(proto, functions)
    _Scope(versions, functions, proto.ir_version).check_graph(proto.graph, None)
    for function in functions.values():
        _check_function(function, functions, proto.ir_version)
    return versions.get("", TARGET_OPSET)


def _import_optional(proto: ModelProto) -> None:
    """Import the domains of nodes that ONNX Runtime knows without being told of."""
    used = {node.domain for node in nodes_of(proto.graph.node)}
    imported = {entry.domain for entry in proto.opset_import}
    for domain, version in _OPTIONAL.items():
        if domain in used - imported:
            proto.opset_import.add(domain=domain, version=version)


def _drop_operators(proto: ModelProto, versions: Mapping[str, int]) -> None:
    """Drop functions of an operator's name: ONNX Runtime takes the operator."""
    for function in list(proto.functions):
        domain, name, _ = _id_of(function)
        load(domain, name)
        try:
            schema = onnx.defs.get_schema(name, versions.get(domain, 1), domain)
        except onnx.defs.SchemaError:
            schema = None
        if schema or (
            domain == DOMAIN and {(domain, name)} & (OPS | EXTENSIONS).keys()
        ):
            proto.functions.remove(function)


def _functions(proto: ModelProto) -> dict[FunctionId, FunctionProto]:
    found: dict[FunctionId, FunctionProto] = {}
    for function in proto.functions:
        key = _id_of(function)
        if found.setdefault(key, function) is not function:
            raise LoadError(f"function {shown(function.name)} is defined twice")
    return found


def _function_id(domain: str, name: str, overload: str) -> FunctionId:
    return ("" if domain == "ai.onnx" else domain, name, overload)


def _id_of(function: FunctionProto) -> FunctionId:
    return _function_id(function.domain, function.name, function.overload)


def _callee(node: NodeProto) -> FunctionId:
    return _function_id(node.domain, node.op_type, node.overload)


def _check_growth(
    proto: ModelProto, functions: Mapping[FunctionId, FunctionProto]
) -> None:
    """Functions don't call themselves, and don't grow beyond measure when inlined."""
    sizes: dict[FunctionId, int] = {}

    def size(nodes: list[NodeProto], callers: tuple[FunctionId, ...]) -> int:
        total = 0
        for node in nodes_of(nodes):
            key = _callee(node)
            if key in callers:
                raise LoadError("a function calls itself", f"function {shown(key[1])}")
            if key in functions and key not in sizes:
                if len(callers) > 200:
                    raise LoadError("functions are nested more than 200 deep")
                body = list(functions[key].node)
                sizes[key] = size(body, (*callers, key))
            total += sizes.get(key, 1)
        return total

    for function in functions.values():
        size(list(function.node), (_id_of(function),))
    total = size(list(proto.graph.node), ())
    if total > MOST_NODES:
        raise LoadError(
            f"the model's functions expand to {total:,} nodes",
            hint=f"models of up to {MOST_NODES:,} nodes are supported",
        )


def _check_function(
    function: FunctionProto,
    functions: Mapping[FunctionId, FunctionProto],
    ir_version: int,
) -> None:
    """A function body is a graph whose inputs and outputs have no types."""
    where = f"function {shown(function.name)}"
    versions = _versions_of(function.opset_import, where)
    scope = _Scope(versions, functions, ir_version, in_function=True)
    names = _Names(where)
    for name in function.input:
        names.define(name, f"an input of {where}")
    scope.check_body(list(function.node), names, frozenset())
    for name in function.output:
        names.require(name, f"the outputs of {where}")


class _Names:
    """The values that one graph defines; each may be defined once."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.defined: set[str] = set()

    def define(self, name: str, by: str) -> None:
        if not name:
            raise LoadError("a value has no name", by)
        if name in self.defined:
            raise LoadError(
                f"value {shown(name)} is defined twice",
                f"{by}, in {self.where}",
                "every value of a graph needs a name of its own",
            )
        self.defined.add(name)

    def require(self, name: str, by: str) -> None:
        if name not in self.defined:
            raise LoadError(
                f"value {shown(name)} is used, but nothing defines it",
                by,
                "an initializer or an input may be missing from the file",
            )


class _Scope:
    """What a graph may refer to, apart from values: operators and functions."""

    def __init__(
        self,
        versions: Mapping[str, int],
        functions: Mapping[FunctionId, FunctionProto],
        ir_version: int,
        in_function: bool = False,
    ) -> None:
        self.versions, self.functions = versions, functions
        self.in_function = in_function
        self.context = onnx.checker.C.CheckerContext()
        self.context.ir_version = ir_version
        self.context.opset_imports = dict(versions)

    def check_graph(self, graph: GraphProto, outer: frozenset[str] | None) -> set[str]:
        """Check a graph; return the names it takes from the graphs around it.

        `outer` holds the names that it may take; the model's own graph has None.
        """
        where = f"graph {shown(graph.name)}"
        names = _Names(where)
        for info in graph.input:
            names.define(info.name, f"an input of {where}")
        initialized: set[str] = set()
        for tensor in graph.initializer:
            if tensor.name in initialized:
                raise LoadError(
                    f"initializer {shown(tensor.name)} is there twice", where
                )
            initialized.add(tensor.name)
            # Before IR version 4 every initializer had to be an input as well.
            if tensor.name not in names.defined:
                names.define(tensor.name, f"an initializer of {where}")
        for info in [*graph.input, *graph.output, *graph.value_info]:
            _check_type(info.type, f"value {shown(info.name)}")
        untyped = [i for i in graph.input if i.type.WhichOneof("value") is None]
        if outer is None and untyped:
            raise LoadError(f"input {shown(untyped[0].name)} has no type", where)
        free = self.check_body(list(graph.node), names, outer or frozenset())
        for info in graph.output:
            if info.name in (outer or ()) and info.name not in names.defined:
                raise LoadError(
                    f"output {shown(info.name)} is a value of the graph around it",
                    where,
                    "ONNX Runtime refuses it too; an Identity in the body may give it",
                )
            names.require(info.name, f"the outputs of {where}")
        return free

    def check_body(
        self, nodes: list[NodeProto], names: _Names, outer: frozenset[str]
    ) -> set[str]:
        """Check nodes against their schemas and the names they use."""
        for node in nodes:
            for name in filter(None, node.output):
                names.define(name, f"an output of {called(node)}")
        visible = outer | names.defined
        free: set[str] = set()
        uses: list[set[str]] = []
        for node in nodes:
            used = set(filter(None, node.input))
            for name in sorted(used - visible):
                names.require(name, f"an input of {called(node)}")
            for graph in subgraphs(node):
                _check_parameters(node, graph)
                used |= self.check_graph(graph, visible)
            self._check_node(node)
            uses.append(used)
            free |= used - names.defined
        _check_order(nodes, uses)
        return free

    def _check_node(self, node: NodeProto) -> None:
        where = called(node)
        key = _callee(node)
        if function := self.functions.get(key):
            if len(node.input) > len(function.input):
                raise LoadError(f"too many inputs for {shown(key[1])}", where)
            if len(node.output) > len(function.output):
                raise LoadError(f"too many outputs for {shown(key[1])}", where)
            return
        if not self.in_function and any(a.ref_attr_name for a in node.attribute):
            raise LoadError("an attribute refers to a function, but is in none", where)
        for attribute in node.attribute:
            known = TensorProto.DataType.values()
            if attribute.name in _TYPES and attribute.i not in known:
                raise LoadError(f"there is no type {attribute.i}", where)
        opset = self.versions.get(key[0])
        load(*key[:2])
        try:
            if key[:2] in EXTENSIONS:  # no schema of ONNX's own; its spelling checks it
                theirs = _attribute_types().get(key[:2], {})
                for attribute in bare(node).attribute:
                    onnx.checker.check_attribute(attribute, self.context)
                    kind = theirs.get(attribute.name, attribute.type)
                    if kind != attribute.type:
                        named = AttributeProto.AttributeType.Name
                        raise onnx.checker.ValidationError(
                            f"attribute {shown(attribute.name)} has to be "
                            f"{named(kind)}, not {named(attribute.type)}"
                        )
                return
            onnx.checker.check_node(bare(node), self.context)
        except onnx.checker.ValidationError as error:
            # GroupNormalization-18 is deprecated, but it is what exporters wrote.
            covered = any(a.op == key[1] and (opset or 0) <= a.until for a in ADAPTERS)
            known = "is deprecated" in str(error) or key[1] in EARLY
            if not key[0] and covered and known:
                return
            spelled = f"{where}, opset {opset}" if opset else where
            raise LoadError(first_line(error), spelled) from None


@cache
def _attribute_types() -> dict[tuple[str, str], dict[str, int]]:
    """Of the attributes of each operator, by domain and name, as ONNX Runtime says."""
    return {
        (op.domain, op.name): {k: each.type.value for k, each in op.attributes.items()}
        for op in runtime.get_all_operator_schema()
    }


def _check_parameters(node: NodeProto, body: GraphProto) -> None:
    """A branch takes no inputs, the body of a loop those of its node."""
    handed = {("", "If"): 0, ("", "Loop"): max(2, len(node.input))}
    wanted = handed.get(_callee(node)[:2])
    if wanted not in (None, len(body.input)):
        raise LoadError(
            f"graph {shown(body.name)} has {len(body.input)} inputs, not {wanted}",
            called(node),
            "a branch takes none, the body of a loop as many as its node, or two;"
            " ONNX Runtime refuses it too",
        )


_TYPES = ("to", "dtype", "output_dtype", "output_datatype")  # attributes


def bare(node: NodeProto) -> NodeProto:
    """A copy without the graphs and tensors, which are checked by themselves."""
    bare = NodeProto()
    bare.CopyFrom(node)
    bare.name = node.name or node.op_type  # for onnx's messages
    bare.domain = "" if node.domain == "ai.onnx" else node.domain
    for attribute in bare.attribute:
        if attribute.type == AttributeProto.GRAPH and not attribute.ref_attr_name:
            attribute.g.CopyFrom(GraphProto(name="checked"))
        for graph in attribute.graphs:
            graph.CopyFrom(GraphProto(name="checked"))
        for tensor in held(attribute):
            empty = TensorProto(dims=[0], data_type=tensor.data_type)
            tensor.CopyFrom(empty)
    return bare


def _check_order(nodes: list[NodeProto], uses: list[set[str]]) -> None:
    """Some order of the nodes computes every value before it is used: no cycle."""
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    waits = [{maker[name] for name in used if name in maker} for used in uses]
    if all(max(wait, default=-1) < i for i, wait in enumerate(waits)):
        return
    graph = nx.DiGraph((first, i) for i, wait in enumerate(waits) for first in wait)
    if nx.is_directed_acyclic_graph(graph):
        return
    parts = nx.strongly_connected_components(graph)
    at = min(i for x in parts for i in x if len(x) > 1 or graph.has_edge(i, i))
    raise LoadError(
        "the graph has a cycle", called(nodes[at]), "ONNX graphs are acyclic"
    )


def first_line(error: BaseException) -> str:
    """The first line of what an error says, at most 200 characters; else its type."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


# ---- what a model declares about itself: versions, types, texts


def _check_head(proto: ModelProto) -> None:
    """The file format is a known one, and the model says which operators it means."""
    if not _OLDEST_IR <= proto.ir_version <= _NEWEST_IR:
        raise LoadError(
            f"IR version {proto.ir_version} is not known",
            hint=f"IR versions {_OLDEST_IR} to {_NEWEST_IR} are supported",
        )
    if not proto.opset_import:
        raise LoadError(
            "the model does not say which operators it means",
            "it imports no operator set",
            "the file may be truncated; download or export the model again",
        )


def _versions_of(
    imports: MutableSequence[OperatorSetIdProto], where: str
) -> dict[str, int]:
    """Opset versions by domain, of which `imports` then has each once.

    `ai.onnx` is spelled as the empty name it stands for. Of a domain that is imported
    twice the last version counts, as in ONNX Runtime.
    """
    versions: dict[str, int] = {}
    for entry in imports:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        if not 0 < entry.version < 2**31:
            raise LoadError(
                f"{where} imports {shown(domain)} in an impossible version",
                f"version {entry.version}",
            )
        versions[domain] = entry.version
    opset = versions.get("", TARGET_OPSET)
    if not _OLDEST_OPSET <= opset <= _NEWEST_OPSET:
        raise LoadError(
            f"opset {opset} is not known",
            f"the imports of {where}",
            f"opsets {_OLDEST_OPSET} to {_NEWEST_OPSET} of ai.onnx are supported",
        )
    del imports[:]
    imports.extend(map(onnx.helper.make_opsetid, versions.keys(), versions.values()))
    return versions


def _check_text(message: Any, path: str = "") -> None:
    """Every text is UTF-8. What isn't, protobuf hands out as bytes, and silently."""
    for field, value in message.ListFields():
        here = f"{path}.{field.name}" if path else field.name
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                _check_text(inner, here)
        elif field.type == field.TYPE_STRING:
            texts = [value] if isinstance(value, str | bytes) else value
            if any(isinstance(text, bytes) for text in texts):
                raise LoadError(
                    "the model has a name or text that is not UTF-8", f"field {here}"
                )


def _check_type(kind: onnx.TypeProto, where: str) -> None:
    """A type is one there is, and its dimensions are not negative.

    A dimension of -1, which some exporters write, becomes unknown, and so does a type
    without an element type.
    """
    which = kind.WhichOneof("value")
    if which in ("sequence_type", "optional_type"):
        _check_type(getattr(kind, which).elem_type, where)
    elif which == "map_type":
        key = kind.map_type.key_type
        if key not in _KEY_TYPES:
            raise LoadError(f"{where} is a map with impossible keys", f"type {key}")
        _check_type(kind.map_type.value_type, where)
    elif which in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(kind, which)
        if tensor.elem_type not in _ELEMENT_TYPES:
            raise LoadError(
                f"{where} has an unknown element type", f"{tensor.elem_type}"
            )
        if tensor.elem_type == onnx.TensorProto.UNDEFINED:
            kind.Clear()
            return
        for dim in tensor.shape.dim:
            if dim.dim_value < -1:
                raise LoadError(f"{where} has a negative dimension", f"{dim.dim_value}")
            if dim.dim_value == -1 or not (dim.dim_param or dim.HasField("dim_value")):
                dim.Clear()  # open, and a name that is empty is none
