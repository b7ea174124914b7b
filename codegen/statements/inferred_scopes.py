"""The modules that a quantiser's own nodes stand in, by the nodes around them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ...analysis.ops.registry import lookup
from ..ir.assignment import Scope
from .module_scopes import common_scopes, weight_scopes

Scopes = tuple[Scope, ...]

JOINS = {"QLinearAdd": "add", "QLinearMul": "mul"}
_FAR = 50  # nodes


def rounds(node: ir.Node) -> bool:
    """Whether a quantiser put the node behind what computes its first input."""
    kinds = [x.op_type for x in (node, _before(node)) if x is not None]
    after = kinds == ["DequantizeLinear", "QuantizeLinear"]
    return (after or kinds[0] == "QuantizeLinear") and not node.domain


def ends_integers(node: ir.Node) -> bool:
    """Whether floats begin here, behind a sum of integers or the last product."""
    before = _before(node)
    if before is None or node.op_type != "DequantizeLinear" or node.domain:
        return False
    return before.op_type in (*JOINS, "QGemm")


def parts(node: ir.Node) -> bool:
    """Whether a node has several results that are read, and is no layer."""
    return not _is_layer(node) and sum(bool(v.uses()) for v in node.outputs) > 1


def ahead(node: ir.Node, found: Mapping[ir.Node, Scopes | None]) -> list[Scopes]:
    """Where the next nodes stand that say so themselves; nowhere, if none does."""
    todo, seen, named = [node], {node}, list[Scopes]()
    while todo and len(seen) < _FAR:
        for after in todo.pop().successors():
            scopes = found.get(after)
            scopes = weight_scopes(after) if scopes is None else scopes
            if scopes is not None:
                named.append(scopes)
            elif after not in seen:
                seen.add(after)
                todo.append(after)
    return named or [()]


def _before(node: ir.Node) -> ir.Node | None:
    value = node.inputs[0] if node.inputs else None
    return value.producer() if value is not None else None


def behind(node: ir.Node, settled: Mapping[ir.Node, Scopes]) -> Scopes:
    """Where a rounding stands: beside the layer before it, or in the same module."""
    before = _before(node)
    if before is None or not settled.get(before):
        return ()
    scopes = settled[before]
    if rounds(before) or not _is_layer(before):
        return scopes
    return (*scopes[:-1], _beside(scopes[-1], "round"))


def _beside(scope: Scope, what: str) -> Scope:
    head, dot, word = scope.path.rpartition(".")
    return Scope(f"{head}{dot}{what}" if word.isdigit() else f"{scope.path}_{what}")


def joining(node: ir.Node, settled: Mapping[ir.Node, Scopes]) -> Scopes:
    """Where a sum stands: in the module whose result, and perhaps whose input, it adds.

    What a module reads besides is its input, and says nothing of where the sum is. The
    sum of a layer and its bias stands beside the layer.
    """
    near = [n for n in node.predecessors() if n in settled]
    what = JOINS[node.op_type]
    if len(near) == 1 and _is_layer(near[0]) and settled[near[0]]:
        scopes = settled[near[0]]
        return (*scopes[:-1], _beside(scopes[-1], what))
    around = {n: settled[n][:-1] if _is_layer(n) else settled[n] for n in near}
    results = [
        n
        for n in near
        if not any(_reads(around[m], n, settled) for m in near if m is not n)
    ]
    found = common_scopes([around[n] for n in results])
    return (*found, Scope(f"{found[-1].path}.{what}")) if found else ()


def module_of(node: ir.Node, settled: Mapping[ir.Node, Scopes]) -> Scopes:
    """Where what follows stands; a sum of integers has a scope of its own there."""
    return settled[node][:-1] if node.op_type in JOINS else settled[node]


def _reads(module: Scopes, source: ir.Node, settled: Mapping[ir.Node, Scopes]) -> bool:
    """Whether a node in `module` reads what comes from outside of it."""
    depth = len(module)
    return settled[source][:depth] != module and any(
        settled[user][:depth] == module
        for user in source.successors()
        if user in settled
    )


def _is_layer(node: ir.Node) -> bool:
    op = lookup(node)
    return op is not None and op.module is not None
