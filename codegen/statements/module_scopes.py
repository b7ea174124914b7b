"""Where a node stood in the original program: module paths and class names.

Sources, in order of trust: the metadata of torch's exporter (`name_scopes` and
`class_hierarchy`), then node names that are paths (TorchScript, TensorFlow, Paddle).
Paths are dotted attribute paths, e.g. layers.0.attention.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.graph.traversal import all_nodes
from ...analysis.literals import strings_in
from ...analysis.ops.module_form import ModuleForm
from ..ir.assignment import Scope
from ..ir.naming import last_word

_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
MAX_DEPTH = 32
_NORM = re.compile(r"norm\w*\.\w+$", re.IGNORECASE)  # LayerNorm.bias


class FileNames:
    """What the names in a file say of the modules that its nodes stand in.

    A node's own name has the modules that were called, `/attn_1/qkv`; a weight's has
    those that hold them too, which nobody calls: `blocks.1.attn.qkv.weight`.
    """

    def __init__(self, model: ir.Model) -> None:
        names = [
            name[:500].split(".") for name in model.graph.initializers if "." in name
        ]
        self._words = frozenset(word for words in names for word in words)
        self._modules = {
            tuple(words[:n]) for words in names for n in range(1, len(words))
        }
        self._held: dict[str, tuple[Scope, ...]] = {}
        nodes = list(all_nodes(model.graph))
        scopes = (strings_in(node.metadata_props.get(_SCOPES)) for node in nodes)
        self._stood_in = {path for around in scopes for path in around[:-1]}
        at_home = {_caller(n) for n in nodes if self._reads_own(n)}
        away = [n for n in nodes if _caller(n) not in at_home]
        self._place(away, _holders, reads=True)
        unknown = [n for n in away if self._is_unknown(n)]
        count = -1
        while count != len(self._held):  # what has no weights, by what is beside it
            count = len(self._held)
            rest = [n for n in unknown if _caller(n) not in self._held]
            self._place(rest, self._beside)

    def scopes(self, node: ir.Node) -> tuple[Scope, ...] | None:
        """The modules around a node, outermost first, the network itself left out.

        None where the file doesn't say, as for nodes that an optimiser made.
        """
        names = strings_in(node.metadata_props.get(_SCOPES))
        if names and names[0] == "":  # the network itself comes first
            classes = strings_in(node.metadata_props.get(_CLASSES))
            return self._by_weight(node, _from_metadata(names, classes))
        if "/" not in (node.name or ""):
            return None
        return self._held.get(_caller(node)) or self._called(_caller(node))

    def _by_weight(self, node: ir.Node, scopes: tuple[Scope, ...]) -> tuple[Scope, ...]:
        """What an exporter made of a layer and the norm behind it stands in the norm.

        No weight is called after that, and its own, which nobody else reads, after the
        layer; one that a layer elsewhere has too may be called after that one.
        """
        own = scopes[-1].path if scopes else ""
        if scopes and tuple(own.split(".")) not in self._modules:
            own_weights = [
                v for v in node.inputs if v is not None and len(v.uses()) == 1
            ]
            for value in own_weights:
                path, _, last = (value.name or "")[:500].rpartition(".")
                is_beside = last == "weight" and _are_beside(path, own)
                if path and is_beside and path not in self._stood_in:
                    return (*scopes[:-1], Scope(path))
        return scopes

    def inside_of(self, owner: ir.Node, node: ir.Node) -> tuple[Scope, ...] | None:
        """Those of a node in a body: `rnn/while` is no module where it names the
        loop."""
        scopes = self.scopes(node)
        own = self._called(owner.name or "")
        if scopes is None or not own:
            return scopes
        return tuple(scope for scope in scopes if scope.path != own[-1].path)

    def _is_unknown(self, node: ir.Node) -> bool:
        """Whether a node's name has a module that no weight is called after."""
        paths = (tuple(s.path.split(".")) for s in self._called(_caller(node)))
        return any(path not in self._modules for path in paths)

    def _reads_own(self, node: ir.Node) -> bool:
        """Whether a node reads a weight of the very module that its name has."""
        scopes = self._called(_caller(node))
        return bool(scopes) and scopes[-1].path.split(".") in _holders(node)

    def _place(
        self,
        nodes: list[ir.Node],
        holders: Callable[[ir.Node], list[list[str]]],
        reads: bool = False,
    ) -> None:
        """Modules by what holds them, as most nodes called alike have it."""
        votes: dict[str, Counter[tuple[Scope, ...]]] = {}
        for node in nodes:
            caller = _caller(node)
            literal = self._called(caller)
            for words in holders(node):
                held = self._called(caller, words, reads)
                # Equal weights share a name: it tells of the module that holds it.
                own = held and held[-1].path.split(".")[: len(words)] == words
                if held != literal and (own or not reads):
                    votes.setdefault(caller, Counter())[held] += 1
        for caller, found in votes.items():
            self._held[caller] = found.most_common(1)[0][0]

    def _beside(self, node: ir.Node) -> list[list[str]]:
        near = (*node.predecessors(), *node.successors())
        scopes = [self._held.get(_caller(other), ()) for other in near]
        return [found[-1].path.split(".") for found in scopes if found]

    def _called(
        self, caller: str, holder: Sequence[str] = (), reads: bool = False
    ) -> tuple[Scope, ...]:
        """'/layer1/layer1.0/conv1' -> layer1, layer1.0, layer1.0.conv1.

        `holder` has the modules in between, where no weight is called so, or where it
        holds what the node itself reads: `/norm` may be any norm of a network.
        """
        path: list[str] = []
        previous = ""
        scopes = []
        for segment in filter(None, caller.strip("/").split("/")[:MAX_DEPTH]):
            # TorchScript repeats the parent's label in the children of a container.
            inside = previous and segment.startswith(f"{previous}.")
            relative = segment[len(previous) + 1 :] if inside else segment
            if inside:  # its next child, of no other module
                path = [*path, *self._first_call(relative).split(".")]
            else:
                path = self._step(path, relative, list(holder), reads)
            scopes.append(Scope(".".join(path)))
            previous = segment
        return tuple(scopes)

    def _step(
        self, path: list[str], relative: str, holder: list[str], reads: bool
    ) -> list[str]:
        words = self._first_call(relative).split(".")
        known = not reads and (*path, *words) in self._modules
        if not known:  # a module that is given another calls it for whoever holds it
            pairs = enumerate(zip(path, holder, strict=False))
            apart = next((i for i, (a, b) in pairs if a != b), len(path))
            for at in range(apart, len(holder)):
                if holder[at : at + len(words)] == words:
                    return holder[: at + len(words)]
        return path + words

    def _first_call(self, segment: str) -> str:
        """TorchScript numbers a module's calls: `query_1` is `query` called again."""
        stem, _, word = segment.rpartition(".")
        base, _, number = word.rpartition("_")
        if number.isdigit() and base in self._words and word not in self._words:
            return f"{stem}.{base}" if stem else base
        return segment


def _caller(node: ir.Node) -> str:
    """The modules in a node's name.

    TensorFlow Lite joins the names of what it fuses, `net/act/Relu;net/conv/BiasAdd;
    net/conv/Conv2D`: the module that most of them have is that of the weights.
    """
    callers = [name.rpartition("/")[0] for name in (node.name or "").split(";")]
    return Counter(callers).most_common(1)[0][0]


def _holders(node: ir.Node) -> list[list[str]]:
    """The modules in the names of the weights that a node reads."""
    names = (v.name or "" for v in node.inputs if v is not None and v.const_value)
    return [name[:500].split(".")[:-1] for name in names if "." in name]


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


def network_class(model: ir.Model) -> str:
    """The original class of the whole network, or '' where the file doesn't say."""
    for node in model.graph:
        classes = strings_in(node.metadata_props.get(_CLASSES))
        names = strings_in(node.metadata_props.get(_SCOPES))
        if len(classes) > 1 and names and names[0] == "":
            return classes[0].rpartition(".")[2]
    return ""


def form_path(
    form: ModuleForm, scopes: tuple[Scope, ...], faithful: bool = False
) -> str:
    """The attribute path of a layer: from its parameters' names, else from its scope.

    A parameter's name counts only inside the module that the layer stands in: exporters
    give equal arrays one name, so a norm may carry the name of its twin elsewhere. A
    convolution folded with the norm after it stands in that norm's scope. Of a matrix
    and a norm that became one layer, the matrix names it. TorchScript calls /block/norm
    what a block calls of the network's `norm`: if `faithful`, that is its path.
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
        if not scopes or path == leaf or path.startswith(f"{leaf}."):
            return path
        if faithful and not scopes[-1].class_hint and leaf.endswith(f".{path}"):
            return path
        if folded and _are_beside(path, leaf):
            return path
    return leaf


def _are_beside(one: str, other: str) -> bool:
    """block.conv and block.bn, or block.convs.0 and block.bns.0."""
    a, b = one.split("."), other.split(".")
    apart = [i for i in range(min(len(a), len(b))) if a[i] != b[i]]
    behind = a[max(apart, default=0) + 1 :]
    return len(apart) == 1 and len(a) == len(b) and all(map(str.isdigit, behind))


def _merged_path(names: list[str]) -> str:
    """attention.qkv, if a matrix is those of attention.query, .key and .value."""
    paths = dict.fromkeys(n[:-7] for n in names if last_word(n) == "weight")
    parents = {path.rpartition(".")[0] for path in paths}
    letters = sorted(path.rpartition(".")[2][:1] for path in paths)
    if len(parents) != 1 or letters != ["k", "q", "v"]:
        return ""
    return ".".join(filter(None, (*parents, "qkv")))


def _from_metadata(names: list[str], classes: list[str]) -> tuple[Scope, ...]:
    # The first entry is the network, the last the operator itself.
    scopes = []
    for i, name in enumerate(names[1:-1][:MAX_DEPTH], start=1):
        hint = classes[i].rpartition(".")[2] if i < len(classes) else ""
        scopes.append(Scope(name, hint))
    return tuple(scopes)
