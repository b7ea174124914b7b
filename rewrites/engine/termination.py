"""Why rewriting ends: every application makes the graph lighter.

The weight of a graph is the sum of its nodes' weights, whole numbers of at least 1; a
node that computes a constant weighs nothing, for it is folded. An application replaces
the nodes that die by the nodes that are new, and the engine refuses it unless

    weight   (measure "weight", the default)  the weight falls, or
    flops    the weight stays or falls and the number of operations falls, or
    order    the weight stays or falls and a movement comes to stand below one more
             elementwise node than before, or below one movement less; no rule moves
             one up.

Steps that only together make the graph lighter (layout.py) are weighed as one: such a
plan is made for a graph that is lighter than any that one was made for before.

The order is lexicographic: (weight, operations, nodes that stand below movements, pairs
of movements of which one stands below the other). A
pair of measures can't take turns, since "flops" and "order" never raise the weight and
"order" never raises the number of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx_ir as ir

from ...analysis.graph.constants import is_constant
from ..language.operators.read_write import Draft, Input, NewConstant, Output

# A node is worth 10. What a reader passes over is worth less, what a machine works at
# more, so that a rule may trade one for the other.
_WEIGHTS = {
    **dict.fromkeys(("Conv", "ConvTranspose"), 40),
    "MatMul": 30,
    "ScatterND": 40,
    "Einsum": 60,  # a product and the transposes that its equation hides
    **dict.fromkeys(("Gemm", "Attention"), 35),
    **dict.fromkeys(("Identity",), 1),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten"), 6),
    **dict.fromkeys(("Transpose", "Slice", "Split", "Gather"), 7),
    "Div": 11,  # x * (1 / c) is cheaper
    "Pow": 14,
    "GatherND": 14,  # more than a Gather and what makes a column a row
    "Sub": 10,
    "Cast": 6,
}


def _weight_of(op: str) -> int:
    """The weight of one node that doesn't compute a constant."""
    return _WEIGHTS.get(op, 10)


IsConstant = Callable[[ir.Value], bool]


def weight(nodes: Iterable[ir.Node], is_constant: IsConstant = is_constant) -> int:
    """The weight of nodes in a graph."""
    return sum(
        _weight_of(node.op_type)
        for node in nodes
        if not (node.outputs and is_constant(node.outputs[0]))
    )


def draft_weight(drafts: Iterable[Draft], is_constant: IsConstant) -> int:
    """The weight of planned nodes."""
    constant: set[int] = set()
    total = 0
    for draft in drafts:
        if draft.inputs and all(
            _is_constant(x, constant, is_constant) for x in draft.inputs
        ):
            constant.add(id(draft))
        else:
            total += _weight_of(draft.op_type)
    return total


def _is_constant(x: Input, drafts: set[int], is_constant: IsConstant) -> bool:
    if isinstance(x, Output):
        return id(x.draft) in drafts
    return x is None or isinstance(x, NewConstant) or is_constant(x)


def dying(nodes: list[ir.Node], roots: Iterable[ir.Value]) -> list[ir.Node]:
    """Those of the matched nodes that nothing uses once the results are replaced."""
    replaced = set(roots)
    dead: dict[ir.Node, None] = {}
    changed = True
    while changed:
        changed = False
        for node in nodes:
            if node in dead:
                continue
            if all(_is_unused(y, replaced, dead) for y in node.outputs):
                dead[node] = None
                changed = True
    return list(dead)


def _is_unused(
    value: ir.Value, replaced: set[ir.Value], dead: dict[ir.Node, None]
) -> bool:
    if value in replaced:
        return True
    return not value.is_graph_output() and all(user in dead for user, _ in value.uses())
