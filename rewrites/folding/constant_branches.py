"""An If whose condition is a constant becomes the branch that it takes.

One whose branches are the constants True and False is its condition, or denies it.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.graph.traversal import all_nodes

BRANCHES = "then_branch", "else_branch"


def take_branches(model: ir.Model) -> int:
    """Put the nodes of each decided branch in the place of its If; returns how many."""
    count = 0
    while True:
        decided = (n for n in all_nodes(model.graph) if _condition(n) is not None)
        node = next(decided, None)
        if node is None:
            return count
        # What a branch holds may be decided too, which the next round finds.
        take(node, bool(_condition(node)))
        count += 1


def _condition(node: ir.Node) -> bool | None:
    if node.op_type != "If" or node.domain or not node.inputs[0]:
        return None
    tensor = node.inputs[0].const_value
    if tensor is None or tensor.size != 1:
        return None
    return bool(tensor.numpy().reshape(-1)[0])


def take(node: ir.Node, truth: bool) -> None:
    """Put the nodes of one branch, the first if `truth`, in the place of an If."""
    graph = node.graph
    assert graph is not None
    branch = node.attributes[BRANCHES[not truth]].as_graph()
    results = list(branch.outputs)
    branch.outputs.clear()
    for name, value in list(branch.initializers.items()):
        del branch.initializers[name]
        graph.register_initializer(value)
    nodes = list(branch)
    branch.remove(nodes)
    graph.insert_before(node, nodes)
    replace_results(node, results)
    graph.remove(node, safe=True)


def replace_results(node: ir.Node, results: Sequence[ir.Value]) -> None:
    """Give what reads an If's results, or returns them, others in their place."""
    graph = node.graph
    assert graph is not None
    for out, result in zip(node.outputs, results, strict=True):
        if out.is_graph_output() and not _can_be_output(result, graph):
            same = ir.node("Identity", [result], name=f"{node.name}_{out.name}")
            graph.insert_before(node, same)
            result = same.outputs[0]
            result.type, result.shape = out.type, out.shape
        was_output, name = out.is_graph_output(), out.name or ""
        out.replace_all_uses_with(result, replace_graph_outputs=True)
        if was_output:
            out.name = f"{name}_decided"
            result.name = name


def _can_be_output(value: ir.Value, graph: ir.Graph | ir.Function) -> bool:
    node = value.producer()
    return node is not None and node.graph is graph and not value.is_graph_output()


def take_truths(model: ir.Model, shapes: ShapeFacts) -> None:
    """Put Identity or Not in the place of each If that only asks for a truth."""
    for node in list(all_nodes(model.graph)):
        then = _only_truth(node, "then_branch")
        if then is None or _only_truth(node, "else_branch") is not (not then):
            continue
        condition = node.inputs[0]
        if condition is None or shapes.rank(condition) != 0:
            continue
        for name in BRANCHES:
            del node.attributes[name]
        node.op_type = "Identity" if then else "Not"
        node.outputs[0].type = ir.TensorType(ir.DataType.BOOL)


def _only_truth(node: ir.Node, branch: str) -> bool | None:
    """The constant that a branch of an If is, if that is all that it gives."""
    if node.op_type != "If" or node.domain or len(node.outputs) != 1:
        return None
    value = node.attributes[branch].as_graph().outputs[0]
    tensor = value.const_value
    if tensor is None or tensor.dtype != ir.DataType.BOOL or tensor.shape.rank():
        return None
    return bool(tensor.numpy())
