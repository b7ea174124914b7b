"""Where the matcher looks: chains of one operator, and further results of a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import onnx_ir as ir

from ...analysis.graph.constants import is_constant
from ...analysis.graph.traversal import all_nodes, bodies
from ..language.operators.read_write import trimmed
from ..language.pattern import Apply, Chain, Many, Node, Term, leaves
from .bindings import Binding


def same_function(a: ir.Node, b: ir.Node, arity: int) -> bool:
    """Whether two elementwise nodes differ in their operands alone."""
    others = [trimmed(node.inputs)[arity:] for node in (a, b)]
    attributes = [{k: v.value for k, v in n.attributes.items()} for n in (a, b)]
    return (
        a.op_type == b.op_type
        and attributes[0] == attributes[1]
        and len(others[0]) == len(others[1])
        and all(x is y for x, y in zip(*others, strict=True))
    )


def flattened(
    value: ir.Value, op: str, count: int
) -> Iterator[tuple[list[ir.Value], list[ir.Node]]]:
    """The ways to read `value` as `op` of `count` operands."""
    root = value.producer()
    if root is None or not _is(root, op):
        return
    stack: list[tuple[list[ir.Value], list[ir.Node]]] = [
        ([x for x in root.inputs if x is not None], [root])
    ]
    while stack:
        operands, nodes = stack.pop()
        if len(operands) == count:
            yield operands, nodes
            continue
        for i, operand in enumerate(operands):
            inner = operand.producer()
            if inner is None or not _is(inner, op) or len(operand.uses()) > 1:
                continue
            if is_constant(operand):  # will be one number, and isn't taken apart
                continue
            opened = [x for x in inner.inputs if x is not None]
            if len(operands) + len(opened) - 1 <= count:
                stack.append(
                    (operands[:i] + opened + operands[i + 1 :], [*nodes, inner])
                )


def _is(node: ir.Node, op: str) -> bool:
    return node.op_type == op and not node.domain and len(node.inputs) == 2


def candidates(term: Term, binding: Binding) -> Iterator[ir.Value]:
    """Values that another result of the rule may be: users of what is bound."""
    assert isinstance(term, Apply)
    shared = [leaf for leaf in leaves([term]) if leaf in binding.values]
    if not shared:
        return
    # Each of them would do.
    leaf = min(shared, key=lambda leaf: len(binding.values[leaf].uses()))
    used_once = len(binding.values[leaf].uses()) == 1
    if used_once and binding.nodes.keys().isdisjoint(nodes_of(term)):
        return  # by what is bound already
    frontier = [binding.values[leaf]]
    for _ in range(3):  # the shared operand stands at most this deep
        users = [node for v in frontier for node, _ in v.uses()]
        for node in dict.fromkeys(users):
            wide = term.output < len(node.outputs)
            if node.op_type == term.node.operator.name and wide:
                yield node.outputs[term.output]
        frontier = [y for node in users[:32] for y in node.outputs]


@cache
def nodes_of(term: Term) -> frozenset[Node]:
    """The nodes of a pattern."""
    if isinstance(term, Apply):
        inner = [x for x in term.node.inputs if x is not None]
        return frozenset([term.node]).union(*map(nodes_of, inner))
    if isinstance(term, Chain):
        return frozenset().union(*map(nodes_of, term.parts))
    return nodes_of(term.form) if isinstance(term, Many) else frozenset()


def may_depend(left: Sequence[Term], binding: Binding) -> bool:
    """Whether an operand may be computed from a result: merging would make a cycle.

    What every result is computed from can't be. Of other operands not more than so many
    nodes are looked at, or each match would walk through the whole graph.
    """
    results = {binding.value_of(term) for term in left if isinstance(term, Apply)}
    inner = set(binding.nodes.values()) | set(binding.chains)
    shared = set(leaves(left[:1])).intersection(*(leaves([term]) for term in left[1:]))
    stack = [v for leaf, v in binding.values.items() if leaf not in shared]
    seen: set[ir.Value] = set()
    while stack:
        value = stack.pop()
        if value in results or len(seen) > _FAR:
            return True
        producer = value.producer()
        if value in seen or producer is None or producer in inner:
            continue
        seen.add(value)
        stack += [x for x in producer.inputs if x is not None]
        for body in bodies(producer):  # uses what is around it, too
            stack += [x for node in all_nodes(body) for x in node.inputs if x]
    return False


_FAR = 4096
