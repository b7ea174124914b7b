"""All nodes and graphs of a model, in order, at little cost per node.

These give what `Graph.all_nodes`, `Model.graphs` and `Graph.sort` of onnx_ir do, which
take several times as long; a rewrite goes through a model dozens of times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import onnx_ir as ir

T = TypeVar("T", bound=Hashable)

_BODIES = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)


def all_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    """The nodes of a graph, each followed by those inside of it."""
    for node in graph:
        yield node
        if node.attributes.data:
            for body in bodies(node):
                yield from all_nodes(body)


def trimmed(inputs: Sequence[Any]) -> list[Any]:
    """Inputs of a node without those left out at the end."""
    kept = list(inputs)
    while kept and kept[-1] is None:
        kept.pop()
    return kept


def is_used(value: ir.Value) -> bool:
    """Whether a node reads it, or a graph returns it."""
    return bool(value.uses()) or value.is_graph_output()


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs that are attributes of a node: branches, loop bodies."""
    found: list[ir.Graph] = []
    # A view of `attributes` itself looks each of them up again.
    for attribute in node.attributes.data.values():
        if attribute.type in _BODIES and not attribute.is_ref():
            value = attribute.value
            found += [value] if isinstance(value, ir.Graph) else value
    return found


def reads_of(node: ir.Node) -> list[ir.Value]:
    """What a node reads, and what its bodies read from outside, each once."""
    found = dict.fromkeys(value for value in node.inputs if value is not None)
    for body in bodies(node):
        own = {*body.inputs, *body.initializers.values()}
        own.update(value for inner in body for value in inner.outputs)
        read = [*(value for inner in body for value in reads_of(inner)), *body.outputs]
        found.update(dict.fromkeys(value for value in read if value not in own))
    return list(found)


def reached(start: Iterable[T], ahead: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """These, and all that one comes to from them, each once."""
    found, todo = dict[T, None](), list(start)
    while todo:
        one = todo.pop()
        if one not in found:
            found[one] = None
            todo += ahead(one)
    return found


def all_graphs(model: ir.Model) -> list[ir.Graph]:
    """The graph of a model and those inside, from the outside in."""
    found = {model.graph: None}
    for node in all_nodes(model.graph):
        if node.attributes.data:
            found.update(dict.fromkeys(bodies(node)))
    return list(found)


def sort(graph: ir.Graph) -> None:
    """Put nodes in an order in which they can be computed, the one they have if it is.

    The stable sort of onnx_ir leaves such an order as it is, so it need not run.
    """
    seen: set[ir.Node | None] = {None}
    for node in graph:
        for x in node.inputs:
            if x is not None and x.producer() not in seen:
                graph.sort()
                return
        if bodies(node):
            graph.sort()
            return
        seen.add(node)
