"""TVM's fusion rules, the baseline that a DNNFusion plan is measured against.

After Relay's FuseOps (Chen et al., OSDI 2018): a group grows from an operator to its
immediate post-dominator, if every operator on the way there is simple enough. Fusion
into tuples is left out: a Concat is an operator here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..dataflow.dag import Dag, Grouping
from ..dataflow.dataflow import Dataflow, Operator
from ..dataflow.mapping_types import most_complex
from ..lazy import lazy
from ..ops.registry import MANY_TO_MANY, ONE_TO_ONE, OPAQUE, OPS, Pattern
from .dnnfusion import FusionPlan, Group, plan_of

nx = lazy("networkx")

MAX_DEPTH = 256  # operators in a group, TVM's default


def pattern(op: Operator) -> Pattern:
    """TVM's class of an operator: what its OpDef says, else by its mapping type."""
    known = OPS.get(("", op.kind))
    if op.mapping is OPAQUE:
        return Pattern.OPAQUE
    if known is not None and known.pattern is not None:
        return known.pattern
    if op.mapping is MANY_TO_MANY:
        return Pattern.OPAQUE  # as TVM takes a Softmax
    if op.mapping is ONE_TO_ONE:
        return Pattern.ELEMWISE
    broadcasts = known is not None and known.mapping is ONE_TO_ONE
    return Pattern.BROADCAST if broadcasts else Pattern.INJECTIVE


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
