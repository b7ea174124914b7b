"""The module tree: steps grouped by the modules they came from.

A `ModuleCall` is one call of one module: steps that stand together in execution order
and come from the same scope. Because they stand together, it can always be made a
function: what it reads is computed before it, what it returns is read after it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import takewhile
from typing import TypeAlias

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter, names_member
from ...analysis.ops.module_form import ModuleForm, Weight
from ...analysis.spelling.expr import Expr, Ref, substitute
from ..ir.assignment import Assignment, LayerRef, readers_of
from ..ir.identifiers import LONGEST_KEY, attribute
from ..ir.module_call import (
    Item,
    ModuleCall,
    layer_key,
    owned_matrices,
    sequence_key,
    weights_key,
)
from ..ir.naming import last_word
from ..statements.group_by_scope import group_blocks
from .members import PLACE, tensor_path
from .plain_layers import enter_plain_layers
from .sequential import (
    Place,
    deep_places,
    enter_lists,
    enter_nested,
    follows,
    is_list,
    is_row,
    is_shallow,
    owns,
)

# A parameter up to this size is stored once per module that uses it, as the original
# program did before an exporter merged equal arrays; larger ones are passed along.
OWN_COPY_BYTES = 1 << 16

Flows: TypeAlias = Callable[[Sequence[Item]], bool]  # whether each feeds the next alone


def make_tree(
    steps: list[Assignment],
    results: list[ir.Value],
    faithful: bool = False,
    cache: frozenset[ir.Value] = frozenset(),
    plain: bool = True,
) -> ModuleCall:
    """Group, split repeated calls, drop what is not worth a class, settle arguments.

    If `faithful`, members keep the paths that the file gives them. `cache` are inputs
    that come as lists, which the network's own forward goes through. `plain`: operators
    may be layers, where no kernel is to take them.
    """
    root = ModuleCall("", items=group_blocks(steps, faithful, cache=cache))
    if plain:
        enter_plain_layers(root, results, faithful)
    enter_nested(root, results, faithful)
    if not faithful:
        enter_lists(root, results)
    flows = partial(follows, users=readers_of(root.steps()), results=results)
    _simplify(root, faithful, set(deep_places(root)), flows)
    _separate_clashing(root)
    _peel(root)
    while not faithful and len(root.items) == 1:
        only = root.items[0]  # a wrapper around the network proper
        if not isinstance(only, ModuleCall) or only.whole or is_row(only):
            break
        root = ModuleCall(only.path, only.hint, only.items)
    if not faithful and cache:
        _open_wrappers(root, cache)
    _unify_layers(root, faithful)
    if faithful:
        layers = {step.path for step in root.steps() if step.form is not None}
        _dissolve(root, {id(c) for c in root.all_calls() if c.path in layers})
        _read_from_layers(root)
    _own_constants(root, results, faithful)
    while faithful and _dissolve(root, _divided(root)):
        _unify_layers(root, faithful)
        for call in (root, *root.all_calls()):
            call.constants.clear()
        _read_from_layers(root)
        _own_constants(root, results, faithful)
    _interfaces(root, set(results))
    _share(root, faithful)
    return root


def _open_wrappers(root: ModuleCall, cache: frozenset[ir.Value]) -> None:
    """Of a module that reads the whole cache, the members are the network's own.

    It would be handed each layer's past, and hand back each present, one by one.
    """
    opened = True
    while opened:
        opened = False
        for at, call in enumerate(root.items):
            if isinstance(call, ModuleCall) and cache <= {
                value for step in call.steps() for value in step.reads()
            }:
                root.items[at : at + 1] = call.items
                _shorten(root, call.path)
                opened = True
                break


def _shorten(root: ModuleCall, path: str) -> None:
    """Leave a module's path out of its former members', unless it tells two apart."""
    start = f"{path}."
    words: dict[bool, set[str]] = {True: set(), False: set()}
    for item in root.contents():
        word = item.path.removeprefix(start).partition(".")[0]
        words[item.path.startswith(start)].add(word if owns(item) else "")
    if words[True] & words[False] - {""}:
        return
    for step in root.steps():
        step.path = step.path.removeprefix(start)
    for value in {value for step in root.steps() for value in _constants(step)}:
        value.meta[PLACE] = tensor_path(value).removeprefix(start)
    for call in root.all_calls():
        call.path = call.path.removeprefix(start)


# ------------------------------------------------------------------------- simplifying


def _simplify(call: ModuleCall, faithful: bool, deep: set[Place], flows: Flows) -> None:
    """Bottom-up: a module with fewer than two statements is not worth a class."""
    for child in call.calls():
        _simplify(child, faithful, deep, flows)

    def simplified(item: Item) -> list[Item]:
        if isinstance(item, Assignment):
            return [item]
        if faithful:
            return _kept_path(item)
        if is_shallow(call, item, deep):
            return [item]
        left = _keep_or_dissolve(item, flows)
        # A chain of modules stays one, though one of them be a residual of a layer.
        adds = any(len(x.reads()) > 1 for x in left if isinstance(x, Assignment))
        is_part = is_list(call) and len(call.items) > 1 and any(map(owns, left))
        return [item] if adds and is_part else left

    call.exchange(simplified)


def _kept_path(call: ModuleCall) -> list[Item]:
    """The same for members that keep their paths: a class must own what is in it, and
    has members of names that are identifiers."""
    members = [item.path for item in call.contents() if owns(item)]
    alone = _wrapped(call) is not None and not _has_a_row(call)
    start = f"{call.path}."
    inside = all(
        path.startswith(start) and attribute(word, LONGEST_KEY) in (word, f"{word}_")
        for path in members
        for word in (path.removeprefix(start).partition(".")[0],)
    )
    read = (value for step in call.steps() for value in _constants(step))
    holds = bool(members) or any(_up_to_holder(value, (call,)) for value in read)
    kept = is_row(call) if call.whole else inside and not is_list(call)
    return [call] if holds and kept and not alone else call.items


def _wrapped(call: ModuleCall) -> ModuleCall | None:
    """The module that is all that a module calls."""
    only = call.items[0] if len(call.items) == 1 else None
    return only if isinstance(only, ModuleCall) else None


def _has_a_row(call: ModuleCall) -> bool:
    """Whether a module has a list of layers, and no more."""
    inner = _wrapped(call)
    listed = inner is not None and is_list(inner) and is_row(inner)
    return listed and call.hint != "Sequential"


def _keep_or_dissolve(call: ModuleCall, flows: Flows) -> list[Item]:
    """What stands in the place of a module: itself, or what is in it."""
    items = call.contents()
    members = [item for item in items if owns(item)]
    constants = {v.name for s in call.steps() if s.form is None for v in _constants(s)}
    inner = _wrapped(call)
    if inner is not None:
        if _has_a_row(call):
            return [call]
        inner.path = call.path
        return [inner]
    left = len(items) == 1 and all(last_word(n) == "bias" for n in constants)
    if not members and (not constants or left):
        return call.items  # no more than the bias that a merged layer leaves
    mixed = any(not owns(item) for item in items)
    only = members[0] if len(members) == 1 and not constants else None
    if isinstance(only, Assignment) and (is_list(call) or len(items) <= 2):
        only.path = _shortest(only.path, call.path)
        return call.items
    if is_list(call) and mixed:
        return _chain_within(call, flows)
    return [call]


def _chain_within(call: ModuleCall, flows: Flows) -> list[Item]:
    """A list without the operators in front of its layers and behind them; all of its
    items where it is no chain of layers then: it has no class of its own."""
    at = [i for i, item in enumerate(call.items) if owns(item)]
    before, after = call.items[: at[0]], call.items[at[-1] + 1 :]
    chain = ModuleCall(call.path, call.hint, call.items[at[0] : at[-1] + 1])
    is_one = len(at) > 1 and is_row(chain) and flows(chain.items)
    return [*before, chain, *after] if is_one else call.items


def _shortest(path: str, scope: str) -> str:
    """downsample.0 in downsample -> downsample; conv1, folded with bn1, stays conv1."""
    if path.rpartition(".")[0] == scope.rpartition(".")[0] and path:
        return path
    return scope


def _constants(step: Assignment) -> list[ir.Value]:
    return [v for v in step.reads() if v.const_value is not None]


def _separate_clashing(root: ModuleCall) -> None:
    """Two calls of one path that differ can't be one class: their steps move up."""
    changed = True
    while changed:
        changed = False
        by_path: dict[str, list[ModuleCall]] = {}
        for call in root.all_calls():
            by_path.setdefault(call.path, []).append(call)
        clashing = {
            id(call)
            for calls in by_path.values()
            if len(calls) > 1
            and len({sequence_key(list(r.steps())) for r in calls}) > 1
            for call in calls
        }
        if clashing:
            changed = _dissolve(root, clashing)


def _divided(root: ModuleCall) -> set[int]:
    """Calls of modules of which another module has a member, since no class has them
    all; and of an nn.Sequential that would own what its members share."""
    paths: dict[str, list[ModuleCall]] = {}
    for call in root.all_calls():
        paths.setdefault(call.path, []).append(call)
    doomed: set[int] = set()

    def visit(call: ModuleCall, around: frozenset[str]) -> None:
        around |= {call.path}
        if call.whole and not all(map(names_member, call.constants)):
            doomed.add(id(call))
        owned = [item.path for item in call.contents() if owns(item)]
        owned += [value.name or "" for value in call.constants if names_member(value)]
        inside = f"{call.path}." if call.path else ""
        for path in filter(lambda path: path.startswith(inside), owned):
            words = path.split(".")
            for n in range(1, len(words)):
                holder = ".".join(words[:n])
                if holder not in around:
                    doomed.update(map(id, paths.get(holder, ())))
        for child in call.calls():
            visit(child, around)

    visit(root, frozenset())
    return doomed


def _dissolve(call: ModuleCall, doomed: set[int]) -> bool:
    changed = False
    for child in call.calls():
        changed |= _dissolve(child, doomed) or id(child) in doomed
    call.exchange(
        lambda x: x.items if isinstance(x, ModuleCall) and id(x) in doomed else [x]
    )
    return changed


def _peel(call: ModuleCall) -> None:
    """A module that begins by joining its arguments is given what it joins, joined.

    The layers of a DenseNet then are alike, though each joins one map more.
    """
    for child in call.calls():
        _peel(child)

    def peeled(item: Item) -> list[Item]:
        if isinstance(item, Assignment) or not _begins_joining(item):
            return [item]
        joined = item.items.pop(0)
        return [joined, item] if item.items else [joined]

    call.exchange(peeled)


def _begins_joining(call: ModuleCall) -> bool:
    first = call.items[0] if call.items else None
    if not isinstance(first, Assignment) or first.node is None:
        return False
    reads = set(first.reads())
    rest = {v for step in call.steps() if step is not first for v in step.reads()}
    joins = first.node.op_type == "Concat" and len(reads) > 1
    return joins and reads.isdisjoint(rest)


def _unify_layers(call: ModuleCall, faithful: bool) -> None:
    """One layer that a module uses twice becomes one form.

    Equal weights make two layers one if they are matrices, or if the layers have one
    name: exporters give all equal vectors the same array. If `faithful`, a layer of two
    names has both.
    """
    first: dict[object, ModuleForm] = {}
    for item in call.contents():
        if isinstance(item, ModuleCall):
            _unify_layers(item, faithful)
        elif item.form is not None:
            large = any(_is_large(weight) for weight in item.form.weights.values())
            name = (
                item.path
                if large and faithful
                else "" if large else item.path or id(item)
            )
            key = (name, layer_key(item.form), weights_key(item.form))
            form = first.setdefault(key, item.form)
            if form is not item.form:
                item.expr = _with_layer(item.expr, LayerRef(form))
                item.form = form


def _read_from_layers(call: ModuleCall) -> None:
    """What else reads a layer's weight, as the distances from a codebook's entries do,
    reads it of the layer: no member can be called `codebook.weight` beside it."""
    steps = [item for item in call.contents() if isinstance(item, Assignment)]
    held = {
        weight.value: getattr(LayerRef(step.form), name)
        for step in steps
        if step.form is not None and step.form.source is None
        for name, weight in step.form.weights.items()
        if weight.value.name == f"{step.path}.{name}" and not weight.how
    }
    for step in steps:
        if held and step.form is None:
            step.expr = substitute(
                step.expr, lambda x: held.get(x.value) if isinstance(x, Ref) else None
            )
    for child in call.calls():
        _read_from_layers(child)


def _with_layer(expr: Expr, layer: LayerRef) -> Expr:
    return substitute(expr, lambda leaf: layer if isinstance(leaf, LayerRef) else None)


# ------------------------------------------------------------------------- interfaces


def _own_constants(root: ModuleCall, results: list[ir.Value], faithful: bool) -> None:
    """Each constant tensor belongs to the smallest module around all its uses."""
    users: dict[ir.Value, list[tuple[ModuleCall, ...]]] = {}

    def visit(call: ModuleCall, above: tuple[ModuleCall, ...]) -> None:
        chain = (*above, call)
        for item in call.contents():
            if isinstance(item, ModuleCall):
                visit(item, chain)
            else:
                for value in _constants(item):
                    users.setdefault(value, []).append(chain)

    visit(root, ())
    for value in results:
        if value.const_value is not None:
            users.setdefault(value, []).append((root,))
    fitted = _fitted(users)
    given: dict[ModuleCall, None] = {}
    for value, chains in users.items():
        assert value.const_value is not None
        named = faithful and names_member(value)
        if named:
            chains = [_up_to_holder(value, chain) for chain in chains]
        own = is_parameter(value) or named
        own |= fitted.issuperset(_kind(chain[-1]) for chain in chains)
        if own and value.const_value.nbytes <= OWN_COPY_BYTES:
            owners = list(dict.fromkeys(chain[-1] for chain in chains))
        else:
            depth = _depth_of_common(chains)
            owners = list(dict.fromkeys(chain[depth - 1] for chain in chains))
        for owner in owners:
            owner.constants.append(value)
            given[owner] = None
    for owner in given:  # in the order in which it reads them, whoever did so before
        read = dict.fromkeys(v for step in owner.steps() for v in _constants(step))
        order = {value: i for i, value in enumerate(read)}
        owner.constants.sort(key=lambda v: order.get(v, len(order)))


def _fitted(users: Mapping[ir.Value, list[tuple[ModuleCall, ...]]]) -> set[str]:
    """The classes whose modules are given constants that are cut to fit each."""
    read: dict[str, dict[ModuleCall, list[ir.Value]]] = {}
    for value, chains in users.items():
        for call in {chain[-1] for chain in chains} if not is_parameter(value) else ():
            read.setdefault(_kind(call), {}).setdefault(call, []).append(value)
    return {kind for kind, constants in read.items() if _fit(constants.values())}


def _fit(constants: Collection[list[ir.Value]]) -> bool:
    """Whether as many constants have other sizes in another module, as masks of windows
    do; or a module has one to itself, where others share theirs, though not all: those
    are equal ones, no result that they have in common."""
    sizes = {
        tuple(sorted(tuple(map(str, x.shape or ())) for x in c)) for c in constants
    }
    if len({*map(len, sizes)}) < len(sizes):
        return True
    shared = set(Counter(x for each in constants for x in each).values())
    partly = any(1 < n < len(constants) for n in shared)
    return len(sizes) == 1 and 1 in shared and partly


def _kind(call: ModuleCall) -> str:
    """The class that the file names, or where it stands but for numbers."""
    return call.hint or re.sub(r"\d+", "0", call.path)


def _depth_of_common(chains: list[tuple[ModuleCall, ...]]) -> int:
    """How many modules are around all readers: calls of one path are one module's."""
    levels = zip(*chains, strict=False)
    same = takewhile(lambda level: len({call.path for call in level}) == 1, levels)
    return sum(1 for _ in same)


def _up_to_holder(
    value: ir.Value, chain: tuple[ModuleCall, ...]
) -> tuple[ModuleCall, ...]:
    """The calls around a reader, without those inside of the module in a name.

    What computes a weight of `conv`, conv.parametrizations.weight.0, owns none of what
    it is computed from: conv.parametrizations.weight.original0.
    """
    inside = f"{(value.name or '').rpartition('.')[0]}."
    return tuple(call for call in chain if not call.path.startswith(inside))


def _interfaces(root: ModuleCall, results: set[ir.Value]) -> None:
    """What each call reads from outside and what is read of it afterwards."""
    produced: dict[ir.Value, ModuleCall] = {}
    reads: dict[ir.Value, set[ModuleCall]] = {}
    parents: dict[ModuleCall, ModuleCall] = {}

    def visit(call: ModuleCall) -> None:
        for item in call.contents():
            if isinstance(item, ModuleCall):
                parents[item] = call
                visit(item)
                continue
            for value in item.reads():
                reads.setdefault(value, set()).add(call)
            for out in item.outputs:
                if out is not None:
                    produced[out] = call

    visit(root)

    def chain(call: ModuleCall | None) -> list[ModuleCall]:
        found = []
        while call is not None:
            found.append(call)
            call = parents.get(call)
        return found

    def settle(call: ModuleCall, owned: frozenset[ir.Value]) -> None:
        owned = owned | frozenset(call.constants)
        inside = {
            out for step in call.steps() for out in step.outputs if out is not None
        }
        mine = frozenset(call.constants)
        seen: dict[ir.Value, None] = {}
        for step in call.steps():
            for value in step.reads():
                if value in inside or value in mine:
                    continue
                if value.const_value is not None and value not in owned:
                    continue  # belongs to a module further down
                seen.setdefault(value, None)
        call.inputs = list(seen)
        for child in call.calls():
            settle(child, owned)

    settle(root, frozenset())
    for value, call in produced.items():
        users = reads.get(value, set())
        for holder in chain(call):
            outside = value in results or any(holder not in chain(u) for u in users)
            if holder is root:
                break
            if outside:
                holder.outputs.append(value)


def _share(root: ModuleCall, faithful: bool) -> None:
    """Calls of one module after its first share the first one's members.

    If `faithful`, a module of another path that has the same weights is another one.
    """
    first: dict[object, ModuleCall] = {}

    def visit(call: ModuleCall, holder: ModuleCall) -> None:
        for child in call.calls():
            if any(map(owned_matrices, child.steps())):
                outs = _output_positions(child)
                path = child.path if faithful else ""
                key = (id(holder), path, sequence_key(list(child.steps())), outs)
                if key in first:
                    child.shares = first[key]
                    continue
                first[key] = child
            visit(child, child)

    visit(root, root)


def _is_large(weight: Weight) -> bool:
    const = weight.value.const_value
    return const is not None and len(const.shape) >= 2


def _output_positions(call: ModuleCall) -> tuple[int, ...]:
    made = [out for step in call.steps() for out in step.outputs]
    return tuple(i for i, out in enumerate(made) if out in call.outputs)
