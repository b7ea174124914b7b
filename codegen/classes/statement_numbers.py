"""The numbers of statements in which the calls of a class differ: which they are, what
they are called, and which of them others tell."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from fractions import Fraction
from itertools import combinations_with_replacement, count
from typing import TYPE_CHECKING, TypeAlias

from ...analysis.spelling.expr import (
    Attribute,
    Binary,
    Call,
    Expr,
    Function,
    Literal,
    Ref,
    Slice,
    Subscript,
    Tuple,
    callee,
    callees,
    exchange,
    nodes,
)
from ..ir.assignment import Assignment
from ..ir.module_call import ModuleCall
from ..modules.members import ConstructorValue
from .bodies import ACTIVATIONS, hole, numbers_in, numbers_of

if TYPE_CHECKING:
    from .module_classes import ClassTable

Texts: TypeAlias = tuple[str, ...]  # of one number, in all calls

# Numbers that a reader keeps in mind beside the layers' own: three, or one in eight.
MOST_NUMBERS, EACH_NUMBERS = 3, 8

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


def steps_of(call: ModuleCall) -> list[Assignment]:
    """The statements of a call's body, those of blocks among them."""
    return [item for item in call.contents() if isinstance(item, Assignment)]


_Columns: TypeAlias = dict[Texts, list[int]]  # numbers, and where in a row they stand
_Products: TypeAlias = dict[Texts, tuple[Texts, Texts | int]]


def differing(
    rows: Sequence[Sequence[str]], layers: Iterable[Texts] = ()
) -> tuple[_Columns, _Products] | None:
    """The numbers in which calls differ, and which of them others tell; None if those
    are too many to be told, beside the numbers of layers."""
    columns: _Columns = {}
    for i, texts in enumerate(zip(*rows, strict=True)):
        if len(set(texts)) > 1:
            columns.setdefault(texts, []).append(i)
    fixed = {int(text) for text in rows[0] if text.isdecimal()}
    derived = products(columns, fixed)
    told = columns.keys() - derived.keys() - {*layers}
    most = max(MOST_NUMBERS, len(rows[0]) // EACH_NUMBERS)
    return None if len(told) > most else (columns, derived)


def differing_numbers(calls: Sequence[ModuleCall]) -> tuple[_Columns, _Products] | None:
    """Those in which calls differ and that no layer has, as `differing` gives them."""
    forms = [[step.form for step in steps_of(call) if step.form] for call in calls]
    rows = [[str(n) for form in row for n in form.positional] for row in forms]
    told = zip(*rows, strict=False)
    return differing([numbers_of(call.contents()) for call in calls], told)


def take_numbers(classes: ClassTable, calls: Sequence[ModuleCall]) -> None:
    """Make attributes of the numbers in which calls of a class differ."""
    found = differing_numbers(calls)
    assert found is not None
    columns, derived = found
    names = _names(calls[0])
    for i, call in enumerate(calls):
        made: dict[Texts, Expr] = {}
        for texts, places in columns.items():
            if texts not in derived:
                wishes = {names[place] for place in places} - {"size"}
                name = wishes.pop() if len(wishes) == 1 else "size"
                setting = ConstructorValue(name, _value(texts[i]))
                call.constants.append(setting)
                made[texts] = Ref(setting)
        for texts, (a, b) in reversed(derived.items()):
            if isinstance(b, int):
                made[texts] = b * made[a]
            else:
                made[texts] = made[a] ** 2 if a == b else made[a] * made[b]
        new = {place: made[texts] for texts in columns for place in columns[texts]}
        _fill(call, new)
        classes.members[call] = classes.assign(call)


def _fill(call: ModuleCall, new: Mapping[int, Expr]) -> None:
    """Put expressions in the place of some of the numbers."""
    places = count()

    def filled(node: Expr) -> Expr | None:
        return new.get(next(places), node) if hole(node) else None

    for step in steps_of(call):
        step.expr = exchange(step.expr, filled)


def products(columns: Iterable[Texts], fixed: Set[int]) -> _Products:
    """Whole numbers that are products in all calls: of two others, such as areas, or of
    one and a number that is the same in all. The largest come first."""
    whole = {
        texts: [int(x) for x in texts]
        for texts in columns
        if all(map(str.isdecimal, texts))
    }
    found: _Products = {}
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


def _value(text: str) -> float | Function | None:
    if text in ACTIVATIONS:
        return Function(text)
    sign, _, root = text.rstrip(")").rpartition("math.sqrt(")
    if root != text:
        size = Fraction(root.replace(" ", ""))
        return math.copysign(math.sqrt(size), -1 if sign else 1)
    number: float | None = ast.literal_eval(text)
    return number


def _names(call: ModuleCall) -> list[str]:
    """What each number would be called, after the statement that it stands in."""
    steps = steps_of(call)
    attends = _last_attending(steps)
    scores = steps[attends].reads()[:1] if attends >= 0 else []
    shapes = [v.shape for v in scores if v.shape is not None and len(v.shape) == 4]
    names: list[str] = []
    for i, step in enumerate(steps):
        operator = step.node.op_type if step.node is not None else ""
        name = "start" if cuts(step) else _NAMES.get(operator, "size")
        found = numbers_in(step.expr)
        told = ["activation" if x in ACTIVATIONS else name for x in found]
        told[-2:] = ["window", "step"] if callee(step.expr) == ".unfold" else told[-2:]
        for node in nodes(step.expr) if i <= attends else ():
            if back := _divides_heads(node, [str(shape[1]) for shape in shapes]):
                told[-back], told[1 - back] = "heads", "head_dim"
        names += told
    return names


def _divides_heads(expr: Expr, heads: Sequence[str]) -> int:
    """How far from its end it has `heads`, if it divides a tensor among them, which may
    be q, k and v: x.unflatten(2, (8, 64)), x.reshape(1, 8, 64, 196) of images."""
    match expr:
        case Call((Attribute(_, "unflatten"), Literal(axis), Tuple(sizes)), ()) if axis:
            rows = 0
        case Call((Attribute(_, "reshape"), Literal(), *sizes), ()):
            rows = 1
        case _:
            return 0
    texts = [x.text for x in sizes if isinstance(x, Literal) and x.text.isdecimal()]
    if heads and heads[0] not in texts:
        return 0
    packed = not {"2", "3"}.isdisjoint(texts[: 1 + rows])
    if len(texts) < len(sizes) or len(texts) - rows not in (2, 3 if packed else 2):
        return 0
    return 3 if texts[-3:-2] == [*heads] != texts[-2:-1] else 2


def _last_attending(steps: Sequence[Assignment]) -> int:
    """Which statement is the last that attends: a softmax is one before a product."""
    products = [
        i
        for i, step in enumerate(steps)
        if any(isinstance(e, Binary) and e.label == "@" for e in nodes(step.expr))
    ]
    last = -1
    for i, step in enumerate(steps):
        for name in callees(step.expr):
            scores = name.endswith("softmax") and products and i <= products[-1]
            last = i if scores or name.endswith("attention") else last
    return last


def cuts(item: object) -> bool:
    """Whether a step takes what stands from one place on: x[:, :, -15:]."""
    match item:
        case Assignment(expr=Subscript((Ref(), *parts)), form=None):
            bounds = [part.label for part in parts if part.operands]
            slices = all(isinstance(part, Slice) for part in parts)
            return slices and bounds == [(True, False, False)]
    return False
