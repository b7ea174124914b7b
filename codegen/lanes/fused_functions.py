"""Groups of a fusion plan as functions of their own: --fusion of compile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ...analysis.dataflow.dag import Grouping
from ...analysis.fusion.dnnfusion import FusionPlan
from ...analysis.spelling.expr import Name, Ref
from ..classes.module_classes import ClassTable, ModuleClass
from ..forward.variable_names import Subject
from ..forward.writer import BodyWriter
from ..ir.assignment import Assignment
from ..ir.control_flow import Block
from ..ir.identifiers import attribute, unused
from ..ir.module_call import ModuleCall
from ..ir.statement_tree import Statement
from .divide import body_dag, own_nodes
from .lane_lines import ForkWriter, LaneWriter

# One or two operators are one expression already: F.relu(self.conv(x)).
LEAST = 3
WORDS = 3  # of operators in a name

Groups = tuple[tuple[int, ...], ...]  # items of a body, in the order they are written


def groups_of(
    classes: ClassTable, model: ir.Model, plan: FusionPlan | None
) -> dict[ModuleClass, Groups]:
    """The groups of each class, as its first instance has them, where one is large.

    What of a group stands in other classes is left out; what is left of it stays a
    group as long as no path leads out of it and back.
    """
    if plan is None:
        return {}
    nodes = [n for n in model.graph if n.domain or n.op_type != "Constant"]
    home = {nodes[i]: k for k, group in enumerate(plan.groups) for i in group.operators}
    found = {}
    for cls in classes.order:
        items = cls.call.items
        if cls.chain or any(isinstance(item, Block) for item in items):
            continue
        grouping = Grouping(body_dag(cls.call))
        homes = [_home(item, home) for item in items]
        for first, second in grouping.dag.edges():
            a, b = grouping.group_of[first], grouping.group_of[second]
            if a != b and homes[first] is not None and homes[first] == homes[second]:
                grouping.merge(a, b)
        members = [
            tuple(sorted(grouping.members[name])) for name in grouping.in_order()
        ]
        large = [group for group in members if len(group) >= LEAST]
        if large and len(members) > 1:  # the whole body is a function already
            found[cls] = tuple(members)
    return found


def _home(item: Assignment | ModuleCall, home: Mapping[ir.Node, int]) -> int | None:
    """The group that all of a step is in."""
    groups = (
        {home.get(n) for n in own_nodes(item)}
        if isinstance(item, Assignment)
        else set()
    )
    return groups.pop() if len(groups) == 1 else None


class GroupWriter(ForkWriter):
    """Writes a forward that calls a method for each larger group."""

    def __init__(self, of: Subject, groups: Groups) -> None:
        super().__init__(of, ())
        self.groups = groups

    def statements(self) -> list[Statement]:
        whole = BodyWriter.statements(self)
        found: list[Statement] = []
        for group in self.groups:
            if len(group) < LEAST:
                found += [whole[place] for place in group]
                continue
            name = unused(self.wish(group), self.taken)
            self.taken.add(name)
            writer = LaneWriter(self, name, group)
            self.lanes.append(writer)
            call = Name(f"self.{name}")(*map(Ref, writer.inputs))
            single = len(writer.handed_back) == 1
            found.append(Statement(tuple(writer.handed_back), call, single))
        return found

    def wish(self, group: Sequence[int]) -> str:
        """conv_relu_add, by the operators that come first."""
        words: dict[str, None] = {}
        for place in group:
            item = self.call.items[place]
            node = item.node if isinstance(item, Assignment) else None
            if node is not None:
                word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.op_type).lower()
                words[attribute(word)] = None
        return "_".join([*words][:WORDS]) or "group"
