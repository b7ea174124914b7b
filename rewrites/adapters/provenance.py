"""What new nodes are called, which module they belong to, and where they come from.

A node that replaces several takes the scope they share, so that the emitted classes
stay those of the original program. It also remembers the nodes of the file that it
does the work of, so that a line of emitted code can be led back to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import onnx_ir as ir

from ...analysis.graph.parameters import has_name, note_kind
from ...analysis.graph.traversal import all_nodes, bodies
from ...analysis.literals import strings_in

# torch's exporter lists the modules around a node, outermost first, the node last.
SCOPES = "pkg.torch.onnx.name_scopes"
CLASSES = "pkg.torch.onnx.class_hierarchy"
_LISTS = (SCOPES, CLASSES)

_MOVES = frozenset("Cast Expand Reshape Slice Squeeze Transpose Unsqueeze".split())
_NUMBER = "fairhand.node"  # metadata, since that is what the inliner passes on


class Origins:
    """Names in the order of their first mention; joining some copies none of them.

    A node that a thousand were merged into would else be told of them a thousand times.
    """

    __slots__ = ("_flat", "_parts")

    def __init__(self, parts: Iterable[str | Origins] = ()) -> None:
        self._parts = [part for part in parts if part]
        self._flat = all(isinstance(part, str) for part in self._parts)
        if all(isinstance(part, str) or part._flat for part in self._parts):
            names = list(_walk(self._parts))
            if self._flat or len(names) <= _FEW:
                self._parts, self._flat = [*names], True

    def __iter__(self) -> Iterator[str]:
        return _walk(self._parts)

    def __bool__(self) -> bool:
        return bool(self._parts)


_FEW = 32


def _walk(
    parts: Iterable[str | Origins],
    seen: set[int] | None = None,
    names: dict[str, None] | None = None,
) -> Iterator[str]:
    """Names that aren't among `names` yet, of parts that aren't `seen` yet."""
    seen = set() if seen is None else seen
    names = {} if names is None else names
    stack = [iter(parts)]
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
        elif isinstance(part, str):
            if part not in names:
                names[part] = None
                yield part
        elif id(part) not in seen:
            seen.add(id(part))
            stack.append(iter(part._parts))


def last_of(groups: Sequence[tuple[str, Origins]]) -> dict[str, str]:
    """By name, what stands beside the last origins that have it."""
    seen: set[int] = set()
    names: dict[str, None] = {}
    return {
        name: what
        for what, origins in reversed(groups)
        for name in _walk([origins], seen, names)
    }


def number_nodes(model: ir.Model) -> list[ir.Node]:
    """The nodes of the file. What is inlined for one of them carries its number."""
    for function in model.functions.values():
        for node in all_nodes(function.graph):
            node.metadata_props.pop(_NUMBER, None)
    nodes = list(all_nodes(model.graph))
    for i, node in enumerate(nodes):
        node.metadata_props[_NUMBER] = str(i)
    return nodes


def remember_origins(model: ir.Model, numbered: Sequence[ir.Node]) -> None:
    """Let every node know the node of the file behind it, now that it has a name."""
    # Functions that were called have no name yet where the file gives them none.
    names = [x.name or f"{x.op_type}_{i}" for i, x in enumerate(numbered)]
    for node in all_nodes(model.graph):
        number = node.metadata_props.pop(_NUMBER, None)
        if number is not None:
            node.meta["behind"] = Origins([names[int(number)]])
    pairs = zip(names, numbered, strict=True)
    constants = [n for n, x in pairs if x.op_type == "Constant" and not x.domain]
    model.meta["nodes"] = tuple(names)
    model.meta["constants"] = set(constants)


def own_origins(node: ir.Node) -> Origins:
    """As `behind`, its graphs left out."""
    found: Origins = node.meta.get("behind", _NONE)
    return found


_NONE = Origins()


def behind(node: ir.Node) -> Origins:
    """Names of the nodes of the file whose work a node does, its graphs included."""
    own = own_origins(node)
    graphs = bodies(node)
    if not graphs:
        return own
    inner = [own_origins(inside) for graph in graphs for inside in all_nodes(graph)]
    return _joined([own, *inner])


def _joined(parts: Iterable[Origins]) -> Origins:
    parts = list({id(part): part for part in parts if part}.values())
    return parts[0] if len(parts) == 1 else Origins(parts)


def take_over(new: Iterable[ir.Node], old: Iterable[ir.Node]) -> Origins:
    """`new` nodes do the work of `old` ones from here on; returns whose that is.

    New nodes that compute come with some that only bring operands into place. Those do
    the work of what moved elements before, if anything did.
    """
    new, old = list(new), list(old)
    names = [(node.op_type in _MOVES, behind(node)) for node in old]
    replaced = _joined(found for _, found in names)
    moved = _joined(found for moves, found in names if moves)
    computes = any(node.op_type not in _MOVES for node in new)
    for node in new:
        sources = moved if computes and node.op_type in _MOVES else replaced
        node.meta["behind"] = _joined([behind(node), sources])
    return replaced


def became_constants(model: ir.Model, nodes: Iterable[ir.Node]) -> None:
    """Note that nodes are gone because what they compute is stored instead."""
    gone = _walk([behind(node) for node in nodes])
    model.meta.setdefault("constants", set()).update(gone)


def shared_metadata(nodes: Sequence[ir.Node]) -> dict[str, str]:
    """The metadata of nodes that are merged into one."""
    first = dict(nodes[0].metadata_props)
    if all(node.metadata_props == nodes[0].metadata_props for node in nodes[1:]):
        return first
    names = [strings_in(node.metadata_props.get(SCOPES)) for node in nodes]
    if not all(names):
        return next((dict(n.metadata_props) for n in nodes if n.metadata_props), {})
    depth = _common([scopes[:-1] for scopes in names])
    result = {}
    for key in _LISTS:
        scopes = strings_in(nodes[0].metadata_props.get(key))
        if scopes:
            result[key] = repr([*scopes[:depth], scopes[-1]])
    return result


def shared_name(nodes: Sequence[ir.Node], op: str) -> str:
    """A path like those of the merged nodes: '/encoder/layer.0/Gelu'."""
    paths = [(node.name or "").split("/")[:-1] for node in nodes]
    depth = _common(paths)
    at_root = all(path == [""] for path in paths)  # '/Gelu' stands in no module
    if depth <= 1 and not at_root:
        return op
    return "/".join([*paths[0][:depth], op])


def _common(paths: Sequence[Sequence[str]]) -> int:
    """How many leading segments all of the paths share."""
    depth = 0
    for segments in zip(*paths, strict=False):
        if len(set(segments)) > 1:
            break
        depth += 1
    return depth


_CALL = "pkg.torch.onnx.fx_node"
_ROWS = re.compile(r"aten\.index\.Tensor\]\(args = \(%([pb])_(\w+), \[%")
_KINDS = {"p": "PARAMETER", "b": "BUFFER"}


def name_prepared(model: ir.Model) -> None:
    """Give constants that are indexed from their first axis on the names they had.

    An exporter turns them for that, and calls them val_7; the call that the node is of
    says which they were: `aten.index.Tensor(args = (%p_experts_w1, [%rows]))`.
    """
    taken = set(model.graph.initializers)
    for node in all_nodes(model.graph):
        value = node.inputs[0] if node.op_type in ("Gather", "GatherND") else None
        if value is None or not value.is_initializer() or has_name(value):
            continue
        call = _ROWS.search(node.metadata_props.get(_CALL, "")[:1000])
        module = "".join(strings_in(node.metadata_props.get(SCOPES))[-2:-1])
        start = f"{module}.".replace(".", "_")
        if call is None or not module or not call[2].startswith(start):
            continue
        name = f"{module}.{call[2].removeprefix(start)}"
        if name not in taken and re.fullmatch(r"[\w.]+", name):
            taken.add(name)
            value.name = name
            note_kind(value, _KINDS[call[1]])
