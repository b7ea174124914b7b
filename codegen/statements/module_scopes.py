"""Where a node stood in the original program: module paths and class names.

Sources, in order of trust: the metadata of torch's exporter (`name_scopes` and
`class_hierarchy`), then node names that are paths (TorchScript, TensorFlow, Paddle).
Paths are dotted attribute paths, e.g. layers.0.attention.
"""

from __future__ import annotations

import ast
import re

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.ops.module_form import ModuleForm
from ..ir.assignment import Scope
from ..ir.naming import last_word

_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
MAX_DEPTH = 32
_NORM = re.compile(r"norm\w*\.\w+$", re.IGNORECASE)  # LayerNorm.bias


def scopes_of(node: ir.Node, attributes: frozenset[str]) -> tuple[Scope, ...] | None:
    """The modules around a node, outermost first, the network itself left out.

    None where the file doesn't say, as for nodes that an optimiser made. `attributes`
    are the words of the file's dotted weight names (see attribute_words).
    """
    names = _strings(node.metadata_props.get(_SCOPES))
    if names and names[0] == "":  # the network itself comes first
        return _from_metadata(names, _strings(node.metadata_props.get(_CLASSES)))
    name = node.name or ""
    return _from_name(name, attributes) if "/" in name else None


def inside_of(
    owner: ir.Node, node: ir.Node, attributes: frozenset[str]
) -> tuple[Scope, ...] | None:
    """Those of a node in a body: `rnn/while` is no module where it names the loop."""
    scopes = scopes_of(node, attributes)
    own = _from_name(f"{owner.name}/", attributes)
    if scopes is None or not own:
        return scopes
    return tuple(scope for scope in scopes if scope.path != own[-1].path)


_INTEGER = ("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "QGemm")


def weight_scopes(node: ir.Node) -> tuple[Scope, ...] | None:
    """The modules in the name of a weight that a quantiser gave a new node."""
    names = [v.name or "" for v in node.inputs if v is not None and v.const_value]
    found = [name for name in names if last_word(name) == "weight_quantized"]
    if node.op_type not in _INTEGER or not found:
        return None
    words = found[0][:500].split(".")[:-1]
    paths = (".".join(words[: i + 1]) for i in range(min(len(words), MAX_DEPTH)))
    return tuple(Scope(path) for path in paths)


def scopes_of_weights(
    node: ir.Node, scopes: tuple[Scope, ...], known: dict[str, tuple[Scope, ...]]
) -> tuple[Scope, ...]:
    """A rewritten node stands in the module whose weight it uses, if others do."""
    for value in node.inputs:
        if value is not None and is_parameter(value) and value.name:
            inner = known.get(value.name.rpartition(".")[0], ())
            if inner and inner[:-1] == scopes:
                return inner
    return scopes


def common_scopes(paths: list[tuple[Scope, ...]]) -> tuple[Scope, ...]:
    """The modules around all of some nodes."""
    common = paths[0] if paths else ()
    for scopes in paths[1:]:
        same = 0
        while same < min(len(common), len(scopes)) and (
            common[same].path == scopes[same].path
        ):
            same += 1
        common = common[:same]
    return common


def attribute_words(model: ir.Model) -> frozenset[str]:
    """layers.0.fc1.bias -> layers, 0, fc1, bias: what the file calls a module."""
    names = (name for name in model.graph.initializers if "." in name)
    return frozenset(word for name in names for word in name[:500].split("."))


def network_class(model: ir.Model) -> str:
    """The original class of the whole network, or '' where the file doesn't say."""
    for node in model.graph:
        classes = _strings(node.metadata_props.get(_CLASSES))
        names = _strings(node.metadata_props.get(_SCOPES))
        if len(classes) > 1 and names and names[0] == "":
            return classes[0].rpartition(".")[2]
    return ""


def form_path(form: ModuleForm, scopes: tuple[Scope, ...]) -> str:
    """The attribute path of a layer: from its parameters' names, else from its scope.

    A parameter's name counts only inside the module that the layer stands in: exporters
    give equal arrays one name, so a norm may carry the name of its twin elsewhere. A
    convolution folded with the norm after it stands in that norm's scope. Of a matrix
    and a norm that became one layer, the matrix names it.
    """
    leaf = scopes[-1].path if scopes else ""
    folded = (
        bool(scopes) and "Norm" in scopes[-1].class_hint and "Norm" not in form.layer
    )
    names = [
        name
        for weight in form.weights.values()
        for name in (weight.value.name, *weight.value.meta.get("folded_from", ()))
    ]
    if "Norm" not in form.layer:
        names.sort(key=lambda name: _NORM.search(name or "") is not None)
    merged = _merged_path([name or "" for name in names])
    if merged:
        return merged
    for name in names:
        path, _, last = (name or "").rpartition(".")
        if not path or not last:
            continue
        beside = path.rpartition(".")[0] == leaf.rpartition(".")[0]
        if not scopes or path == leaf or path.startswith(f"{leaf}."):
            return path
        if folded and beside:
            return path
    return leaf


def _merged_path(names: list[str]) -> str:
    """attention.qkv, if a matrix is those of attention.query, .key and .value."""
    paths = dict.fromkeys(n[:-7] for n in names if last_word(n) == "weight")
    parents = {path.rpartition(".")[0] for path in paths}
    letters = sorted(path.rpartition(".")[2][:1] for path in paths)
    if len(parents) != 1 or letters != ["k", "q", "v"]:
        return ""
    return ".".join(filter(None, (*parents, "qkv")))


def _strings(text: str | None) -> list[str]:
    """A printed list of strings, or [] for anything else (the text is untrusted)."""
    if not text or len(text) > 10_000:
        return []
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    if isinstance(found, list) and all(isinstance(item, str) for item in found):
        return found
    return []


def _from_metadata(names: list[str], classes: list[str]) -> tuple[Scope, ...]:
    # The first entry is the network, the last the operator itself.
    scopes = []
    for i, name in enumerate(names[1:-1][:MAX_DEPTH], start=1):
        hint = classes[i].rpartition(".")[2] if i < len(classes) else ""
        scopes.append(Scope(name, hint))
    return tuple(scopes)


def _from_name(name: str, attributes: frozenset[str]) -> tuple[Scope, ...]:
    """'/layer1/layer1.0/conv1/Conv' -> layer1, layer1.0, layer1.0.conv1."""
    path, previous = "", ""
    scopes = []
    for segment in name.strip("/").split("/")[:-1][:MAX_DEPTH]:
        if not segment:
            continue
        # TorchScript repeats the parent's label in the children of a container.
        inside = previous and segment.startswith(f"{previous}.")
        relative = segment[len(previous) + 1 :] if inside else segment
        relative = _first_call(relative, attributes)
        path = f"{path}.{relative}" if path else relative
        scopes.append(Scope(path))
        previous = segment
    return tuple(scopes)


def _first_call(segment: str, attributes: frozenset[str]) -> str:
    """TorchScript numbers a module's calls: `query_1` is `query` called again."""
    stem, _, word = segment.rpartition(".")
    base, _, number = word.rpartition("_")
    if number.isdigit() and base in attributes and word not in attributes:
        return f"{stem}.{base}" if stem else base
    return segment
