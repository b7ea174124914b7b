"""Modules that are called one after the other: nn.Sequential, and its depth."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import onnx_ir as ir

from ..ir.assignment import Readers, is_plain_call, readers_of
from ..ir.module_call import Item, ModuleCall

Place = tuple[str, str]


def is_list(call: ModuleCall) -> bool:
    """Whether it is an nn.Sequential by class, or by members numbered 0, 1, 2 ..."""
    if call.hint:
        return call.hint == "Sequential"
    inner = [x.path.removeprefix(f"{call.path}.") for x in call.contents() if owns(x)]
    return bool(inner) and all(word.isdigit() for word in inner)


def owns(item: Item) -> bool:
    """Whether an item is a member of the class that has it."""
    return isinstance(item, ModuleCall) or item.form is not None


def is_chain(call: ModuleCall) -> bool:
    """Whether it is an nn.Sequential: each member fed by the one before it, no more."""
    if len(call.inputs) != 1 or len(call.outputs) != 1 or call.sizes:
        return False
    if (
        call.constants
        or not _numbered(call)
        or (len(call.items) < 2 and not _alone(call))
    ):
        return False
    current: ir.Value | None = call.inputs[0]
    for item in call.items:
        if isinstance(item, ModuleCall):
            if item.shares is not None or item.inputs != [current] or item.size_args:
                return False
        elif item.reads() != [current] or not _is_member(item):
            return False
        outputs = [out for out in item.outputs if out is not None]
        if len(outputs) != 1:
            return False
        current = outputs[0]
    return current is call.outputs[0]


def is_row(call: ModuleCall) -> bool:
    """Whether it has numbered modules and layers, and nothing else."""
    return _numbered(call) and all(map(_is_member, call.items))


def _is_member(item: Item) -> bool:
    return isinstance(item, ModuleCall) or (
        item.form is not None and is_plain_call(item.expr)
    )


def _numbered(call: ModuleCall) -> bool:
    return all(
        item.path.startswith(f"{call.path}.")
        and item.path.removeprefix(f"{call.path}.").isdigit()
        for item in call.items
    )


def _alone(call: ModuleCall) -> bool:
    """Whether a list has one module, and no more in it."""
    return len(call.items) == 1 and any(call.calls())


def place(holder: ModuleCall, call: ModuleCall) -> Place:
    """The class of the module around a list, and what the list is called there."""
    return holder.hint, call.path.rpartition(".")[2]


def deep_places(holder: ModuleCall) -> Iterator[Place]:
    """Where several modules follow each other, in some module of the class."""
    for call in holder.calls():
        where = place(holder, call)
        if (
            len(list(call.calls())) == len(call.contents()) > 1
            and not where[1].isdigit()
        ):
            yield where
        yield from deep_places(call)


def enter_lists(root: ModuleCall, results: Collection[ir.Value]) -> None:
    """Lists of modules that are called one after the other become calls of their own,
    where modules of one class have them in several lengths: they may be one class
    then, which is told how many."""
    users = readers_of(root.steps())
    found: dict[Place, list[tuple[ModuleCall, list[ModuleCall]]]] = {}
    follow: dict[Place, bool] = {}
    for holder in filter(lambda call: call.hint, root.all_calls()):
        rows: dict[str, list[ModuleCall]] = {}
        for call in holder.calls():
            rows.setdefault(call.path.rpartition(".")[0], []).append(call)
        rows.pop(holder.path, None)
        for path, row in rows.items():
            where = holder.hint, path.removeprefix(f"{holder.path}.")
            members = [x for x in holder.contents() if x.path.startswith(f"{path}.")]
            numbers = [x.path.rpartition(".")[2] for x in members]
            if numbers == [*map(str, range(len(row)))] and "." not in where[1]:
                found.setdefault(where, []).append((holder, row))
                follow[where] = follow.get(where, True) and (
                    members == row and _follow(row, users, results)
                )
    for where, held in found.items():
        lengths = {len(row) for _, row in held}
        for holder, row in held if follow[where] and len(lengths) > 1 else ():
            at = holder.items.index(row[0])
            path = row[0].path.rpartition(".")[0]
            if holder.items[at : at + len(row)] == row:
                holder.items[at : at + len(row)] = [ModuleCall(path, items=[*row])]


def _follow(
    row: Sequence[ModuleCall], users: Readers, results: Collection[ir.Value]
) -> bool:
    """Whether each is given what the one before makes, and nothing else is."""
    made: set[ir.Value | None] = set()
    for i, call in enumerate(row):
        steps = set(call.steps())
        own = {out for step in steps for out in step.outputs}
        given = {v for s in steps for v in s.reads() if v.const_value is None} - own
        alone = given.isdisjoint(results) and all(steps >= {*users[v]} for v in given)
        if len(given) != 1 or (i and not (given == made and alone)):
            return False
        made = {v for v in own if v in results or not steps >= {*users.get(v, ())}}
    return True


def is_shallow(holder: ModuleCall, call: ModuleCall, deep: set[Place]) -> bool:
    """Whether a list has one module where others of its class have several."""
    return _alone(call) and _numbered(call) and place(holder, call) in deep
