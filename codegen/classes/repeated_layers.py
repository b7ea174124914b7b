"""Modules that hold any number of equal ones: rows of them, and lists that grow.

Their constructors are told the depth, where two instances differ in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...analysis.spelling.expr import Ref, joined, render, spell
from ..ir.assignment import Assignment
from ..ir.module_call import ModuleCall
from ..modules.sequential import is_chain

if TYPE_CHECKING:
    from ..modules.members import Attribute
    from .module_classes import ClassTable, ModuleClass

_MIN_LAYERS = 3  # of a list that grows


@dataclass(frozen=True)
class Depth:
    """What tells such a module from others, and the numbers that it is given.

    Those are the depth, the first layer's, and how much more each next layer has.
    """

    key: tuple[object, ...]
    numbers: list[Any]
    labels: list[str]


def row(kinds: ClassTable, run: ModuleCall) -> Depth | None:
    """Of a chain of modules that are built alike."""
    layers = list(run.runs())
    if not layers or len(layers) < len(run.items) or not is_chain(run):
        return None
    if len({kinds.of[layer] for layer in layers}) > 1:
        return None
    first, *others = [kinds.arguments[layer] for layer in layers]
    if any(other != first for other in others):
        return None
    kind = kinds.of[layers[0]]
    labels = ["depth", *kind.parameters]
    return Depth(("row", id(kind)), [len(layers), *first], labels)


def growth(kinds: ClassTable, run: ModuleCall) -> Depth | None:
    """Of a module whose layers each take all there is and add to it, as DenseNet's."""
    layers = _growing(run)
    stem = _stem(kinds.members[run], layers) if len(layers) >= _MIN_LAYERS else None
    if stem is None or len({kinds.of[layer] for layer in layers}) > 1:
        return None
    rows = [kinds.arguments[layer] for layer in layers]
    steps = [_step(column) for column in zip(*rows, strict=True)]
    if None in steps:
        return None
    kind = kinds.of[layers[0]]
    join = run.items[-1]
    assert isinstance(join, Assignment)
    how = render(join.expr.operands[2])
    labels = ["depth", *kind.parameters, *("growth" for _ in steps)]
    key = ("growth", id(kind), *stem, how)
    return Depth(key, [len(layers), *rows[0], *steps], labels)


def _growing(run: ModuleCall) -> list[ModuleCall]:
    """The layers of a run that calls each on all that there is, joined."""
    layers, maps = list[ModuleCall](), list(run.inputs)
    given = maps[0] if len(maps) == 1 else None
    if given is None or len(run.items) < 2 * _MIN_LAYERS or run.constants or run.sizes:
        return []
    for layer, join in zip(run.items[::2], run.items[1::2], strict=False):
        if not isinstance(layer, ModuleCall) or not isinstance(join, Assignment):
            return []
        alone = len(layer.outputs) == 1 and layer.inputs == [given]
        if not alone or layer.shares is not None or layer.size_args:
            return []
        layers.append(layer)
        maps += layer.outputs
        values = [x.value for x in joined(join.expr) if isinstance(x, Ref)]
        if values != maps or join.reads() != maps or len(join.outputs) != 1:
            return []
        (given,) = join.outputs
    whole = len(run.items) == 2 * len(layers) and run.outputs == [given]
    return layers if whole else []


def _stem(
    members: Sequence[Attribute], layers: list[ModuleCall]
) -> tuple[str, bool] | None:
    """What the names of all members begin with, and whether they are a list."""
    if [member.what for member in members] != layers or any(m.inner for m in members):
        return None
    attr = members[0].attr
    if [(m.attr, m.index) for m in members] == [(attr, i) for i in range(len(layers))]:
        return attr, True
    stem = attr.rstrip("0123456789")
    names = [f"{stem}{i + 1}" for i in range(len(layers))]
    return (stem, False) if [m.attr for m in members] == names else None


def _step(column: Sequence[Any]) -> int | None:
    """How much more each number is than the one before it, if they count evenly."""
    if all(value == column[0] for value in column):
        return 0
    if any(type(value) is not int for value in column):
        return None
    step: int = column[1] - column[0]
    even = [column[0] + step * i for i in range(len(column))]
    return step if list(column) == even else None


def growth_lines(kinds: ClassTable, kind: ModuleClass) -> list[str]:
    """The layers of a list that grows, made in a loop; [] for any other class."""
    found = growth(kinds, kind.run)
    if found is None:
        return []
    texts = [
        kind.holes.get(i) or render(spell(number))
        for i, number in enumerate(found.numbers)
    ]
    layer = kinds.of[next(kind.run.runs())]
    count = len(layer.parameters)
    first, steps = texts[1 : count + 1], texts[count + 1 :]
    given = [_counted(*pair) for pair in zip(first, steps, strict=True)]
    _, _, stem, is_list, _ = found.key
    loop, made = f"for i in range({texts[0]})", kinds.call(layer, given)
    if is_list:
        return [f"self.{stem} = nn.ModuleList({made} {loop})"]
    return [f"{loop}:", f'    self.add_module(f"{stem}{{i + 1}}", {made})']


def _counted(first: str, step: str) -> str:
    times = "i" if step == "1" else f"{step} * i"
    return first if step == "0" else f"{first} + {times}"
