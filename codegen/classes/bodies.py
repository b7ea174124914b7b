"""What a call does, with a hole for each number that its class may be given.

Calls of equal bodies can be instances of one class. The holes in statements are filled
by numbers and activations; those in the constructors of members by numbers of layers
and, where a body repeats one layer, by how often it does.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.spelling.expr import (
    Expr,
    Leaf,
    Literal,
    Name,
    Ref,
    exchange,
    joined,
    nodes,
    render,
    spell,
)
from ..ir.assignment import Assignment, LayerRef
from ..ir.control_flow import Action, Block
from ..ir.module_call import Item, ModuleCall
from ..modules.members import (
    Attribute,
    ConstructorValue,
    constructed,
    is_switch,
    member_name,
)
from ..modules.sequential import hands_on, is_chain
from .constructor_arguments import ANY, ARGUMENTS, plain_size

if TYPE_CHECKING:
    from .module_classes import ClassTable, ModuleClass

Key: TypeAlias = tuple[object, ...]
# Steps that some lack, and what is read there in their stead.
Extra: TypeAlias = Mapping[Item, ir.Value]


@dataclass(frozen=True)
class Body:
    """A call's body: `form` is equal for all that differ in what fills the holes alone.

    `numbers` fill those of statements, in their order, as source. `values` has the
    number that each value has in the form.
    """

    form: Key
    numbers: tuple[str, ...]
    values: dict[object, int]


def body_of(
    classes: ClassTable,
    call: ModuleCall,
    without: Extra | None = None,
    arguments: Sequence[int] = (),
    unread: Sequence[ir.Value] = (),
    given: str = "",
) -> Body:
    """The body of a call whose inner calls have classes.

    As if it had no step of `without`, whose readers read what that gives, no input of
    `unread`, those `arguments` of another call, one for each of its own, and a module
    that its constructor is `given`.
    """
    left = without or {}
    given = given or classes.given.get(call, "")
    free = {m.what for m in classes.members[call] if m.attr == given}
    gone = {*left, *(v for x in left for v in read_by(x) if is_switch(v))}
    if not left and (repeated := repetition(classes, call)) is not None:
        return Body(repeated.form, (), {})
    texts = {m.what: m.text for m in classes.members[call] if m.what not in left}
    numbers = defaultdict[object, int](count(len(set(arguments))).__next__)
    numbers.update(zip(call.inputs, arguments, strict=False))
    number = numbers.__getitem__
    for value in (v for v in (*call.inputs, *call.sizes) if v not in unread):
        number(value)

    def name(leaf: Leaf) -> str:
        if isinstance(leaf, LayerRef):
            return member_name(texts, leaf)
        assert isinstance(leaf, Ref)
        return texts.get(leaf.value) or f"v{number(leaf.value)}"

    def part(item: Item) -> object:
        if isinstance(item, Block):
            return tuple(tuple(map(part, items)) for items in item.parts())
        if item in left:
            numbers.update(dict.fromkeys(item.outputs, number(left[item])))
            return None
        outs = tuple(out and number(out) for out in item.outputs)
        if isinstance(item, ModuleCall):
            source = item.shares or item
            args = [*map(Ref, item.inputs), *item.size_args]
            passed = ", ".join(render(arg, name) for arg in args)
            of = source not in free and id(classes.of[source])
            return of, texts.get(source), passed, outs
        kind = item.kind if isinstance(item, Action) else ""
        expr = exchange(item.expr, lambda node: Name("_") if hole(node) else None)
        return render(expr, name), outs, item.inlines, kind

    parts = [found for item in call.items if (found := part(item)) is not None]
    members = (m for m in classes.members[call] if m.what not in gone)
    owned = (
        (m.text, m.what not in free and _constructor_form(classes, m)) for m in members
    )
    returned = tuple(numbers[out] for out in call.outputs)
    told = numbers_of(x for x in call.contents() if x not in left)
    return Body((is_chain(call), *parts, *owned, returned), told, dict(numbers))


def unread_without(call: ModuleCall, left: Extra) -> list[ir.Value]:
    """The inputs that nothing but steps left out reads."""
    items = [item for item in call.contents() if item not in left]
    read = {*call.outputs, *left.values(), *chain.from_iterable(map(read_by, items))}
    return [value for value in call.inputs if value not in read]


def read_by(item: Item) -> Sequence[ir.Value]:
    """What an item of a body reads; of a call, what it is given."""
    return item.inputs if isinstance(item, ModuleCall) else item.reads()


# ---- the holes of statements

# What a class may be given: a function of one tensor that changes it number by number.
_NAMES_IN_F = (
    "celu elu gelu hardsigmoid hardswish leaky_relu logsigmoid mish relu relu6 selu "
    "silu softplus softsign"
)
ACTIVATIONS = {*(f"F.{x}" for x in _NAMES_IN_F.split()), "torch.sigmoid", "torch.tanh"}


_NUMBER = re.compile(r"-?(\d|math\.sqrt\([\d /.]+\))")


class Unbounded(Literal):
    """None for the bound of a slice that takes all."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None)


def hole(expr: Expr) -> str:
    """The number or the activation that a class may be given in a node's place, as
    source; '' for any other node."""
    match expr:
        case Unbounded():
            return expr.text
        case Literal():
            return expr.text if _NUMBER.match(expr.text) else ""
        case Name(text):
            return text if text in ACTIVATIONS else ""
    return ""


def numbers_in(expr: Expr) -> list[str]:
    """What fills the holes of an expression, from left to right."""
    return [text for node in nodes(expr) if (text := hole(node))]


def numbers_of(items: Iterable[Item]) -> tuple[str, ...]:
    """What fills the holes of the statements among items."""
    steps = (item for item in items if isinstance(item, Assignment))
    return tuple(text for step in steps for text in numbers_in(step.expr))


# ---- those of constructors


class Column(NamedTuple):
    """A number of a constructor: what it is called there, and its value."""

    label: str
    value: Any


def columns_of(classes: ClassTable, call: ModuleCall) -> list[Column]:
    """Every number of the constructor of a call's class, in the order of its text."""
    repeated = repetition(classes, call)
    if repeated is not None:
        return repeated.columns
    given = given_module(classes, call)
    own = [m for m in classes.members[call] if m.what is not given]
    return [column for m in own for column in _member_columns(classes, m)]


def given_module(classes: ClassTable, call: ModuleCall) -> ModuleCall | None:
    """The module that the constructor of a call's class is given; None of most."""
    name = classes.given.get(call)
    found = (m.what for m in classes.members[call] if m.attr == name)
    what = next(found, None)
    return what if isinstance(what, ModuleCall) else None


def told(classes: ClassTable, call: ModuleCall) -> list[Column]:
    """What is told to make an instance: of a module that it is given, then its own."""
    given, labels = given_module(classes, call), classes.of[call].parameters
    own = map(Column, labels, classes.arguments[call])
    return [*(told(classes, given) if given else ()), *own]


def _member_columns(classes: ClassTable, member: Attribute) -> list[Column]:
    what, form = member.what, constructed(member.what)
    if isinstance(what, ConstructorValue):
        return [Column(member.attr, what.value)]
    if isinstance(what, ir.Value):
        return [Column("dim", size) for size in stored_shape(what)]
    numbers: Iterable[Any]
    if isinstance(form, ModuleCall):
        columns = told(classes, form)
        labels = [plain_size(column.label) for column in columns]
        numbers = [column.value for column in columns]
    else:
        names, keys = ARGUMENTS.get(form.layer, ()), sorted(form.keywords)
        labels = [*names, *["size"] * len(form.positional)][: len(form.positional)]
        labels += keys
        numbers = [*form.positional, *(form.keywords[key][0] for key in keys)]
    lacks = isinstance(what, Assignment) and what.lacks is not None
    values = [ANY] * len(labels) if lacks else numbers
    found = list(map(Column, labels, values))
    return [Column(member.attr, not lacks), *found] if what.optional else found


def _constructor_form(classes: ClassTable, member: Attribute) -> Key:
    what, form = member.what, constructed(member.what)
    if isinstance(form, ModuleCall):
        return "call", *_kind_of(classes, form)
    if isinstance(what, Assignment):
        kinds = tuple(type(v).__name__ for v in form.positional)
        return (form.layer, kinds, tuple(sorted(form.keywords)), tuple(form.weights))
    if isinstance(what, ConstructorValue):
        return ("switch",)
    assert isinstance(what, ir.Value)
    return (str(what.dtype), is_parameter(what), len(stored_shape(what)))


def _kind_of(classes: ClassTable, call: ModuleCall) -> Key:
    """The class of a call, and that of the module it is given."""
    given = given_module(classes, call)
    return id(classes.of[call]), *(_kind_of(classes, given) if given else ())


# ---- how often a body repeats one layer

_MIN_LAYERS = 3  # of a list that grows, or of those that are made by a loop


@dataclass(frozen=True)
class Repetition:
    """A body that is any number of layers of one class, one after the other.

    A row, in which all but the first are equal and others may stand before them; or
    layers that each take all there is and add to it. What the constructor is given:
    how many, what the first one is given and what each next one is, in a row, or how
    much more. They are called `stem` and a number from `start` on, or are a list of
    that name; those of an nn.Sequential have no stem.
    """

    layer: ModuleCall  # the first one
    kind: Key  # its class
    columns: list[Column]
    stem: str = ""
    start: int | None = None  # None of a list
    joins: str = ""  # along which axis results are joined
    before: Key = ()  # the forms of what stands before a row's layers

    @property
    def form(self) -> Key:
        """Equal for all that differ in numbers alone."""
        how = self.stem, self.start, self.joins, self.before
        return "repeated", self.kind, *how


def repetition(classes: ClassTable, call: ModuleCall) -> Repetition | None:
    """The layers that a call's body repeats; None if it does anything else."""
    members = classes.members[call]
    stem, whole = _stem(members), is_chain(call)
    named = stem is not None and stem[1] is not None and not whole and hands_on(call)
    layers = _last_alike(classes, members) if whole or named else _growing(call)
    if len(kinds := {_kind_of(classes, layer) for layer in layers}) != 1:
        return None
    # Two layers with an activation each are no rounds of a block: a Bottleneck's.
    if named and (len(layers) < 2 or classes.of[layers[0]].chain):
        return None
    rows = [told(classes, layer) for layer in layers]
    made = layers[0], kinds.pop()
    counts = [Column("depth", len(layers)), *rows[0]]
    if whole or named:
        nexts = rows[1:] or [[Column(column.label, ANY) for column in rows[0]]]
        if any(row != nexts[0] for row in nexts):
            return None
        before = members[: len(members) - len(layers)]
        columns = [column for m in before for column in _member_columns(classes, m)]
        forms = tuple(_constructor_form(classes, member) for member in before)
        columns += [*counts, *nexts[0]]
        said = stem if stem is not None and named else ("", None)
        return Repetition(*made, columns, *said, before=forms)
    steps = [_step([c.value for c in column]) for column in zip(*rows, strict=True)]
    if stem is None or None in steps or len(layers) < len(members):
        return None
    join = call.items[-1]
    assert isinstance(join, Assignment)
    columns = [*counts, *(Column("growth", step) for step in steps)]
    return Repetition(*made, columns, *stem, render(join.expr.operands[2]))


def _last_alike(classes: ClassTable, members: Sequence[Attribute]) -> list[ModuleCall]:
    """The modules that a row ends in which are of one class."""
    found = list[ModuleCall]()
    for what in (member.what for member in reversed(members)):
        if not isinstance(what, ModuleCall):
            break
        if found and _kind_of(classes, what) != _kind_of(classes, found[0]):
            break
        found.append(what)
    return found[::-1]


def _growing(call: ModuleCall) -> list[ModuleCall]:
    """The layers of a call that calls each on all that there is, joined."""
    layers, maps = list[ModuleCall](), list(call.inputs)
    given = maps[0] if len(maps) == 1 else None
    if (
        given is None
        or len(call.items) < 2 * _MIN_LAYERS
        or call.constants
        or call.sizes
    ):
        return []
    for layer, join in zip(call.items[::2], call.items[1::2], strict=False):
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
    whole = len(call.items) == 2 * len(layers) and call.outputs == [given]
    return layers if whole else []


def _stem(members: Sequence[Attribute]) -> tuple[str, int | None] | None:
    """What the names of all members begin with, and the first one's number; None in
    its place where they are a list."""
    plain = all(isinstance(m.what, ModuleCall) and not m.inner for m in members)
    if not members or not plain:
        return None
    attr, numbers = members[0].attr, range(len(members))
    if [(m.attr, m.index) for m in members] == [(attr, i) for i in numbers]:
        return attr, None
    stem = attr.rstrip("0123456789")
    start = int(attr == f"{stem}1")
    names = [f"{stem}{i + start}" for i in numbers]
    return (stem, start) if [m.attr for m in members] == names else None


def _step(column: Sequence[Any]) -> int | None:
    """How much more each number is than the one before it, if they count evenly."""
    if all(value == column[0] for value in column):
        return 0
    if any(type(value) is not int for value in column):
        return None
    step: int = column[1] - column[0]
    even = [column[0] + step * i for i in range(len(column))]
    return step if list(column) == even else None


def in_runs(items: Sequence[str]) -> str:
    """Arguments that make one module each; more than two alike by a generator."""
    runs = [(text, len([*run])) for text, run in groupby(items)]
    return ", ".join(
        f"*({text} for _ in range({size}))" if size > 2 else ", ".join([text] * size)
        for text, size in runs
    )


def is_rolled(classes: ClassTable, cls: ModuleClass) -> bool:
    """Whether a loop of statements makes the last members of a class."""
    repeated = repetition(classes, cls.call)
    if repeated is None or not repeated.stem or repeated.start is None:
        return False
    if repeated.joins:
        return True
    depth = len(repeated.columns) - 2 * len(told(classes, repeated.layer)) - 1
    return depth in cls.holes or repeated.columns[depth].value > _MIN_LAYERS


def repeated_lines(
    classes: ClassTable, cls: ModuleClass, holes: Mapping[int, str]
) -> list[str]:
    """Source that makes the layers that a class repeats; [] if it does anything else.

    Those of an nn.Sequential are an expression, others are statements, the last two of
    them a loop where it is rolled. `holes` has the texts for those columns in which
    instances differ.
    """
    repeated = repetition(classes, cls.call)
    if repeated is None or not (repeated.stem or cls.chain):
        return []
    column, before = 0, list[str]()
    for member in cls.members[: len(repeated.before)]:
        text, column = classes.constructor(cls, member, column, dict(holes))
        before.append(text)
    usual = classes.usual(repeated.layer)
    depth, *given = (
        holes.get(i) or render(spell(other if value is ANY else value))
        for i, ((_, value), other) in enumerate(
            zip(repeated.columns[column:], [None, *usual, *usual], strict=True), column
        )
    )
    first, others = given[: len(usual)], given[len(usual) :]
    stem, start = repeated.stem, repeated.start
    if repeated.joins:
        counted = [_counted(*pair) for pair in zip(first, others, strict=True)]
        layer = classes.instance(repeated.layer, counted)
        head = f"for i in range({depth})"
        if start is None:
            return [f"self.{stem} = nn.ModuleList({layer} {head})"]
        number = "{i + 1}" if start else "{i}"
        return [f"{head}:", f'    self.add_module(f"{stem}{number}", {layer})']
    one, next_one = (classes.instance(repeated.layer, x) for x in (first, others))
    if start is None:
        return [f"nn.Sequential({_in_a_row(before, one, next_one, depth)})"]
    rolled = is_rolled(classes, cls)
    made = before + [one] * (one != next_one or not rolled)
    made += [] if rolled else [next_one] * (int(depth) - 1)
    lines = [f"self.{stem}{i} = {text}" for i, text in enumerate(made, start)]
    begin, end = start + len(made), _plus(depth, start + len(before))
    bounds = f"{begin}, {end}" if begin else end
    loop = [
        f"for i in range({bounds}):",
        f'    self.add_module(f"{stem}{{i}}", {next_one})',
    ]
    return lines + loop * rolled


def _plus(text: str, more: int) -> str:
    """4, depth or depth + 1."""
    if text.isdigit():
        return str(int(text) + more)
    return f"{text} + {more}" if more else text


def _in_a_row(before: list[str], first: str, others: str, depth: str) -> str:
    if depth.isdigit():
        return in_runs([*before, first, *[others] * (int(depth) - 1)])
    alone, count = ([], depth) if first == others else ([first], f"{depth} - 1")
    return ", ".join([*before, *alone, f"*({others} for _ in range({count}))"])


def _counted(first: str, step: str) -> str:
    times = "i" if step == "1" else f"{step} * i"
    return first if step == "0" else f"{first} + {times}"


def stored_shape(value: ir.Value) -> tuple[int, ...]:
    """The sizes of a constant tensor."""
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())
