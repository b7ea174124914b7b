"""TVM's fusion rules, the baseline that a DNNFusion plan is measured against.

After Relay's FuseOps (Chen et al., OSDI 2018): a group grows from an operator to its
immediate post-dominator, if every operator on the way there is simple enough. Fusion
into tuples is left out: a Concat is an operator here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..dataflow.dag import Dag, Grouping
from ..dataflow.dataflow import Dataflow, Operator
from ..dataflow.mapping_types import most_complex
from ..ops.registry import MANY_TO_MANY, ONE_TO_ONE, OPAQUE, OPS, Pattern
from .dnnfusion import FusionPlan, Group, plan_of

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


@dataclass(frozen=True)
class _Dominator:
    """The next operator that all paths lead through; None at the end of the graph.

    `pattern` is the most complex one on the way there, that operator included.
    """

    parent: int | None
    depth: int
    pattern: Pattern


def tvm(flow: Dataflow) -> FusionPlan:
    """Groups as TVM would make them."""
    patterns = [pattern(op) for op in flow.operators]
    returned = {t.producer for t in flow.tensors if t.returned}
    dominators = post_dominators(flow.dag, patterns, returned)
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
        for node, dominator in enumerate(dominators):
            sink = dominator.parent
            if sink is None or grouping.group_of[node] == grouping.group_of[sink]:
                continue
            bounds = _bounds(anchor[grouping.group_of[node]], dominator.pattern, phase)
            if bounds is None:
                continue
            path = _path(flow.dag, node, sink)
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


def _path(dag: Dag, start: int, sink: int) -> set[int]:
    """What lies strictly between an operator and its post-dominator."""
    found: set[int] = set()
    pending = [start]
    while pending:
        for node in dag.successors[pending.pop()]:
            if node != sink and node not in found:
                found.add(node)
                pending.append(node)
    return found


def post_dominators(
    dag: Dag, patterns: list[Pattern], returned: set[int | None]
) -> list[_Dominator]:
    """The immediate post-dominator of each operator, from the last to the first."""
    found: dict[int, _Dominator] = {}

    def common(
        a: int | None, b: int | None, way: Pattern
    ) -> tuple[int | None, Pattern]:
        """The nearest common post-dominator, and the pattern on the way there."""
        while a != b:
            if a is None or b is None:
                return None, Pattern.OPAQUE
            deeper, other = (a, b) if found[a].depth > found[b].depth else (b, a)
            way = max(way, found[deeper].pattern)
            a, b = found[deeper].parent, other
        return a, way

    for node in reversed(range(len(dag))):
        readers = dag.successors[node]
        if not readers or node in returned:
            found[node] = _Dominator(None, 1, Pattern.OPAQUE)
            continue
        parent: int | None = readers[0]
        way = max(patterns[reader] for reader in readers)
        for reader in readers[1:]:
            parent, way = common(parent, reader, way)
        depth = 1 if parent is None else found[parent].depth + 1
        found[node] = _Dominator(parent, depth, way)
    return [found[node] for node in range(len(dag))]
