"""Gradient of ai.onnx.preview.training, written out by the chain rule.

The operator names a value y of its graph and values xs that y is computed from. Each
result is dy/dx: backwards from y, every operator hands on to its operands, by its own
derivative, what it is given.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ..by_type import LoweringSite, lowering

# What an operand is given: the site, the node, and the derivative by its result.
Rule = Callable[[LoweringSite, ir.Node, ir.Value], "list[ir.Value]"]


@lowering("Gradient", domain="ai.onnx.preview.training")
def _gradient(site: LoweringSite) -> list[ir.Value]:
    xs = _named(site, site.words("xs"))
    zs = _named(site, site.words("zs"))
    if list(site.node.inputs) != [*xs, *zs]:
        raise site.unsupported("it is to be taken at other values than those it names")
    (y,) = _named(site, [site.text("y", "")])
    total: dict[ir.Value, ir.Value] = {y: _ones(site, y)}
    needed = _between(set(xs), y, stop={*xs, *zs})
    for node in reversed(needed):
        given = total.get(node.outputs[0])
        if given is None or node.outputs[0] in xs:
            continue
        rule = RULES.get(node.op_type) if not node.domain else None
        if rule is None:
            raise site.unsupported(f"the derivative of {node.op_type} is not known")
        for x, part in zip(node.inputs, rule(site, node, given), strict=True):
            assert x is not None
            known = total.get(x)
            total[x] = part if known is None else site.before("Add", [known, part], "d")
    missing = [x.name for x in xs if x not in total]
    if missing:
        raise site.unsupported(f"y does not depend on {missing[0]!r}")
    return [total[x] for x in xs]


def _named(site: LoweringSite, names: list[str]) -> list[ir.Value]:
    values = {
        v.name: v for v in (*site.graph.inputs, *site.graph.initializers.values())
    }
    for node in site.graph:
        values.update((v.name, v) for v in node.outputs)
    for name in names:
        if name not in values:
            raise site.unsupported(f"it names {name!r}, which its graph does not have")
    return [values[name] for name in names]


def _between(xs: set[ir.Value], y: ir.Value, stop: set[ir.Value]) -> list[ir.Node]:
    """The nodes on the ways from xs to y, in an order in which they are computed."""
    found: dict[ir.Node, None] = {}
    leads: dict[ir.Value, bool] = {}
    stack = [y]
    while stack:
        value = stack[-1]
        node = value.producer()
        if value in leads or value in stop or node is None:
            leads.setdefault(value, value in xs)
            stack.pop()
            continue
        waiting = [x for x in node.inputs if x is not None and x not in leads]
        if waiting:
            stack += waiting
            continue
        leads[value] = any(leads[x] for x in node.inputs if x is not None)
        if leads[value]:
            found[node] = None
        stack.pop()
    return list(found)


def _ones(site: LoweringSite, like: ir.Value) -> ir.Value:
    if like.dtype is None:
        raise site.unsupported(f"the type of {like.name!r} is unknown")
    one = site.constant("one", np.ones((), like.dtype.numpy()))
    return site.before("Expand", [one, site.before("Shape", [like], "shape")], "ones")


# ---- what operators hand on


def _fitted(site: LoweringSite, part: ir.Value, x: ir.Value, out: ir.Value) -> ir.Value:
    """Added up over the axes that broadcasting gave the operand."""
    if x.shape is None or out.shape is None:
        raise site.unsupported(f"the rank of {x.name!r} is unknown")
    wide, own = list(out.shape), list(x.shape)
    more = len(wide) - len(own)
    added = list(range(more))
    single = [more + i for i, n in enumerate(own) if n == 1 and wide[more + i] != 1]
    if any(n != 1 and n != wide[more + i] for i, n in enumerate(own)):
        raise site.unsupported(f"sizes of {x.name!r} are unknown")
    if single:
        part = site.before("ReduceSum", [part, site.ints("a", single)], "d", keepdims=1)
    if added:
        part = site.before("ReduceSum", [part, site.ints("b", added)], "d", keepdims=0)
    return part


def _spread(parts: Rule) -> Rule:
    """A rule for an operator that broadcasts."""

    def rule(site: LoweringSite, node: ir.Node, given: ir.Value) -> list[ir.Value]:
        out = node.outputs[0]
        pairs = zip(parts(site, node, given), node.inputs, strict=True)
        return [_fitted(site, part, x, out) for part, x in pairs if x is not None]

    return rule


def _do(site: LoweringSite, op: str, *inputs: ir.Value | None) -> ir.Value:
    return site.before(op, inputs, "d")


def _mul(site: LoweringSite, node: ir.Node, given: ir.Value) -> list[ir.Value]:
    a, b = node.inputs
    return [_do(site, "Mul", given, b), _do(site, "Mul", given, a)]


def _div(site: LoweringSite, node: ir.Node, given: ir.Value) -> list[ir.Value]:
    (_, b), out = node.inputs, node.outputs[0]
    first = _do(site, "Div", given, b)
    return [first, _do(site, "Neg", _do(site, "Mul", first, out))]


def _relu(site: LoweringSite, node: ir.Node, given: ir.Value) -> list[ir.Value]:
    return [_do(site, "Mul", given, site.before("Sign", [node.outputs[0]], "slope"))]


RULES: dict[str, Rule] = {
    "Identity": lambda site, node, given: [given],
    "Neg": lambda site, node, given: [_do(site, "Neg", given)],
    "Exp": lambda site, node, given: [_do(site, "Mul", given, node.outputs[0])],
    "Log": lambda site, node, given: [_do(site, "Div", given, node.inputs[0])],
    "Relu": _relu,
    "Add": _spread(lambda site, node, given: [given, given]),
    "Sub": _spread(lambda site, node, given: [given, _do(site, "Neg", given)]),
    "Mul": _spread(_mul),
    "Div": _spread(_div),
}
