"""Modules whose statements differ in a few numbers become one class that is given them.

Numbers of layers are parameters of a class anyway (columns.py). Those that stand in
statements, such as the size of a feature map, become attributes of the instance, and so
do activations.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence, Set
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

from ...analysis.spelling.expr import Expr, Function, Ref, exchange_texts, render, spell
from ..ir.assignment import Assignment
from ..ir.module_call import ModuleCall
from ..modules.members import ConstructorValue

if TYPE_CHECKING:
    from .module_classes import ClassTable, Key

Texts = tuple[str, ...]  # of one number, in all runs

# Numbers that a reader has to keep in mind beside the layers' own.
MOST_NUMBERS = 3

# What a class may be given: a function of one tensor that changes it number by number.
_NAMES_IN_F = (
    "celu elu gelu hardsigmoid hardswish leaky_relu logsigmoid mish relu relu6 selu "
    "silu softplus softsign"
)
_ACTIVATIONS = {*(f"F.{x}" for x in _NAMES_IN_F.split()), "torch.sigmoid", "torch.tanh"}

# What a number is called, by the operator whose statement it stands in.
_NAMES = {
    "Mul": "scale",
    "Div": "scale",
    "Attention": "scale",
    "Resize": "scale",
    "Split": "width",
    "Slice": "length",
    "Pad": "padding",
}
# What divides a tensor among heads: x.unflatten(2, (8, 64)), x.reshape(1, 196, 8, 64);
# queries, keys and values may be one tensor.
_DIVIDES = re.compile(
    r"\.(unflatten\(-?\d+, \(|reshape\(-?\d+, \d+, )([23], )?\d+, \d+\)"
)


def unify_numbers(kinds: ClassTable, groups: dict[Key, list[ModuleCall]]) -> None:
    """Merge groups of runs, each a class to be, whose statements differ in numbers."""
    alike: dict[object, list[Key]] = {}
    for key, runs in groups.items():
        alike.setdefault((kinds.hint(runs[0]), _blank_key(kinds, runs[0])), []).append(
            key
        )
    merged: dict[Key, list[ModuleCall]] = {}
    for keys in alike.values():
        runs = [run for key in keys for run in groups[key]]
        if len(keys) > 1 and _take_numbers(kinds, runs):
            merged[kinds.key(runs[0])] = sorted(runs, key=kinds.place)
        else:
            merged.update((key, groups[key]) for key in keys)
    groups.clear()
    groups.update(merged)


def _steps(run: ModuleCall) -> list[Assignment]:
    return [item for item in run.contents() if isinstance(item, Assignment)]


def _blank_key(kinds: ClassTable, run: ModuleCall) -> Key:
    """The key of a run as if its statements had no numbers."""
    steps = _steps(run)
    kept = [step.expr for step in steps]
    blank = spell("")
    for step in steps:
        step.expr = _exchanged(step.expr, lambda text: blank)
    key = kinds.key(run)
    for step, expr in zip(steps, kept, strict=True):
        step.expr = expr
    return key


def _take_numbers(kinds: ClassTable, runs: Sequence[ModuleCall]) -> bool:
    """Make attributes of the numbers in which runs differ, if they are few."""
    rows = [_numbers(run) for run in runs]
    columns: dict[Texts, list[int]] = {}
    for i, texts in enumerate(zip(*rows, strict=True)):
        if len(set(texts)) > 1:
            columns.setdefault(texts, []).append(i)
    fixed = {int(text) for text in rows[0] if text.isdigit()}
    derived = products(columns, fixed)
    if len(columns) - len(derived) > MOST_NUMBERS:
        return False
    names = _names(runs[0])
    for i, run in enumerate(runs):
        made: dict[tuple[str, ...], Expr] = {}
        for texts, places in columns.items():
            if texts not in derived:
                told = {names[place] for place in places} - {"size"}
                name = told.pop() if len(told) == 1 else "size"
                setting = ConstructorValue(name, _value(texts[i]))
                run.constants.append(setting)
                made[texts] = Ref(setting)
        for texts, (a, b) in reversed(derived.items()):
            if isinstance(b, int):
                made[texts] = b * made[a]
            else:
                made[texts] = made[a] ** 2 if a == b else made[a] * made[b]
        _exchange(run, {p: made[texts] for texts in columns for p in columns[texts]})
        kinds.members[run] = kinds.assign(run)
    return True


def products(
    columns: Iterable[Texts], fixed: Set[int]
) -> dict[Texts, tuple[Texts, Texts | int]]:
    """Whole numbers that are products in every run: of two others, such as areas, or of
    one and a number that is the same in all. The largest come first."""
    whole = {texts: [int(x) for x in texts] for texts in columns if _all_whole(texts)}
    found: dict[Texts, tuple[Texts, Texts | int]] = {}
    for texts, wanted in sorted(whole.items(), key=lambda entry: -max(entry[1])):
        sides = [
            s for s in whole if s != texts and s not in found and 0 not in whole[s]
        ]
        pairs: list[tuple[Texts, Texts | int]] = [
            *combinations_with_replacement(sides, 2),
            *((side, wanted[0] // whole[side][0]) for side in sides),
        ]
        for a, b in pairs:
            others = [b] * len(wanted) if isinstance(b, int) else whole[b]
            made = [x * y for x, y in zip(whole[a], others, strict=True)]
            if made == wanted and (not isinstance(b, int) or b in fixed - {0, 1}):
                found[texts] = a, b
                break
    return found


def _all_whole(texts: Texts) -> bool:
    return all(text.isdigit() for text in texts)


def _numbers(run: ModuleCall) -> list[str]:
    found: list[str] = []
    for step in _steps(run):
        _exchanged(step.expr, found.append)  # which exchanges nothing
    return found


def _exchanged(expr: Expr, replace: Callable[[str], Expr | None]) -> Expr:
    """The same for each number, and each activation."""
    known = "0123456789-"
    return exchange_texts(
        expr, lambda x: replace(x) if x[0] in known or x in _ACTIVATIONS else None
    )


def _value(text: str) -> float | Function:
    if text in _ACTIVATIONS:
        return Function(text)
    number: float = ast.literal_eval(text)
    return number


def _names(run: ModuleCall) -> list[str]:
    """What each number would be called, after the statement that it stands in."""
    texts = [(step, render(step.expr, lambda leaf: "v")) for step in _steps(run)]
    attends = _attends([text for _, text in texts])
    names: list[str] = []
    for i, (step, text) in enumerate(texts):
        operator = step.node.op_type if step.node is not None else ""
        name = _NAMES.get(operator, "size")
        found: list[str] = []
        _exchanged(step.expr, found.append)
        told = ["activation" if x in _ACTIVATIONS else name for x in found]
        if i < attends and _DIVIDES.search(text):
            told[-2:] = "heads", "head_dim"
        names += told
    return names


def _attends(texts: Sequence[str]) -> int:
    """Which statement is the last that attends: a softmax is one before a product."""
    products = [i for i, text in enumerate(texts) if " @ " in text]
    found = [i for i, text in enumerate(texts) if "attention(" in text]
    softmax = [i for i, text in enumerate(texts) if "softmax(" in text]
    found += [i for i in softmax if products and i <= products[-1]]
    return max(found, default=-1)


def _exchange(run: ModuleCall, made: dict[int, Expr]) -> None:
    place = -1

    def exchanged(text: str) -> Expr | None:
        nonlocal place
        place += 1
        return made.get(place)

    for step in _steps(run):
        step.expr = _exchanged(step.expr, exchanged)
