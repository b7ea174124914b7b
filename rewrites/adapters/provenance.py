"""What new nodes are called, which module they belong to, and where they come from.

A node that replaces several takes the scope they share, so that the emitted classes
stay those of the original program. It also remembers the nodes of the file that it
does the work of, so that a line of emitted code can be led back to them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ...analysis.graph.traversal import all_nodes, bodies

# torch's exporter lists the modules around a node, outermost first, the node last.
_LISTS = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")

_MOVES = frozenset("Cast Expand Reshape Slice Squeeze Transpose Unsqueeze".split())
_NUMBER = "fairhand.node"  # metadata, since that is what the inliner passes on


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
    names = [node.name or f"{node.op_type}_{i}" for i, node in enumerate(numbered)]
    for node in all_nodes(model.graph):
        number = node.metadata_props.pop(_NUMBER, None)
        if number is not None:
            node.meta["behind"] = (names[int(number)],)
    constants = [n for n, node in zip(names, numbered, strict=True) if _is_plain(node)]
    model.meta["nodes"] = tuple(dict.fromkeys(names))
    model.meta["constants"] = set(constants)


def _is_plain(node: ir.Node) -> bool:
    return node.op_type == "Constant" and not node.domain


def own_origins(node: ir.Node) -> tuple[str, ...]:
    """As `behind`, its graphs left out."""
    found: tuple[str, ...] = node.meta.get("behind", ())
    return found


def behind(node: ir.Node) -> tuple[str, ...]:
    """Names of the nodes of the file whose work a node does, its graphs included."""
    inner = [
        name
        for graph in bodies(node)
        for inside in all_nodes(graph)
        for name in own_origins(inside)
    ]
    own = own_origins(node)
    return tuple(dict.fromkeys((*own, *inner))) if inner else own


def take_over(new: Iterable[ir.Node], old: Iterable[ir.Node]) -> tuple[str, ...]:
    """`new` nodes do the work of `old` ones from here on; returns whose that is.

    New nodes that compute come with some that only bring operands into place. Those do
    the work of what moved elements before, if anything did.
    """
    new, old = list(new), list(old)
    names = [(node.op_type in _MOVES, behind(node)) for node in old]
    replaced = tuple(dict.fromkeys([x for _, found in names for x in found]))
    moved = tuple(dict.fromkeys([x for moves, found in names if moves for x in found]))
    computes = any(node.op_type not in _MOVES for node in new)
    for node in new:
        sources = moved if computes and node.op_type in _MOVES else replaced
        own = behind(node)
        node.meta["behind"] = tuple(dict.fromkeys((*own, *sources))) if own else sources
    return replaced


def became_constants(model: ir.Model, nodes: Iterable[ir.Node]) -> None:
    """Note that nodes are gone because what they compute is stored instead."""
    for node in nodes:
        model.meta.setdefault("constants", set()).update(behind(node))


def shared_metadata(nodes: Sequence[ir.Node]) -> dict[str, str]:
    """The metadata of nodes that are merged into one."""
    first = dict(nodes[0].metadata_props)
    if all(node.metadata_props == nodes[0].metadata_props for node in nodes[1:]):
        return first
    names = [_listed(node.metadata_props.get(_LISTS[0])) for node in nodes]
    if not all(names):
        return next((dict(n.metadata_props) for n in nodes if n.metadata_props), {})
    depth = _common([scopes[:-1] for scopes in names])
    result = {}
    for key in _LISTS:
        scopes = _listed(nodes[0].metadata_props.get(key))
        if scopes:
            result[key] = repr([*scopes[:depth], scopes[-1]])
    return result


def shared_name(nodes: Sequence[ir.Node], op: str) -> str:
    """A path like those of the merged nodes: '/encoder/layer.0/Gelu'."""
    paths = [(node.name or "").split("/")[:-1] for node in nodes]
    depth = _common(paths)
    if depth <= 1:
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


def _listed(text: str | None) -> list[str]:
    if not text or len(text) > 10_000:
        return []
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(item) for item in found] if isinstance(found, list) else []
