"""Calls whose bodies differ in what a constructor can be told become one class.

Bodies are generalised to the least general one that all are instances of: the same
statements but for holes. Each hole is filled by what the class is given, or there are
several classes:

- a number, or an activation, becomes an attribute. Numbers of layers are parameters of
  a class anyway (constructor_arguments.py); those that stand in statements, such as the
  size of a feature map, are only if they are few;
- a layer or module that some lack is nn.Identity there; a sum or a product that some
  leave out, such as the residual of a block whose sizes change, is decided by a switch,
  and so are two rolls, or turns of queries and keys. A class has few of those;
- what only some cut to a window all cut, `x[:, :, self.start :]`, some of them at None;
- the number of equal modules in a row is its depth;
- what some calls are given once, others are given two values for.

What a body is, and where it has holes, stands in bodies.py.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import (
    combinations,
    combinations_with_replacement,
    count,
    permutations,
    product,
    takewhile,
)
from operator import is_not
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import (
    Attribute,
    Binary,
    Call,
    Conditional,
    Expr,
    Function,
    Leaf,
    Literal,
    Ref,
    Slice,
    Subscript,
    Tuple,
    callee,
    callees,
    exchange,
    nodes,
    renamed,
    substitute,
)
from ..ir.assignment import Assignment, LayerRef, is_plain_call
from ..ir.control_flow import Block
from ..ir.module_call import Item, ModuleCall
from ..modules.members import ConstructorValue, constructed, holder_of, is_switch
from .bodies import (
    ACTIVATIONS,
    Extra,
    Key,
    Unbounded,
    body_of,
    hole,
    numbers_in,
    numbers_of,
    read_by,
    unread_without,
)

if TYPE_CHECKING:
    from .module_classes import ClassTable

Calls: TypeAlias = list[ModuleCall]
Values: TypeAlias = list[ir.Value]
_Steps: TypeAlias = list[tuple[Assignment, ir.Value]]  # and what they are left for
Texts: TypeAlias = tuple[str, ...]  # of one number, in all calls

# Numbers that a reader keeps in mind beside the layers' own: three, or one in eight.
MOST_NUMBERS, EACH_NUMBERS = 3, 8
MAX_SWITCHES = 2


def generalise(classes: ClassTable, calls: Iterable[ModuleCall]) -> list[Calls]:
    """The calls that each class stands for, those of a class in order of execution."""
    same: dict[tuple[Key, tuple[str, ...]], list[ModuleCall]] = {}
    for call in calls:
        body = body_of(classes, call)
        same.setdefault((body.form, body.numbers), []).append(call)
    alike: dict[object, list[Calls]] = {}
    for (form, _), group in same.items():
        alike.setdefault((classes.hint(group[0]), form), []).append(group)
    found: list[Calls] = []
    for groups in alike.values():
        every = sorted((call for group in groups for call in group), key=classes.place)
        one = len(groups) > 1 and _differing_numbers(every) is not None
        found += [every] if one else groups
    # Layers first: where they are lacking, nothing else of a body changes.
    for take in (partial(_take_parts, layers=True), _take_parts, _take_results):
        while any(take(classes, found, *pair) for pair in permutations(found, 2)):
            pass
    for group in found:
        if len({body_of(classes, call).numbers for call in group}) > 1:
            _take_numbers(classes, group)
    while any(
        _take_arguments(classes, found, *pair) for pair in permutations(found, 2)
    ):
        pass
    for group in found:
        _say_what_some_lack(classes, group)
    return found


def _say_what_some_lack(classes: ClassTable, calls: Sequence[ModuleCall]) -> None:
    """Of the layers that some calls of a class lack, in all that have them: calls come
    together in turn, and those that came later may not know."""
    for column in zip(*(classes.members[call] for call in calls), strict=False):
        layers = [m.what for m in column if not isinstance(m.what, ir.Value)]
        if any(layer.optional for layer in layers):
            for layer in layers:
                layer.optional = True


# ---- arguments that are one value in some calls

MOST_INPUTS = 5


def _take_arguments(
    classes: ClassTable, groups: list[Calls], wide: Calls, narrow: Calls
) -> bool:
    """Let one class stand for two, of which one is given a value for two arguments.

    An attention to oneself is one to another sequence: `self.self_attn(x, x, mask)`.
    """
    first, other = wide[0], narrow[0]
    fewer = len(other.inputs)
    if (
        classes.hint(first) != classes.hint(other)
        or not fewer < len(first.inputs) <= MOST_INPUTS
        or len(first.items) != len(other.items)
        or [*first.sizes, *other.sizes]
        or classes.bound.intersection((first, *narrow))
        or len({*other.inputs}) < fewer
    ):
        return False
    wanted = body_of(classes, other)
    for places in product(range(fewer), repeat=len(first.inputs)):
        if len({*places}) == fewer:
            body = body_of(classes, first, arguments=places)
            if (body.form, body.numbers) == (wanted.form, wanted.numbers):
                for call in narrow:
                    call.inputs = [call.inputs[place] for place in places]
                wide += narrow  # the class is written from the first of its calls
                groups.remove(narrow)
                return True
    return False


# ---- results that some callers have no use for


def _take_results(
    classes: ClassTable, groups: list[Calls], more: Calls, fewer: Calls
) -> bool:
    """Let one class stand for two, of which one returns more of the same values."""
    first, other = more[0], fewer[0]
    if (
        classes.hint(first) != classes.hint(other)
        or not len(first.outputs) > len(other.outputs)
        or classes.bound.intersection((first, *fewer))
        or [*first.sizes, *other.sizes]
    ):
        return False
    body = body_of(classes, first)
    every = [numbers_of(call.contents()) for call in (*more, *fewer)]
    if body.form[:-1] != body_of(classes, other).form[:-1] or _differing(every) is None:
        return False
    for call in fewer:
        numbered = body_of(classes, call).values.items()
        values = {n: value for value, n in numbered if isinstance(value, ir.Value)}
        call.outputs = [values[body.values[value]] for value in first.outputs]
    more[:] = sorted([*more, *fewer], key=classes.place)
    groups.remove(fewer)
    return True


# ---- numbers

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


def _steps(call: ModuleCall) -> list[Assignment]:
    return [item for item in call.contents() if isinstance(item, Assignment)]


_Columns: TypeAlias = dict[Texts, list[int]]  # numbers, and where in a row they stand
_Products: TypeAlias = dict[Texts, tuple[Texts, Texts | int]]


def _differing(
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


def _differing_numbers(
    calls: Sequence[ModuleCall],
) -> tuple[_Columns, _Products] | None:
    forms = [[step.form for step in _steps(call) if step.form] for call in calls]
    rows = [[str(n) for form in row for n in form.positional] for row in forms]
    told = zip(*rows, strict=False)
    return _differing([numbers_of(call.contents()) for call in calls], told)


def _take_numbers(classes: ClassTable, calls: Sequence[ModuleCall]) -> None:
    """Make attributes of the numbers in which calls of a class differ."""
    found = _differing_numbers(calls)
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

    for step in _steps(call):
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
    steps = _steps(call)
    attends = _last_attending(steps)
    scores = steps[attends].reads()[:1] if attends >= 0 else []
    shapes = [v.shape for v in scores if v.shape is not None and len(v.shape) == 4]
    names: list[str] = []
    for i, step in enumerate(steps):
        operator = step.node.op_type if step.node is not None else ""
        name = "start" if _cuts(step) else _NAMES.get(operator, "size")
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


# ---- parts that some lack

# What a switch is called, by what it switches.
_SWITCHES = {"+": "residual", "*": "scaled", "roll": "shifted"}


def _take_parts(
    classes: ClassTable,
    groups: list[Calls],
    more: Calls,
    fewer: Calls,
    layers: bool = False,
) -> bool:
    """Let one class stand for two whose bodies differ in one part, or in two."""
    first, other = _fullest(more), _fullest(fewer)
    if not _comparable(classes, first, other):
        return False
    for extra in _extras(first, other):
        if layers and any(constructed(step) is None for step in extra):
            continue
        less = body_of(classes, first, extra, unread=unread_without(first, extra))
        if less.form != body_of(classes, other).form:
            continue
        if not _given(classes, more, fewer, extra):
            continue
        if not all(_separable(classes, first, *part) for part in extra.items()):
            continue
        places = [
            (first.items.index(step), _operands(step).index(instead))
            for step, instead in extra.items()
        ]
        left_out = {first.items.index(step): _left_out(step) for step in extra}
        every = [list(call.items) for call in (*more, *fewer)]
        for items in every[len(more) :]:  # as they will be
            for place, _ in sorted(places):
                items.insert(place, left_out[place])
        if _differing([numbers_of(items) for items in every]) is None:
            continue
        for call in fewer:
            _insert(classes, first, extra, call)
        for call in more:
            _mark(call, places)
        calls = sorted([*more, *fewer], key=classes.place)
        classes.members |= {call: classes.assign(call) for call in calls}
        groups[groups.index(more)] = calls
        groups.remove(fewer)
        return True
    return False


def _fullest(calls: Calls) -> ModuleCall:
    """The call of a class in which the fewest steps are off."""
    return min(calls, key=lambda call: sum(step.off for step in _steps(call)))


def _extras(longer: ModuleCall, shorter: ModuleCall) -> Iterator[Extra]:
    """What the longer one may have more, and what the other reads in its stead.

    A layer, a module, a sum or a product, or two of these; two steps that do the same,
    as there and back; or all that cut, at one place.
    """
    more = len(longer.items) - len(shorter.items)
    items = [x for x in longer.items if len(x.outputs) == 1]
    steps = [x for x in items if isinstance(x, Assignment)]
    forms = [x.form for x in steps]
    once = (x for x in steps if x.form is None or forms.count(x.form) == 1)
    steps = [*once]  # no layer that is called again
    calls = [x for x in longer.calls() if len(x.inputs) == len(x.outputs) == 1]
    whole: list[Item] = [*steps, *(x for x in calls if not (x.shares or x.sizes))]
    lacking = Counter(map(_kind, longer.items)) - Counter(map(_kind, shorter.items))
    if lacking.total() != more:
        return
    whole = [x for x in whole if _kind(x) in lacking]
    cuts = [step for step in steps if _cuts(step)]
    if len(cuts) == more and len({(*numbers_in(step.expr),) for step in cuts}) == 1:
        yield {step: _operands(step)[0] for step in cuts}
    parts = [
        (x, instead)
        for x in longer.items
        if x in whole and (constructed(x) is not None or len(_operands(x)) == 2)
        for instead in _operands(x)
    ]
    room = MAX_SWITCHES - _switches(longer)
    for some in combinations(parts, more) if more <= MAX_SWITCHES else ():
        new = [x for x, _ in some if not (x.optional or _kind(x) == "if")]
        if len(new) <= room and Counter(_kind(x) for x, _ in some) == lacking:
            yield dict(some)
    if more == 2:
        # Rolls, or turns of queries and of keys by angles that both are given.
        plain = [s for s in steps if s.form is None and s.reads()]
        plain = [s for s in plain if s.reads()[1:] or _kind(s) == ".roll"]
        for one, other in combinations(plain, 2):
            if _kind(one) == _kind(other) and one.reads()[1:] == other.reads()[1:]:
                yield {one: _operands(one)[0], other: _operands(other)[0]}


def _kind(item: Item) -> str:
    """In what items of calls of one class don't differ."""
    what = constructed(item)
    if isinstance(what, ModuleForm):
        return what.layer
    if what is not None or isinstance(item, ModuleCall):
        return "call"
    if isinstance(item.expr, Conditional):
        return "if"
    name = callee(item.expr) or str(getattr(item.expr, "label", ""))
    return "" if name in ACTIVATIONS else name


def _cuts(item: object) -> bool:
    """Whether a step takes what stands from one place on: x[:, :, -15:]."""
    match item:
        case Assignment(expr=Subscript((Ref(), *parts)), form=None):
            bounds = [part.label for part in parts if part.operands]
            slices = all(isinstance(part, Slice) for part in parts)
            return slices and bounds == [(True, False, False)]
    return False


def _left_out(step: Item) -> Item:
    """A step as it is where others have it: one that cuts takes all."""
    if isinstance(step, ModuleCall) or not _cuts(step):
        return step
    expr = exchange(step.expr, lambda node: Unbounded() if hole(node) else None)
    return replace(step, expr=expr)


def _comparable(classes: ClassTable, a: ModuleCall, b: ModuleCall) -> bool:
    """Two calls of one original class, the first with more statements."""
    return (
        classes.hint(a) == classes.hint(b)
        and len(a.items) > len(b.items)
        and len(a.inputs) >= len(b.inputs)
        and len(a.outputs) == len(b.outputs)
        and not any(isinstance(item, Block) for item in a.items)
        and a is not classes.root_call
    )


def _switches(call: ModuleCall) -> int:
    flags = sum(map(is_switch, call.constants))
    return flags + sum(x.optional for x in call.items if not isinstance(x, Block))


def _operands(step: Item) -> list[ir.Value]:
    """What the others may read in the step's place: its operands, in their order."""
    read = (v for v in read_by(step) if not isinstance(v, ConstructorValue))
    values = dict.fromkeys(v for v in read if v.const_value is None)
    plain = isinstance(step, ModuleCall) or not step.form or is_plain_call(step.expr)
    return list(values) if plain else []


def _separable(
    classes: ClassTable, call: ModuleCall, step: Item, instead: ir.Value
) -> bool:
    """Whether no other item reads both the step's result and its operand."""
    result = step.outputs[0]
    if result is None or (result in call.outputs and instead in call.outputs):
        return False
    if isinstance(step, ModuleCall) or step.form is not None:
        listed = any(
            m.what is step and (m.index is not None or m.inner)
            for m in classes.members[call]
        )
        shared = [s for s in call.steps() if s.form is constructed(step)]
        if listed or shared[1:]:
            return False
    return not any(
        result in reads and instead in reads
        for reads in (read_by(item) for item in call.items if item is not step)
    )


def _insert(
    classes: ClassTable, pattern: ModuleCall, extra: Extra, call: ModuleCall
) -> None:
    """Give `call` the steps of `pattern` that it lacks, switched off."""
    left, new = dict(extra), _Steps()
    _give(classes, call, pattern.inputs, unread_without(pattern, extra))
    for step in extra:
        new.append(_inserted(classes, pattern, step, left, call))
        classes.members[call] = classes.assign(call)
        del left[step]
    _switch(call, new, on=False)


def _inserted(
    classes: ClassTable,
    pattern: ModuleCall,
    step: Item,
    left: Extra,
    call: ModuleCall,
) -> tuple[Assignment, ir.Value]:
    """The first of the steps that are `left`, at its place in `call`; its operand."""
    instead = left[step]
    numbers = body_of(classes, pattern, left).values
    there = {number: value for value, number in body_of(classes, call).values.items()}
    place = pattern.items.index(step)
    operand = there[numbers[instead]]
    assert isinstance(operand, ir.Value)
    # Whoever reads the result in the pattern reads a new value here, and so does
    # the outside; the operand's other readers keep it.
    result = ir.Value(name=operand.name, type=operand.type, shape=operand.shape)
    made = {operand: result}
    if operand in call.outputs:  # the outside knows it under this name
        made = {}
        for item in call.items[:place]:
            if operand in item.outputs:
                _rename(item, operand, result)
        operand, result = result, operand
    both = [item for item in pattern.items if item not in left]
    for item, here in zip(both, call.items, strict=True):
        reads = read_by(item)
        if made and step.outputs[0] in reads:
            _reread(here, made)
        elif not made and instead in reads:
            _reread(here, {result: operand})

    def translated(leaf: Leaf) -> Expr | None:
        if isinstance(leaf, Ref) and leaf.value.const_value is None:
            if isinstance(leaf.value, ConstructorValue):  # that the others have
                call.constants.append(ConstructorValue(leaf.value.name or "", False))
                return Ref(call.constants[-1])
            value = there[numbers[leaf.value]]
            assert isinstance(value, ir.Value)
            value = operand if leaf.value is instead else value
            return Ref(value)
        return None

    lacks = constructed(step)
    if lacks is not None:
        form = ModuleForm("nn.Identity", (), {}, {}, (operand,), (result,))
        path = holder_of(call) + step.path.removeprefix(holder_of(pattern))
        new = Assignment((result,), LayerRef(form)(Ref(operand)), None, form=form)
        new = replace(new, path=path, optional=True, lacks=lacks, off=True)
    else:
        assert isinstance(step, Assignment)
        left_out = _left_out(step)
        assert isinstance(left_out, Assignment)
        expr = substitute(left_out.expr, translated)
        new = replace(step, outputs=(result,), expr=expr, off=True)
    call.items.insert(place, new)
    return new, operand


def _given(classes: ClassTable, more: Calls, fewer: Calls, extra: Extra) -> bool:
    """Whether others can be given what all of a class are, as the angles by which most
    layers turn. What a sole call is given for one step may be a skip of its own."""
    new = unread_without(_fullest(more), extra)
    around = [c for call in fewer for v in new for c in _around(classes, call, v)]
    same = all({*new} <= {*call.inputs} for call in more) and {*fewer} <= {*around}
    told = same and len(more) + len(extra) > 2 and classes.bound.isdisjoint(around)
    return told or not new


def _around(classes: ClassTable, call: ModuleCall, value: ir.Value) -> list[ModuleCall]:
    """The calls that must be given a value for a call to have it, that one first; all
    around it and the network where nothing before them makes it."""
    found = list[ModuleCall]()
    while value not in (*call.inputs, *call.constants):
        found.append(call)
        if call is classes.root_call:
            break
        call = classes.holders[call]
        before = takewhile(partial(is_not, found[-1]), call.items)
        if any(value in item.outputs for item in before):
            break
    return found


def _give(classes: ClassTable, call: ModuleCall, order: Values, new: Values) -> None:
    """Give a call values, in the order of others; and calls around it, if they must."""
    holders = {c: None for value in new for c in _around(classes, call, value)}
    own = iter(call.inputs)
    call.inputs = [value if value in new else next(own) for value in order]
    for holder in list(holders)[1:]:
        taken = {*holder.inputs, *new}
        reads = (value for item in holder.contents() for value in read_by(item))
        holder.inputs = [value for value in dict.fromkeys(reads) if value in taken]


def _rename(item: Assignment | ModuleCall, old: ir.Value, new: ir.Value) -> None:
    """What makes a value makes another one instead."""
    if isinstance(item, ModuleCall):
        for inner in item.contents():
            _rename(inner, old, new)
        item.outputs = [new if out is old else out for out in item.outputs]
    else:
        item.outputs = tuple(new if out is old else out for out in item.outputs)
    _reread(item, {old: new})


def _reread(item: Assignment | ModuleCall, values: dict[ir.Value, ir.Value]) -> None:
    if isinstance(item, ModuleCall):
        for inner in item.contents():
            _reread(inner, values)
        item.inputs = [values.get(v, v) for v in item.inputs]
        return
    item.expr = renamed(item.expr, values)


def _mark(call: ModuleCall, places: list[tuple[int, int]]) -> None:
    """Say of the steps of a call that has them that others lack them."""
    found = []
    for place, nth in places:
        step = call.items[place]
        assert not isinstance(step, Block)
        step.optional = constructed(step) is not None
        if isinstance(step, Assignment):
            found.append((step, _operands(step)[nth]))
    _switch(call, found, on=True)


def _switch(call: ModuleCall, steps: _Steps, on: bool) -> None:
    """`expr` becomes `expr if self.flag else operand`, for steps that are no layers."""
    plain = [(s, operand) for s, operand in steps if s.form is None and not _cuts(s)]
    plain = [
        (s, operand) for s, operand in plain if not isinstance(s.expr, Conditional)
    ]
    if not plain:
        return
    first, _ = plain[0]
    done = callee(first.expr) or (first.node.op_type if first.node is not None else "")
    done = str(first.expr.label) if isinstance(first.expr, Binary) else done
    word = re.split("[._]", done)[-1].lower()
    flag = ConstructorValue(_SWITCHES.get(word, f"with_{word}"), on)
    call.constants.append(flag)
    for step, operand in plain:
        step.expr = Conditional(step.expr, Ref(flag), Ref(operand))
