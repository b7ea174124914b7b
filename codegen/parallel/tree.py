"""The module tree as what may be shared and cut: layers, blocks, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from ...analysis.ops.module_form import Weight
from ...analysis.partition.layers import Layer
from ...analysis.spelling.expr import Ref, leaves
from ..classes.module_classes import ClassTable
from ..ir.assignment import Assignment, is_plain_call, sized
from ..ir.control_flow import Block, laid_out
from ..ir.module_call import ModuleCall, weights_key
from ..ir.package_plan import WeightPlan
from ..modules.members import Attribute

_SHARED = {"nn.Linear": False, "nn.Embedding": True}


class Paths:
    """The attribute path of every call and layer of a tree."""

    def __init__(self, classes: ClassTable) -> None:
        self._of: dict[object, str] = {}
        self._of_weights: dict[object, str] = {}
        self._visit(classes, classes.root.call, "")
        self.root = classes.root.call

    def _visit(self, classes: ClassTable, call: ModuleCall, prefix: str) -> None:
        chain = classes.of[call].chain
        for i, member in enumerate(classes.members[call]):
            path = prefix + (str(i) if chain else member.key)
            self._note(member, path)
            if isinstance(member.what, ModuleCall):
                self._visit(classes, member.what, f"{path}.")

    def _note(self, member: Attribute, path: str) -> None:
        self._of[member.what] = path
        if isinstance(member.what, Assignment) and member.what.form is not None:
            self._of_weights.setdefault(weights_key(member.what.form), path)

    def call(self, call: ModuleCall) -> str | None:
        """Where the module is that is called; that of an earlier call it may share."""
        return self._of.get(call if call.shares is None else call.shares)

    def layer(self, step: Assignment) -> str | None:
        """Where the layer is that a step calls; None for a step without one."""
        if step.form is None:
            return None
        return self._of.get(step) or self._of_weights.get(weights_key(step.form))


def layers_of(
    root: ModuleCall, paths: Paths, ties: Sequence[Sequence[str]]
) -> list[Layer]:
    """The linear layers and tables of a network, in the order in which they run."""
    keys = {name: tie[0] for tie in ties for name in tie}
    found = []
    for step in root.steps():
        path, form = paths.layer(step), step.form
        if path is None or form is None or step.node is None:
            continue
        if form.layer not in _SHARED or len(form.inputs) != 1 or len(form.outputs) != 1:
            continue
        matrix = form.weights["weight"].value
        sizes = [int(n) for n in form.positional[:2]]
        found.append(
            Layer(
                path=path,
                source=form.inputs[0],
                result=form.outputs[0],
                rows=sizes[0],
                columns=sizes[1],
                weight_bytes=_bytes(matrix),
                bias_bytes=sum(
                    _bytes(w.value) for k, w in form.weights.items() if k != "weight"
                ),
                nodes=(step.node, *form.absorbs),
                looks_up=_SHARED[form.layer],
                key=keys.get(f"{path}.weight", ""),
                matrix=matrix.name or "",
            )
        )
    return found


def tensors_of(weights: Sequence[WeightPlan]) -> list[Layer]:
    """Tensors of three axes or more that one node takes as they are stored, as the
    matrices of experts; along the first axis that isn't 1, if it isn't the last."""
    found = []
    for plan in weights:
        value = None if plan.weight is None else plan.weight.value
        if value is None or plan.weight != Weight(value) or plan.layer:
            continue
        sizes = [n for n in value.shape or () if isinstance(n, int)]
        axis = next((i for i, n in enumerate(sizes[:-1]) if n > 1), None)
        if axis is not None and len(sizes) > 2 and len(value.uses()) == 1:
            size, name = (0, sizes[axis], _bytes(value), 0, ()), value.name or ""
            found.append(Layer(plan.key, value, value, *size, matrix=name, along=axis))
    return found


def _bytes(value: ir.Value) -> int:
    assert value.const_value is not None and value.dtype is not None
    return int(value.const_value.size) * value.dtype.bitwidth // 8


@dataclass(eq=False)
class Unit:
    """A module that one stage of a pipeline has: a block, or a layer between blocks.

    `nodes` are its work, `gives` what the network gives of it. `crossing` are the
    arguments that come from stages before, None where no stage may begin here, because
    of `reason`.
    """

    path: str
    nodes: list[ir.Node]
    gives: set[ir.Value] = field(default_factory=set)
    crossing: tuple[int, ...] | None = None
    crossed: tuple[ir.Value, ...] = ()
    reason: str = ""


def divide_tree(
    classes: ClassTable, paths: Paths, results: Sequence[ir.Value]
) -> list[Unit]:
    """The modules that stages are made of, in the order in which they run, and where a
    stage may begin; the network gives `results`.

    Around the repeated blocks of the tree are containers, of which every stage runs
    the statements; what they call are units. A module that is called again is one.
    """
    root = classes.root.call
    containers, again = {root}, set()

    def visit(call: ModuleCall, around: list[ModuleCall]) -> bool:
        found = False
        for child in call.calls():
            if child.shares is not None:
                again.add(child.shares)
                continue
            repeated = classes.counts[child] > 1 and not classes.of[child].chain
            if repeated or visit(child, [*around, call]):
                found = True
        if found:
            containers.update([*around, call])
        return found

    visit(root, [])
    items = list(_flat(root, containers - again))
    units: dict[str, Unit] = {}
    for item, _ in items:
        path = _path(item, paths)
        if path:
            unit = units.setdefault(path, Unit(path, []))
            if unit.nodes:
                unit.reason = "it runs more than once"
            unit.nodes += [n for step in _steps(item) for n in step.work()]
            unit.gives |= set(results) & {v for s in _steps(item) for v in s.outputs}
    _find_crossings(items, units, paths, results)
    return list(units.values())


def _flat(
    call: ModuleCall, containers: set[ModuleCall]
) -> Iterator[tuple[Assignment | ModuleCall, ModuleCall]]:
    for item in call.items:
        if isinstance(item, ModuleCall) and item in containers:
            yield from _flat(item, containers)
        else:
            yield item, call


def _path(item: Assignment | ModuleCall, paths: Paths) -> str | None:
    return paths.call(item) if isinstance(item, ModuleCall) else paths.layer(item)


def _steps(item: Assignment | ModuleCall) -> Iterable[Assignment]:
    return item.steps() if isinstance(item, ModuleCall) else laid_out([item])


def _find_crossings(
    items: list[tuple[Assignment | ModuleCall, ModuleCall]],
    units: dict[str, Unit],
    paths: Paths,
    results: Sequence[ir.Value],
) -> None:
    """At each unit, what stages behind it need of those before, to give the `results`.

    What statements of containers make of inputs and constants alone, each stage
    computes itself, and results that a unit gives are kept where it is. Anything else
    has to be an argument of the unit, and may then be read by units alone: arguments
    are what is exchanged.
    """
    kept = {v for unit in units.values() for v in unit.gives}
    made: dict[ir.Value, int] = {}  # that hang on a unit, and where they are made
    reads: list[list[ir.Value]] = []
    runs: dict[str, list[int]] = {}  # where each unit runs
    for place, (item, _) in enumerate(items):
        runs.setdefault(_path(item, paths) or "", []).append(place)
        taken = _taken(item)
        reads.append(taken)
        if _path(item, paths) or any(value in made for value in taken):
            for step in _steps(item):
                made.update((v, place) for v in step.outputs if v is not None)
    for place, (item, _) in enumerate(items):
        unit = units.get(_path(item, paths) or "")
        if unit is None or unit.reason or not isinstance(item, ModuleCall):
            continue
        both = [path for path, at in runs.items() if path and at[0] < place <= at[-1]]
        if both:
            unit.reason = f"{both[0]} runs before it and behind it"
            continue
        behind = range(place, len(items))
        read = [v for v in results if v not in kept]
        read += [v for i in behind for v in reads[i]]
        needed = {v for v in read if made.get(v, place) < place}
        arguments = list(item.inputs)
        if not needed:
            unit.reason = "nothing comes from the stages before"
        elif missing := [v for v in needed if v not in arguments]:
            unit.reason = f"{missing[0].name} passes it by"
        elif any(_plain_reader(items[i][0], paths, needed) for i in behind):
            unit.reason = "what it is given is read outside of modules later"
        else:
            unit.crossing = tuple(
                i for i, value in enumerate(arguments) if value in needed
            )
            unit.crossed = tuple(arguments[i] for i in unit.crossing)


def _taken(item: Assignment | ModuleCall) -> list[ir.Value]:
    """What an item needs the elements of: sizes, types and devices are those of zeros,
    too."""
    if isinstance(item, ModuleCall):
        return list(item.inputs)
    found = []
    for step in laid_out([item]):
        read = leaves(sized(step.expr))
        found += [leaf.value for leaf in read if isinstance(leaf, Ref)]
    return found


def _plain_reader(
    item: Assignment | ModuleCall, paths: Paths, values: set[ir.Value]
) -> bool:
    """Whether a statement reads one of `values`, other than to call a layer with it."""
    if isinstance(item, ModuleCall):
        return False
    called = paths.layer(item) is not None and is_plain_call(item.expr)
    return not called and not values.isdisjoint(_taken(item))


def has_blocks(root: ModuleCall) -> bool:
    """Whether a network has branches or loops."""
    calls = (root, *root.all_calls())
    return any(isinstance(item, Block) for call in calls for item in call.items)
