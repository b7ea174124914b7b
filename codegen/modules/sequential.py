"""Modules that are called one after the other: nn.Sequential, and its depth."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

import onnx_ir as ir

from ..ir.assignment import Assignment, Readers, is_plain_call, readers_of
from ..ir.control_flow import Block
from ..ir.identifiers import class_of_path
from ..ir.module_call import Item, ModuleCall, sequence_key

Place = tuple[str, str]
_NUMBER = re.compile(r"(\D+)\.\d{1,6}(?=\.)")  # of a list, whose members are lists


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
    long = len(call.items) > 1 or _alone(call)
    return long and _numbered(call) and hands_on(call)


def hands_on(call: ModuleCall) -> bool:
    """Whether it gives each member what the one before it makes, and does no more."""
    one = len(call.inputs) == len(call.outputs) == 1
    if not one or call.sizes or call.constants:
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
    """Whether each is a member of its number, and none is called again."""
    forms = [item.form for item in call.items if isinstance(item, Assignment)]
    return len(forms) == len({*map(id, forms)}) and all(
        item.path.startswith(f"{call.path}.")
        and item.path.removeprefix(f"{call.path}.").isdigit()
        for item in call.items
    )


def _alone(call: ModuleCall) -> bool:
    """Whether a list has one module, and no more in it."""
    return len(call.items) == 1 and any(call.calls())


def place(holder: ModuleCall, call: ModuleCall) -> Place:
    """The class of the module around a list, and what the list is called there, or the
    list of lists that it is in."""
    return holder.hint, re.sub(r"\.\d+$", "", call.path).rpartition(".")[2]


def deep_places(holder: ModuleCall) -> Iterator[Place]:
    """Where several modules follow each other, in some module of the class."""
    for call in holder.calls():
        where = place(holder, call)
        if len(list(call.calls())) == len(call.contents()) > 1:
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
                    members == row and follows(row, users, results)
                )
    for where, held in found.items():
        lengths = {len(row) for _, row in held}
        for holder, row in held if follow[where] and len(lengths) > 1 else ():
            at = holder.items.index(row[0])
            path = row[0].path.rpartition(".")[0]
            if holder.items[at : at + len(row)] == row:
                holder.items[at : at + len(row)] = [ModuleCall(path, items=[*row])]


def enter_nested(
    root: ModuleCall, results: Collection[ir.Value], faithful: bool
) -> None:
    """What a list of lists has at one number becomes a call, as of a module there: it
    gives one value, and stands in a row of several somewhere. With it goes what stands
    between it and the next, and what is alike behind the last; of one alone, the sum.

    A program goes through such lists itself: `for attention, mlp in self.layers`. If
    `faithful`, only a row of layers that keep their numbers stays such a call.
    """
    users, entered = readers_of(root.steps()), True
    while entered:
        found: dict[Place, list[tuple[ModuleCall, dict[str, list[Item]]]]] = {}
        for holder in (root, *root.all_calls()):
            for name, parts in _nested(holder).items():
                where = holder.hint or holder.path, name
                found.setdefault(where, []).append((holder, parts))
        entered = False
        for held in found.values():
            rows = [part for _, parts in held for part in parts.values()]
            is_row = any(len(parts) > 1 for _, parts in held)
            if is_row and all(_is_one(part, users, results) for part in rows):
                entered = True
                for holder, parts in held:
                    for path, part in parts.items():
                        at = holder.items.index(part[0])
                        hint = "" if all(map(owns, part[1:])) else class_of_path(path)
                        keys = [f"{path}.{i}" for i in range(len(part))]
                        whole = faithful and keys == [item.path for item in part]
                        call = ModuleCall(path, hint, part, whole=whole)
                        holder.items[at : at + len(part)] = [call]


def _nested(holder: ModuleCall) -> dict[str, dict[str, list[Item]]]:
    """The items of each list of lists, by the path that those of one number share."""
    found: dict[str, dict[str, list[Item]]] = {}
    torn, items, tail = {""}, holder.items, list[Item]()
    places = [_list_of(holder, item) for item in items]
    owned = [at for at, place in enumerate(places) if place is not None]
    for _, run in groupby(owned, places.__getitem__):
        within = [*run]
        first, last = within[0], within[-1]
        name, path = places[first] or ("", "")
        end = next((at for at in owned if at > last), len(items))
        part, loose = items[first : last + 1], items[last + 1 : end]
        if path in found.setdefault(name, {}):
            torn.add(name)
        if end < len(items) and (places[end] or "")[0] == name:
            tail = loose
        elif found[name] and _work(tail) == _work(loose[: len(tail)]):
            loose = loose[: len(tail)]
        else:
            loose = _sum_behind(part, loose)
        found[name][path] = part + loose
    return {name: parts for name, parts in found.items() if name not in torn}


def _list_of(holder: ModuleCall, item: Item) -> tuple[str, str] | None:
    """The list of lists that a member is in, and the path there with its number; empty
    where it is in none. Nothing for what is no member."""
    if not owns(item):
        return ("", "") if isinstance(item, Block) else None
    start = f"{holder.path}." if holder.path else ""
    within = item.path.startswith(start)
    found = _NUMBER.match(item.path, len(start)) if within else None
    return ("", "") if found is None else (found[1], item.path[: found.end()])


def _work(loose: list[Item]) -> object:
    return sequence_key([item for item in loose if isinstance(item, Assignment)])


def _sum_behind(part: list[Item], loose: list[Item]) -> list[Item]:
    """What follows up to the sum of two values that a part makes or is given."""
    given, made = _taken_and_made(part)
    for at, step in enumerate(loose):
        takes, makes = _taken_and_made([step])
        if not made.isdisjoint(takes):
            if len(takes & (given | made)) > 1:
                return loose[: at + 1]
            made |= makes
    return []


def _is_one(part: list[Item], users: Readers, results: Collection[ir.Value]) -> bool:
    """Whether others read one value of a part, and it isn't one module, called again
    and again."""
    owned = [item.path for item in part if owns(item)]
    again = len(owned) > 1 and len({*owned}) == 1
    return len(_read_of(part, users, results)) == 1 and not again


def _taken_and_made(part: Sequence[Item]) -> tuple[set[ir.Value], set[ir.Value]]:
    """The computed values that a part reads of others, and all that it computes."""
    steps = [*_steps_of(part)]
    made = {out for step in steps for out in step.outputs if out is not None}
    return {v for s in steps for v in s.reads() if v.const_value is None} - made, made


def _read_of(
    part: Sequence[Item], users: Readers, results: Collection[ir.Value]
) -> set[ir.Value]:
    """What others read of a part's values."""
    steps, (_, made) = {*_steps_of(part)}, _taken_and_made(part)
    return {v for v in made if v in results or not steps >= {*users.get(v, ())}}


def _steps_of(part: Sequence[Item]) -> Iterator[Assignment]:
    for item in part:
        yield from item.steps() if isinstance(item, ModuleCall) else (item,)


def follows(row: Sequence[Item], users: Readers, results: Collection[ir.Value]) -> bool:
    """Whether each is given what the one before makes, and nothing else is."""
    made = set[ir.Value]()
    for i, item in enumerate(row):
        steps, (given, _) = {*_steps_of([item])}, _taken_and_made([item])
        alone = given.isdisjoint(results) and all(steps >= {*users[v]} for v in given)
        if len(given) != 1 or (i and not (given == made and alone)):
            return False
        made = _read_of([item], users, results)
    return True


def is_shallow(holder: ModuleCall, call: ModuleCall, deep: set[Place]) -> bool:
    """Whether a list has one module where others of its class have several."""
    return _alone(call) and _numbered(call) and place(holder, call) in deep
