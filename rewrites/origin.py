"""What new nodes are called, and which module they belong to.

A node that replaces several takes the scope they share, so that the emitted classes
stay those of the original program.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import onnx_ir as ir

# torch's exporter lists the modules around a node, outermost first, the node last.
_LISTS = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")


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
