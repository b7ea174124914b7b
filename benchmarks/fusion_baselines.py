"""What a DNNFusion plan is measured against: no groups, and those of TVM's rules.

After Relay's FuseOps (Chen et al., OSDI 2018): a group grows from an operator to its
immediate post-dominator, if every operator on the way there is simple enough. Fusion
into tuples is left out: a Concat is an operator here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import IntEnum

import networkx as nx

from fairhand.analysis.dataflow.dag import Dag, Grouping
from fairhand.analysis.dataflow.dataflow import Dataflow, Operator
from fairhand.analysis.dataflow.mapping_types import most_complex
from fairhand.analysis.fusion.dnnfusion import FusionPlan, Group, plan_of
from fairhand.analysis.ops.registry import MANY_TO_MANY, ONE_TO_ONE, OPAQUE, OPS

MAX_DEPTH = 256  # operators in a group, TVM's default


class Pattern(IntEnum):
    """TVM's OpPatternKind, from simple to complex."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCTION = 3
    OUT_ELEMWISE_FUSABLE = 4
    OPAQUE = 8


# Where the mapping type doesn't say it.
PATTERNS = {
    Pattern.ELEMWISE: "Identity",
    Pattern.INJECTIVE: "CenterCropPad Concat OneHot Pad Slice Split Trilu",
    Pattern.REDUCTION: "ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp"
    " ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare",
    Pattern.OUT_ELEMWISE_FUSABLE: "AveragePool Conv ConvTranspose Gemm"
    " GlobalAveragePool GlobalMaxPool MatMul MaxPool",
}
_PATTERN_OF = {op: pattern for pattern, ops in PATTERNS.items() for op in ops.split()}


def pattern(op: Operator) -> Pattern:
    """TVM's class of an operator, by its mapping type where it isn't in PATTERNS."""
    known = OPS.get(("", op.kind))
    if op.mapping is OPAQUE:
        return Pattern.OPAQUE
    if op.kind in _PATTERN_OF:
        return _PATTERN_OF[op.kind]
    if op.mapping is MANY_TO_MANY:
        return Pattern.OPAQUE  # as TVM takes a Softmax
    if op.mapping is ONE_TO_ONE:
        return Pattern.ELEMWISE
    broadcasts = known is not None and known.mapping is ONE_TO_ONE
    return Pattern.BROADCAST if broadcasts else Pattern.INJECTIVE


def unfused(flow: Dataflow) -> FusionPlan:
    """Each operator alone."""
    groups = [Group((i,), op.mapping) for i, op in enumerate(flow.operators)]
    return plan_of("none", flow, groups, {})


def tvm(flow: Dataflow) -> FusionPlan:
    """Groups as TVM would make them."""
    patterns = [pattern(op) for op in flow.operators]
    returned = {t.producer for t in flow.tensors if t.returned}
    dominators = post_dominators(flow.dag, returned)
    grouping = Grouping(flow.dag)
    anchor = list(patterns)  # the pattern of a group, by its name

    def commit(start: int, path: set[int], sink: int) -> None:
        name = grouping.group_of[start]
        for node in sorted({*path, sink} - {start}):
            other = grouping.group_of[node]
            if other != name:
                grouping.merge(name, other)
                anchor[name] = max(anchor[name], anchor[other])

    for phase in range(2):
        for node, sink in enumerate(dominators):
            if sink is None or grouping.group_of[node] == grouping.group_of[sink]:
                continue
            path = _between(flow.dag, node, sink)
            way = max(patterns[i] for i in (*path, sink))
            bounds = _bounds(anchor[grouping.group_of[node]], way, phase)
            if bounds is None:
                continue
            inner, last = bounds
            names = {grouping.group_of[i] for i in (node, *path, sink)}
            if sum(len(grouping.members[g]) for g in names) > MAX_DEPTH:
                continue
            here = [anchor[grouping.group_of[i]] for i in path]
            if all(k <= inner for k in here) and last(anchor[grouping.group_of[sink]]):
                commit(node, path, sink)
    groups = [
        Group(tuple(m), most_complex(*(flow.operators[i].mapping for i in m)))
        for m in (sorted(grouping.members[g]) for g in grouping.in_order())
    ]
    return plan_of("tvm", flow, groups, {})


def _bounds(
    own: Pattern, way: Pattern, phase: int
) -> tuple[Pattern, Callable[[Pattern], bool]] | None:
    """What may lie on the way, and at its end; None where nothing is to be done."""
    if own is Pattern.OUT_ELEMWISE_FUSABLE:
        if phase == 0 and way is Pattern.ELEMWISE:
            return Pattern.BROADCAST, lambda k: k <= Pattern.BROADCAST
    elif own <= Pattern.BROADCAST:
        if way <= Pattern.REDUCTION:
            return Pattern.INJECTIVE, lambda k: k <= Pattern.OUT_ELEMWISE_FUSABLE
    elif own is Pattern.INJECTIVE and phase == 1:
        return Pattern.INJECTIVE, lambda k: k <= Pattern.INJECTIVE
    return None


def post_dominators(dag: Dag, returned: Collection[int | None]) -> list[int | None]:
    """The immediate post-dominator of each node: the first that all paths lead through.

    None stands for the end, which follows the nodes in `returned` and those without
    successors.
    """
    end = len(dag)
    last = (i for i, row in enumerate(dag.successors) if not row or i in returned)
    backwards = nx.DiGraph([(end, node) for node in last])
    backwards.add_edges_from((second, first) for first, second in dag.edges())
    found = nx.immediate_dominators(backwards, end) if end else {}
    return [None if found[node] == end else found[node] for node in range(end)]


def _between(dag: Dag, start: int, sink: int) -> set[int]:
    """What lies between a node and its post-dominator: all of it, or too much.

    Searches of networkx that leave a node out count all nodes first.
    """
    found: set[int] = set()
    pending = [start]
    while pending and len(found) <= MAX_DEPTH:
        beyond = set(dag.successors[pending.pop()]) - found - {sink}
        found |= beyond
        pending += beyond
    return found
