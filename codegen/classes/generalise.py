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
- what some calls are given once, others are given two values for;
- a module of another class is given to the constructor, `Residual(Attention(64))`, if
  the file says that these are of several classes.

What a body is, and where it has holes, stands in bodies.py, which numbers differ in
statement_numbers.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations, product, takewhile
from operator import is_not
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import (
    Binary,
    Conditional,
    Expr,
    Leaf,
    Ref,
    callee,
    exchange,
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
    given_module,
    hole,
    numbers_in,
    numbers_of,
    read_by,
    unread_without,
)
from .statement_numbers import (
    cuts,
    differing,
    differing_numbers,
    steps_of,
    take_numbers,
)

if TYPE_CHECKING:
    from .module_classes import ClassTable

Calls: TypeAlias = list[ModuleCall]
Values: TypeAlias = list[ir.Value]
_Steps: TypeAlias = list[tuple[Assignment, ir.Value]]  # and what they are left for

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
        one = len(groups) > 1 and differing_numbers(every) is not None
        found += [every] if one else groups
    # Layers first: where they are lacking, nothing else of a body changes.
    layers = partial(_take_parts, layers=True)
    for take in (layers, _take_parts, _take_results, _take_modules):
        while any(take(classes, found, *pair) for pair in permutations(found, 2)):
            pass
    for group in found:
        if len({body_of(classes, call).numbers for call in group}) > 1:
            take_numbers(classes, group)
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
    if body.form[:-1] != body_of(classes, other).form[:-1] or differing(every) is None:
        return False
    for call in fewer:
        numbered = body_of(classes, call).values.items()
        values = {n: value for value, n in numbered if isinstance(value, ir.Value)}
        call.outputs = [values[body.values[value]] for value in first.outputs]
    more[:] = sorted([*more, *fewer], key=classes.place)
    groups.remove(fewer)
    return True


# ---- modules of other classes


def _take_modules(
    classes: ClassTable, groups: list[Calls], more: Calls, others: Calls
) -> bool:
    """Let one class stand for two that call modules of other classes, which these are
    given: `Residual(Attention(64))`. Where the original calls both classes alike, it
    has one that tells them apart itself; where it doesn't say, what wraps does so."""
    first, other = more[0], others[0]
    if classes.hint(first) != classes.hint(other) or first is classes.root_call:
        return False
    calls = [*more, *others]
    every = [numbers_of(call.contents()) for call in calls]
    wraps = not first.hint and len(first.items) <= 2  # a norm in front, a sum behind
    plain = [[m for m in classes.members[c] if m.path[1:] == ()] for c in calls]
    rows = [{m.attr: m.what for m in members} for members in plain]
    for name in rows[0]:
        whats = [row.get(name) for row in rows]
        modules = [what for what in whats if isinstance(what, ModuleCall)]
        given = {classes.given.get(call, name) for call in calls}
        told = len({_said(classes, module) for module in modules}) > 1 or wraps
        if len(modules) < len(whats) or given != {name} or not told:
            continue
        bodies = (body_of(classes, call, given=name) for call in (first, other))
        if len({body.form for body in bodies}) == 1 and differing(every) is not None:
            more[:] = sorted(calls, key=classes.place)
            classes.given.update(dict.fromkeys(more, name))
            groups.remove(others)
            return True
    return False


def _said(classes: ClassTable, call: ModuleCall) -> str:
    """What the file calls a module and what that is given."""
    given = given_module(classes, call)
    return f"{call.hint}({_said(classes, given) if given else ''})"


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
        if differing([numbers_of(items) for items in every]) is None:
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
    return min(calls, key=lambda call: sum(step.off for step in steps_of(call)))


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
    cut = [step for step in steps if cuts(step)]
    if len(cut) == more and len({(*numbers_in(step.expr),) for step in cut}) == 1:
        yield {step: _operands(step)[0] for step in cut}
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


def _left_out(step: Item) -> Item:
    """A step as it is where others have it: one that cuts takes all."""
    if isinstance(step, ModuleCall) or not cuts(step):
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
    classes: ClassTable, pattern: ModuleCall, step: Item, left: Extra, call: ModuleCall
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
    plain = [(s, operand) for s, operand in steps if s.form is None and not cuts(s)]
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
