"""A forward that forks: what its lanes do becomes methods of their own."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ...analysis.schedule.fork_join import Fork
from ...analysis.spelling.expr import Call, Expr, Name, Ref, render
from ..forward.variable_names import Subject
from ..forward.writer import Body, BodyWriter
from ..ir.assignment import LayerRef
from ..ir.identifiers import unused
from ..ir.module_call import ModuleRef
from ..ir.naming import callee_arguments
from ..ir.statement_tree import Statement
from .divide import reads_of

# The functions of lanes.py.
RUN_LANES, DIVIDES_THREADS = "run_lanes", "divides_threads"


class ForkWriter(BodyWriter):
    """Writes a forward in which some items stand in lanes."""

    def __init__(self, of: Subject, forks: Sequence[Fork]) -> None:
        super().__init__(of)
        self.forks = forks
        self.lanes: list[LaneWriter] = []
        self.calls: tuple[tuple[str, ...], ...] = ()
        self.taken = {member.attr for member in of.cls.members}

    def statements(self) -> list[Statement]:
        whole = super().statements()
        found: list[Statement] = []
        end = 0
        for number, fork in enumerate(self.forks, start=1):
            found += whole[end : fork.first]
            stage = f"stage{number}_" if len(self.forks) > 1 else ""
            found.append(self.forked(fork, whole, stage))
            end = fork.end
        return found + whole[end:]

    def forked(self, fork: Fork, whole: list[Statement], stage: str) -> Statement:
        """`y, (z, u) = run_lanes((self.lane0, x), (self.lane1, x))`"""
        calls: list[tuple[Expr, ...]] = []
        targets: list[ir.Value | None] = []
        groups = []
        places: list[int] = []
        for k, lane in enumerate(fork.lanes):
            made: list[ir.Value | None] = list(whole[lane[0]].targets)
            call = _plain_call(whole[lane[0]].expr) if len(lane) == 1 else None
            if call is not None:
                calls.append(call)
                places += lane
            else:
                name = unused(f"{stage}lane{k}", self.taken)
                self.taken.add(name)
                writer = LaneWriter(self, name, lane)
                self.lanes.append(writer)
                calls.append((Name(f"self.{name}"), *map(Ref, writer.inputs)))
                made = list(writer.handed_back)
            targets += made
            groups.append(len(made))
        self.calls += (tuple(render(call[0], self.name) for call in calls),)
        expr = Name(RUN_LANES)(*calls)
        return Statement(
            tuple(targets), expr, False, places=tuple(places), groups=tuple(groups)
        )

    def methods(self) -> list[tuple[str, Body]]:
        """The lanes, once the forward is written: it says what arguments are called."""
        found = []
        for writer in self.lanes:
            names = [self.called(value) for value in writer.inputs]
            body = writer.write(callee_arguments(names), writer.handed_back)
            self.callees += writer.callees
            found.append((writer.method, body))
        return found


def _plain_call(expr: Expr) -> tuple[Expr, ...] | None:
    """The layer or block that is called, and its arguments, if that is all."""
    match expr:
        case Call((LayerRef() | ModuleRef(), *arguments), ()):
            if all(isinstance(x, Ref) for x in arguments):
                return expr.operands
    return None


class LaneWriter(BodyWriter):
    """Writes the method that is one lane: the items at some places of a forward."""

    def __init__(self, caller: ForkWriter, method: str, lane: Sequence[int]) -> None:
        super().__init__(caller.subject)
        self.is_root = False
        self.method, self.lane = method, lane
        items = [self.call.items[i] for i in lane]
        own = {v for item in items for v in item.outputs if v is not None}
        given = (v for item in items for v in reads_of(item))
        self.inputs = [
            v for v in dict.fromkeys(given) if v not in own and v not in self.texts
        ]
        others = [x for i, x in enumerate(self.call.items) if i not in lane]
        read = {v for item in others for v in reads_of(item)} | set(caller.results)
        made = (v for item in items for v in item.outputs)
        self.handed_back = [v for v in made if v is not None and v in read]

    def statements(self) -> list[Statement]:
        whole = super().statements()
        return [whole[place] for place in self.lane]
