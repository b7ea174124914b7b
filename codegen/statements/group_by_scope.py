"""Steps to calls of modules: those that stand together and come from one module.

Their order is the file's, but for what is made of constants for one reader, which then
stands in front of that, and what several modules share, which stands before the first.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.graph.traversal import reached
from ...analysis.spelling.expr import Attribute, Expr, Ref, exchange, leaves
from ..ir.assignment import Assignment, Scope, readers_of
from ..ir.control_flow import Action, Block, steps_of
from ..ir.module_call import ModuleCall, owned_matrices, sequence_key, weights_key
from .module_scopes import common_scopes


def group_blocks(
    steps: list[Assignment],
    faithful: bool = False,
    depth: int = 0,
    cache: frozenset[ir.Value] = frozenset(),
) -> list[Assignment | ModuleCall]:
    """Steps to calls of modules, in bodies too, as parts of the modules around them.

    If `faithful`, what reads a parameter stays in the module that owns it. `depth` is
    how many modules around the steps have been entered already. `cache` are inputs that
    come as lists: what is made of one for one layer is that layer's.
    """

    def enter(items: list[Assignment | ModuleCall], depth: int) -> None:
        for item in items:
            if isinstance(item, ModuleCall):
                enter(item.items, depth + 1)
            elif isinstance(item, Block):
                for body in item.bodies:
                    body[:] = [
                        x
                        for own, part in groupby(
                            steps_of(body), lambda step: isinstance(step, Action)
                        )
                        for x in (
                            part if own else group_blocks([*part], faithful, depth)
                        )
                    ]

    items = _group(_before_rows(_hoisted(_sunk(steps, cache), faithful), cache), depth)
    enter(items, depth)
    return items


def _sunk(steps: list[Assignment], cache: frozenset[ir.Value]) -> list[Assignment]:
    """Move what is made of constants alone to the one step that reads it, and what is
    made of a cache into that step's module.

    A quantiser of models unpacks all weights before anything else; a program may cut
    each layer's cache to a window before it calls the network.
    """
    users = readers_of(steps)
    before: dict[Assignment, list[Assignment]] = {}
    for step in steps:
        outs = [out for out in step.outputs if out is not None]
        readers = list(dict.fromkeys(u for out in outs for u in users.get(out, ())))
        given = {v for v in step.reads() if not v.is_initializer()}
        if step.form is None and step.reads() and given <= cache and len(readers) == 1:
            before.setdefault(readers[0], []).append(step)
            if given:
                step.scopes = readers[0].scopes
    moved = {step for group in before.values() for step in group}
    kept = [step for step in steps if step not in moved]
    return [step for user in kept for step in (*before.get(user, ()), user)]


def _hoisted(steps: list[Assignment], faithful: bool) -> list[Assignment]:
    """Move what several modules share in front of the first of them.

    An exporter that merges equal work leaves it where it was met first: the mask of
    twelve layers inside the first layer, which then is unlike the others. What stands
    amid a module's steps, of no module that has a layer, and needs none of its layers
    goes ahead of it, too.
    """
    ends = {
        s.scopes[:depth]: i
        for i, s in enumerate(steps)
        for depth in range(len(s.scopes) + 1)
    }
    ahead: list[tuple[Scope, ...]] = [()]  # where the next layer stands
    for step in reversed(steps):
        ahead.append(ahead[-1] if step.form is None else step.scopes)
    layers = [step.scopes for step in steps if step.form is not None]
    layered = {at[:depth] for at in layers for depth in range(len(at) + 1)}
    users = readers_of(steps)
    ordered: list[Assignment] = []
    for i, step in enumerate(steps):
        outs = [out for out in step.outputs if out is not None]
        around = [u for out in outs for u in users.get(out, ())]
        shared = common_scopes([s.scopes for s in (step, *around)])
        last = ordered[-1].scopes if ordered else ()
        depth = len(common_scopes([step.scopes, last]))
        amid, own = last[: depth + 1], step.scopes[: depth + 1]
        goes_on = ends[amid] > i
        if len(own) > depth:  # of another module
            goes_on &= own not in layered and ahead[-1 - i][: depth + 1] == amid
        is_amid = len(amid) > depth and goes_on
        ordered.append(step)
        if step.form is None and (is_amid or len(shared) < len(step.scopes)):
            inner = amid if is_amid else step.scopes[: len(shared) + 1]
            shared = inner[:-1]
            if not is_amid and all(u.scopes[: len(inner)] != inner for u in around):
                continue  # the result of its module, which others are meant to read
            moved = _with_sources(ordered[(start := _start_of(inner, ordered)) :])
            if faithful and any(_is_learned_in(inner[-1], mover) for mover in moved):
                continue
            rest = [s for s in ordered[start:] if s not in moved]
            ordered[start:] = moved + rest
            for mover in moved:
                if mover.scopes[: len(inner)] == inner:
                    mover.scopes = shared
    return ordered


def _before_rows(
    steps: list[Assignment], cache: frozenset[ir.Value]
) -> list[Assignment]:
    """Move what few layers of a row make of what stands before the row, there.

    An exporter leaves the mask of the one layer that looks at everything in that layer,
    which then is unlike the others; what all modules of a kind make stays there. What a
    layer with weights reads stays before that.
    """
    late: set[ir.Value | None] = {*cache}  # what weights and caches have to do with
    rows: dict[tuple[Scope, ...], list[tuple[Assignment, Scope]]] = {}
    for step in steps:
        weighs = step.form is not None or owned_matrices(step)
        if weighs or not late.isdisjoint(step.operands()):
            late.update(step.outputs)
        depth = next(
            (d for d, s in enumerate(step.scopes) if s.path[-1:].isdigit()), -1
        )
        if depth >= 0:
            row = rows.setdefault(step.scopes[:depth], [])
            row.append((step, step.scopes[depth]))
    users = readers_of(steps)
    for around, row in rows.items():
        tasks = {(layer, _task(step, layer)) for step, layer in row}
        does = Counter(task for _, task in tasks)
        held = Counter(kind for _, kind in {(at, task[:2]) for at, task in tasks})
        may: set[Assignment] = set()
        for step, layer in reversed(row):
            rare = does[task := _task(step, layer)] < held[task[:2]]
            readers = {u for out in step.outputs for u in users.get(out, ())} - may
            # What leads to a layer alone, as buckets to their embedding, is its own.
            met = all(not late.isdisjoint(u.operands()) for u in readers)
            if rare and met and all(u.form is None for u in readers):
                may.update([step] if late.isdisjoint(step.outputs) else [])
        if not may:
            continue
        start = steps.index(row[0][0])
        inside = {out for step in steps[start:] for out in step.outputs}
        given = [v for step, _ in row for v in step.reads() if v in late - inside]
        moved: list[Assignment] = []
        for step in (step for step, _ in row if step in may):
            typed = _typed_like(step.expr, given)
            read = [x.value for x in leaves(typed) if isinstance(x, Ref)]
            if inside.isdisjoint(read):
                inside.difference_update(step.outputs)
                step.expr, step.scopes = typed, around
                moved.append(step)
        rest = [step for step in steps[start:] if step not in moved]
        steps = [*steps[:start], *moved, *rest]
    return steps


def _task(step: Assignment, layer: Scope) -> tuple[str, str, str]:
    """What a step does in a layer of a row, as the other layers of the class may."""
    within = step.scopes[-1].path.removeprefix(layer.path)
    return layer.class_hint, within, step.node.op_type if step.node else ""


def _typed_like(expr: Expr, given: list[ir.Value]) -> Expr:
    """An expression that takes its type from another value, where it takes one's."""

    def replace(part: Expr) -> Expr | None:
        match part:
            case Attribute((Ref() as like,), "dtype"):
                found = (v for v in given if v.dtype == like.value.dtype)
                return Ref(next(found, like.value)).dtype
        return None

    return exchange(expr, replace)


def _start_of(inner: tuple[Scope, ...], steps: list[Assignment]) -> int:
    """Where the module's steps begin that end with the last step; what that is made of
    may stand between them, of no module within."""
    start, wanted = len(steps) - 1, set(steps[-1].reads())
    while start:
        step = steps[start - 1]
        is_source = step.form is None and not wanted.isdisjoint(step.outputs)
        if not is_source and step.scopes[: len(inner)] != inner:
            break
        wanted |= set(step.reads()) if is_source else set()
        start -= 1
    return start


def _is_learned_in(scope: Scope, step: Assignment) -> bool:
    """Whether a step reads a parameter of a module, by its name."""
    inside = f"{scope.path}."
    return any(
        is_parameter(v) and (v.name or "").startswith(inside) for v in step.reads()
    )


def _with_sources(steps: list[Assignment]) -> list[Assignment]:
    """The last step and those before it that it needs; none if one is a layer."""
    made = {out: step for step in steps for out in step.outputs if out is not None}
    needed = reached(
        steps[-1:], lambda step: [made[v] for v in step.reads() if v in made]
    )
    has_layer = any(step.form is not None for step in needed)
    return [] if has_layer else [step for step in steps if step in needed]


def _group(steps: list[Assignment], depth: int) -> list[Assignment | ModuleCall]:
    items: list[Assignment | ModuleCall] = []
    start = 0
    while start < len(steps):
        if len(steps[start].scopes) <= depth:
            items.append(steps[start])
            start += 1
            continue
        scope = steps[start].scopes[depth]
        end = start
        while (
            end < len(steps)
            and len(steps[end].scopes) > depth
            and steps[end].scopes[depth].path == scope.path
        ):
            end += 1
        before, parts = _calls(steps[start:end])
        for step in before:
            step.scopes = step.scopes[:depth]
        items += before
        for part in parts:
            items.append(
                ModuleCall(scope.path, scope.class_hint, _group(part, depth + 1))
            )
        start = end
    return items


def _calls(steps: list[Assignment]) -> tuple[list[Assignment], list[list[Assignment]]]:
    """Split where a layer comes round again, if the parts are calls of one module.

    Returns what the calls share, which goes before them, and the calls.
    """
    parts: list[list[Assignment]] = [[]]
    seen: set[tuple[object, ...]] = set()
    lead: list[tuple[Scope, ...]] = []  # of what stands in front of the first layer
    for step in steps:
        weights = owned_matrices(step) if step.form is None else weights_key(step.form)
        if step.form is not None or weights:
            mark = (step.scopes, weights)
            if not seen and len(parts) == 1:
                lead = [one.scopes for one in parts[0]]
            if mark in seen:
                start = len(parts[-1]) - len(lead)
                if [one.scopes for one in parts[-1][start:]] != lead:
                    start = len(parts[-1])
                parts.append(parts[-1][start:])
                del parts[-2][start:]
                seen = set()
            seen.add(mark)
        parts[-1].append(step)
    if len(parts) == 1:
        return [], parts
    shared = _shared(parts)
    calls = [[step for step in part if step not in shared] for part in parts]
    if len({sequence_key(call) for call in calls}) > 1:
        return [], [steps]
    return shared, calls


def _shared(parts: list[list[Assignment]]) -> list[Assignment]:
    """Steps of one part that others read, and that read nothing of any part."""
    made: dict[ir.Value, int] = {}
    read: dict[ir.Value, set[int]] = {}
    for i, part in enumerate(parts):
        for step in part:
            made.update((out, i) for out in step.outputs if out is not None)
            for value in step.reads():
                read.setdefault(value, set()).add(i)
    found: list[Assignment] = []
    for i, part in enumerate(parts):
        for step in part:
            free = all(value not in made for value in step.reads())
            outs = [out for out in step.outputs if out is not None]
            if (
                step.form is None
                and free
                and any(read.get(o, {i}) != {i} for o in outs)
            ):
                found.append(step)
                for out in outs:
                    del made[out]
    return found
