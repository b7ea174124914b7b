"""Which nodes of the file stand behind each line of a class, instance by instance.

A class is written from its first instance. The others do the same, item by item, so an
item's position says what it is in each of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import onnx_ir as ir

from ...rewrites.adapters.provenance import behind, own_origins
from ..ir.assignment import Assignment
from ..ir.control_flow import Action
from ..ir.module_call import Item, ModuleCall
from ..ir.package_plan import SourceNodes
from .module_classes import ClassTable, ModuleClass


class _Call(NamedTuple):
    """One call of a module; a later call uses the members of `first`."""

    path: str
    call: ModuleCall
    first: ModuleCall


class Sources:
    """Which nodes of the file stand behind each line of each class."""

    def __init__(self, classes: ClassTable) -> None:
        self._classes = classes
        self._calls: dict[ModuleClass, list[_Call]] = {}
        self._contents: dict[ModuleCall, list[Item]] = {}
        root = classes.root.call
        self._visit(_Call("", root, root))

    def _visit(self, call: _Call) -> None:
        self._calls.setdefault(self._classes.of[call.first], []).append(call)
        pairs = zip(self._of(call.call), self._of(call.first), strict=True)
        for item, twin in pairs:
            if isinstance(item, ModuleCall) and isinstance(twin, ModuleCall):
                inner = self._inner(call, item, twin)
                if _alike(inner):
                    self._visit(inner)

    def _of(self, call: ModuleCall) -> list[Item]:
        """Its contents, which are asked for once for each of its lines."""
        if call not in self._contents:
            self._contents[call] = call.contents()
        return self._contents[call]

    def _inner(self, call: _Call, item: ModuleCall, twin: ModuleCall) -> _Call:
        owner = twin.shares or twin
        path = self._path(call, owner)
        owner = self._classes.owner(item, owner)
        if self._classes.of[owner].chain and not _alike(_Call(path, item, owner)):
            owner = item.shares or item  # of another depth
        return _Call(path, item, owner)

    def _path(self, call: _Call, owner: ModuleCall) -> str:
        chain = self._classes.of[call.first].chain
        members = self._classes.members[call.first]
        place, member = next((i, m) for i, m in enumerate(members) if m.what is owner)
        key = str(place) if chain else member.key
        return f"{call.path}.{key}" if call.path else key

    def behind(self, cls: ModuleClass, places: Iterable[int]) -> SourceNodes:
        """What is behind the items at these places, in every instance of a class."""
        found = SourceNodes()
        for call in self._calls[cls]:
            nodes: dict[str, None] = {}
            calls: dict[str, None] = {}
            self._collect(call, places, nodes, calls)
            if nodes:
                found.nodes.setdefault(call.path, []).extend(nodes)
            if calls:
                found.calls.setdefault(call.path, []).extend(calls)
        return found

    def _collect(
        self,
        call: _Call,
        places: Iterable[int],
        nodes: dict[str, None],
        calls: dict[str, None],
    ) -> None:
        mine, firsts = self._of(call.call), self._of(call.first)
        for place in self._places(call, places):
            item, twin = mine[place], firsts[place]
            if isinstance(item, Assignment):
                nodes.update(dict.fromkeys(_of_step(item)))
                continue
            assert isinstance(twin, ModuleCall)
            inner = self._inner(call, item, twin)
            if not _alike(inner):  # its steps stand elsewhere in the first call
                for step in item.steps():
                    nodes.update(dict.fromkeys(_of_step(step)))
            elif self._classes.of[inner.first].chain:  # without lines of its own
                self._collect(inner, range(len(self._of(item))), nodes, calls)
            else:
                calls[inner.path] = None

    def _places(self, call: _Call, places: Iterable[int]) -> Iterable[int]:
        """Those of a list that grows to another depth: its end, or all of its loop."""
        end, mine = (
            len(self._of(r)) - 1 for r in (self._classes.of[call.first].call, call.call)
        )
        if end == mine or self._classes.of[call.first].chain:
            return places
        whole = set(places)
        loop = range(mine) if whole - {end} else ()
        return [*loop, *([mine] if end in whole else [])]

    def members(self, cls: ModuleClass) -> list[SourceNodes]:
        """SourceNodes each line of __init__: what uses the layers that it makes."""
        lines: dict[str, list[int]] = {}
        buffers: list[list[int]] = []  # of dictionaries, behind all others
        known = _uses(cls.call)
        for member in cls.members:  # those of one list share a line
            line = lines.setdefault(member.attr, [])
            line.extend(users := known.get(_key(member.what), []))
            if member.is_deep_buffer:
                buffers.append(users)
        places = (*lines.values(), *buffers)
        return [self.behind(cls, dict.fromkeys(users)) for users in places]


def merged(lines: Iterable[SourceNodes]) -> SourceNodes:
    """What is behind several lines that became one."""
    whole = SourceNodes()
    for line in lines:
        for path, nodes in line.nodes.items():
            whole.nodes.setdefault(path, []).extend(nodes)
        for path, calls in line.calls.items():
            whole.calls.setdefault(path, []).extend(calls)
    return whole


def _alike(call: _Call) -> bool:
    """Whether a later call groups its steps as the first one does."""
    return [*map(type, call.call.contents())] == [*map(type, call.first.contents())]


def _uses(call: ModuleCall) -> dict[int, list[int]]:
    """The places of the items that use a layer, a module or a value, by its key."""
    found: dict[int, list[int]] = {}
    for place, item in enumerate(call.contents()):
        steps = item.steps() if isinstance(item, ModuleCall) else [item]
        used = [item.shares or item if isinstance(item, ModuleCall) else item]
        for key in dict.fromkeys(
            [*map(_key, used), *(id(x) for step in steps for x in step.reads())]
        ):
            found.setdefault(key, []).append(place)
    return found


def _key(what: Assignment | ModuleCall | ir.Value) -> int:
    return id(what.form if isinstance(what, Assignment) else what)


def _of_step(step: Assignment) -> list[str]:
    if isinstance(step, Action) and step.node is not None:
        return list(own_origins(step.node))  # what its graphs hold has lines of its own
    return [name for node in step.work() for name in behind(node)]
