"""Calls that do the same become one class, numbers that differ its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...analysis.graph.parameters import is_parameter, is_saved
from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import TORCH_DTYPES, render, spell
from ..ir.assignment import Assignment, Readers, readers_of
from ..ir.identifiers import (
    attribute,
    class_name,
    class_of_path,
    identifier,
    shared_name,
    unused,
)
from ..ir.module_call import ModuleCall
from ..ir.naming import CLASSES, first_name
from ..modules.members import Attribute, ConstructorValue, assign_members, constructed
from ..modules.sequential import is_chain
from .bodies import (
    columns_of,
    given_module,
    in_runs,
    repeated_lines,
    repetition,
    stored_shape,
    told,
)
from .constructor_arguments import (
    ANY,
    BY_NAME,
    Parameter,
    parameters,
    place,
    plain_size,
    unexplained,
)
from .generalise import generalise
from .twin_names import Twin, names_apart

MAX_PARAMETERS = 8


@dataclass(eq=False)
class ModuleClass:
    """One class of the emitted module, or an nn.Sequential when `chain`."""

    name: str
    call: ModuleCall  # the first instance; its names are printed
    members: list[Attribute]
    chain: bool
    parameters: list[str] = field(default_factory=list)
    # Column number -> parameter name, for the columns in which instances differ.
    holes: dict[int, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    usual: dict[str, Any] = field(default_factory=dict)  # where any number will do


class ClassTable:
    """The classes of a tree, innermost first; `of` and `arguments` per call."""

    def __init__(self, root: ModuleCall, network: str, faithful: bool = False) -> None:
        self.faithful = faithful
        self.of: dict[ModuleCall, ModuleClass] = {}
        self.arguments: dict[ModuleCall, tuple[Any, ...]] = {}
        self.given: dict[ModuleCall, str] = {}  # the module that its class is given
        self.counts: dict[ModuleCall, int] = {}  # how many calls are of the same class
        self.members: dict[ModuleCall, list[Attribute]] = {}
        # Assignment, call or value in a call -> member text
        self.names: dict[object, str] = {}
        self.order: list[ModuleClass] = []
        self.taken: set[str] = {network, *(s.__name__ for s in root.sources())}
        self.root_call, self.network = root, network
        self._places = {call: i for i, call in enumerate((root, *root.all_calls()))}
        self._paths = {call.path for call in self._places}
        self.holders = {c: call for call in self._places for c in call.calls()}
        # Those with a given number of arguments and results.
        chained = (c for call in self._places if is_chain(call) for c in call.calls())
        self.bound = {root, *chained, *(call.shares for call in self._places)}
        self._stems: dict[tuple[ModuleCall, str], str] = {}
        self.root = self.build(root, network)

    def assign(self, call: ModuleCall) -> list[Attribute]:
        """The attributes of a call's module, in the order of first use."""
        found = assign_members(call, self.faithful)
        for member in found:
            member.attr = self._stems.get((call, member.attr), member.attr)
        return found

    @cached_property
    def readers(self) -> Readers:
        """The steps of all bodies that read each value."""
        return readers_of(self.root_call.steps())

    def hint(self, call: ModuleCall) -> str:
        """What the class of a call is called in the file, or after its path."""
        return _said_by_file(call) or class_of_path(call.path)

    def place(self, call: ModuleCall) -> int:
        """Where a call stands in the order of execution."""
        return self._places[call]

    # ---- classes

    def build(self, root: ModuleCall, network: str) -> ModuleClass:
        """Find the class of every call, innermost first; returns that of the root."""
        own: dict[int, list[ModuleCall]] = {}
        levels: dict[int, list[ModuleCall]] = {}
        self._heights(root, own, {})
        # Calls of one class come together, though some of them lack inner ones.
        every = ((h, call) for h in sorted(own) for call in own[h])
        least = {self.hint(call): h for h, call in every if call.path}
        self._heights(root, levels, least)
        for height in sorted(levels):
            for call in levels[height]:
                self.members[call] = self.assign(call)
            if not self.faithful:
                self._unnumber(levels[height])
            for calls in generalise(self, levels[height]):
                for part in self._split_wide(calls):
                    self._make(part, network if part[0] is root else "")
        self._sort()
        return self.of[root]

    def _sort(self) -> None:
        """Put classes by what they are made of, then by where they are called first;
        what they are called tells no order."""
        heights, first = dict[ModuleClass | None, int](), dict[ModuleClass, int]()
        for cls in self.order:
            calls = [call for call, made in self.of.items() if made is cls]
            parts = {self.of.get(part) for call in calls for part in call.calls()}
            heights[cls] = 1 + max((heights.get(x, 0) for x in parts), default=0)
            first[cls] = min(map(self.place, calls))
        self.order.sort(key=lambda cls: (heights[cls], first[cls]))

    def _unnumber(self, calls: list[ModuleCall]) -> None:
        """Leave out the numbers that tell members of calls alike apart, as crpe1 is
        what one block has and crpe2 the next: they keep one class from being."""
        alike: dict[object, list[list[tuple[ModuleCall, Attribute]]]] = {}
        for call in calls:
            row = [(call, member) for member in self.members[call]]
            stems = [m.attr.rstrip("0123456789") for _, m in row]
            if len({*stems}) == len({m.attr for _, m in row}):
                alike.setdefault((self.hint(call), *stems), []).append(row)
        for rows in alike.values():
            for column in zip(*rows, strict=True):
                if len({m.attr for _, m in column}) > 1:
                    for call, m in column:
                        stem = attribute(m.attr.rstrip("0123456789"))
                        m.attr = self._stems.setdefault((call, m.attr), stem)

    def _heights(
        self,
        call: ModuleCall,
        levels: dict[int, list[ModuleCall]],
        least: dict[str, int],
    ) -> int:
        calls = (inner for inner in call.calls() if inner.shares is None)
        height = 1 + max((self._heights(c, levels, least) for c in calls), default=0)
        height = max(height, least.get(self.hint(call), 0))
        levels.setdefault(height, []).append(call)
        return height

    def _split_wide(self, calls: list[ModuleCall]) -> list[list[ModuleCall]]:
        """A class with too many parameters is harder to read than two classes; so is
        one that tells rows of one what only longer ones are given."""
        rows, labels = self._table(calls)
        short = [c for c, row in zip(calls, rows, strict=True) if ANY in row]
        long = [call for call in calls if call not in short]
        if short and long and is_chain(calls[0]) and unexplained(rows, labels):
            return [part for some in (short, long) for part in self._split_wide(some)]
        flagged = any(member.is_flagged for member in self.members[calls[0]])
        if flagged or len(self.varying(calls)) <= MAX_PARAMETERS:
            return [calls]  # no part would need a flag
        parts: dict[object, list[ModuleCall]] = {}
        for call, row in zip(calls, rows, strict=True):
            parts.setdefault(tuple(row), []).append(call)
        return list(parts.values())

    def _make(self, calls: list[ModuleCall], network: str) -> None:
        chain = is_chain(calls[0]) and not network
        # Of rows the longest shows what all layers are given; others may lack modules.
        row = chain or repetition(self, calls[0]) is not None
        first = max(calls, key=lambda c: len(c.items if row else [*c.calls()]))
        members = self.members[first]
        cls = ModuleClass(network, first, members, chain)
        if not chain and not network:
            self._name(cls, _class_wish(calls, {*map(self.hint, calls)}), calls)
        varying = self.varying(calls)
        labels: dict[str, str] = {}
        sizes = [plain_size(parameter.wish) for parameter in varying]
        # Attributes of its own first: size1 is self.size1, where there is another.
        for parameter in sorted(varying, key=lambda p: (p.wish == "size", p.columns)):
            one = sizes.count("size") == 1
            wish = plain_size(parameter.wish) if one else parameter.wish
            labels[place(parameter)] = unused(wish, labels.values())
        for parameter in varying:
            label = labels[place(parameter)]
            cls.parameters.append(label)
            cls.holes.update(parameter.texts(labels))
            cls.usual[label] = parameter.usual
            if parameter.default is not None:
                cls.defaults[label] = parameter.default
        rows, _ = self._table(calls)
        for column, given in enumerate(zip(*rows, strict=True)):
            told = [value for value in given if value is not ANY]
            if told and given[calls.index(first)] is ANY:  # as where there is a layer
                cls.holes.setdefault(column, render(spell(told[0])))
        self._call_settings(cls)
        for i, call in enumerate(calls):
            self.of[call] = cls
            self.counts[call] = len(calls)
            self.arguments[call] = tuple(parameter.values[i] for parameter in varying)
        self.order.append(cls)

    def _call_settings(self, cls: ModuleClass) -> None:
        """A number without a name is called after the parameter that it is."""
        column, free = 0, {*cls.parameters} - {m.attr for m in cls.members}
        for member in cls.members:
            label = cls.holes.get(column, "")
            _, column = self.constructor(cls, member, column, cls.holes)
            if isinstance(member.what, ConstructorValue) and label in free:
                unnamed = member.attr.rstrip("0123456789") == "size"
                member.attr = label if unnamed else member.attr

    def varying(self, calls: list[ModuleCall]) -> list[Parameter]:
        """The parameters that a class for all these calls has."""
        rows, labels = self._table(calls)
        # A chain is written out where it is called: it computes nothing of its own.
        return parameters(rows, labels, not is_chain(calls[0]))

    def _table(self, calls: list[ModuleCall]) -> tuple[list[list[Any]], list[str]]:
        """What each constructor is given, and what that is called."""
        rows = [columns_of(self, call) for call in calls]
        return [[c.value for c in row] for row in rows], [c.label for c in rows[0]]

    def _name(self, cls: ModuleClass, wish: str, calls: list[ModuleCall]) -> None:
        """Its name; of two classes of one name, one says what tells it apart."""
        cls.name = unused(wish, self.taken)
        twin = next((k for k in self.order if k.name == wish), None)
        if cls.name != wish and twin is not None:
            others = [call for call, known in self.of.items() if known is twin]
            new, old = self._twin(cls, calls), self._twin(twin, others)
            names = names_apart(new, old, wish, self.network, self._paths)
            free = (x for x in names if not (x[0] in self.taken or x[0][-1].isdigit()))
            name, is_new = next(free, (cls.name, len(others) >= len(calls)))
            (cls if is_new else twin).name = name
            (twin if is_new else cls).name = wish
            self.taken.add(name)
        self.taken.add(cls.name)

    def _twin(self, cls: ModuleClass, calls: Sequence[ModuleCall]) -> Twin:
        parts: dict[str, str] = {}
        blocks, settings = set(), set()
        for member in cls.members:
            attr, what, form = member.attr, member.what, constructed(member.what)
            if attr == self.given.get(cls.call):
                continue
            if isinstance(what, ConstructorValue):
                settings.add(attr)
            elif isinstance(form, ModuleCall):
                parts_of = (form, *form.all_calls())  # of a repeated call not again
                made = (self.of.get(c.shares or c) for c in parts_of)
                kind = next((c.name for c in made if c and not c.chain), "")
                if attr not in blocks:  # the first one of a row of layers and blocks
                    parts[attr] = kind
                blocks |= {attr} if kind else set()
            else:
                layer = isinstance(what, Assignment)
                parts.setdefault(attr, form.layer if layer else "")
        return Twin(calls, parts, blocks, settings)

    # ---- constructors

    def owner(self, call: ModuleCall, twin: ModuleCall) -> ModuleCall:
        """Whose module a call is of, whose body is written from that around `twin`: of
        the same one, or of its own where its class is given that."""
        own, first = call.shares or call, twin.shares or twin
        return first if self.of.get(own, made := self.of[first]) is made else own

    def part(self, cls: ModuleClass) -> str:
        """What a class's constructor calls the module that it is given; "" of most."""
        name = self.given.get(cls.call)
        return unused(identifier(name), {*self.taken, *cls.parameters}) if name else ""

    def made_for(self, cls: ModuleClass, call: ModuleCall) -> list[ModuleClass]:
        """The classes of the module that a class's body calls there: of one that it is
        given, as many as there are."""
        if call is not given_module(self, cls.call):
            return [self.of[call]]
        given = (given_module(self, x) for x, made in self.of.items() if made is cls)
        return [*dict.fromkeys(self.of[inner] for inner in given if inner)]

    def constructor(
        self, cls: ModuleClass, member: Attribute, column: int, holes: dict[int, str]
    ) -> tuple[str, int]:
        """Source of the value of a class's member, and the first column after it."""
        what, form = member.what, constructed(member.what)
        if what is given_module(self, cls.call):
            return self.part(cls), column
        if isinstance(what, Assignment | ModuleCall):
            start = column + what.optional
            if isinstance(form, ModuleCall):
                values = zip(told(self, form), self.usual(form), strict=True)
                texts = [
                    holes.get(i) or render(spell(usual if value is ANY else value))
                    for i, ((_, value), usual) in enumerate(values, start)
                ]
                text, end = self.instance(form, texts), start + len(texts)
            else:
                text, end = _layer_text(form, start, holes)
            lacking = f" if {holes[column]} else nn.Identity()" if what.optional else ""
            return text + lacking, end
        if isinstance(what, ConstructorValue):
            return holes.get(column) or render(spell(what.value)), column + 1
        dims = stored_shape(what)
        sizes = [holes.get(column + i, str(size)) for i, size in enumerate(dims)]
        shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        assert what.dtype is not None
        dtype = TORCH_DTYPES[what.dtype]
        # What load() fills is made in PyTorch's own type, as its layers' weights are.
        filled = is_parameter(what) or not self.faithful or is_saved(what)
        usual = dtype == "float32" or (filled and dtype in ("float16", "bfloat16"))
        options = "" if usual else f", dtype=torch.{dtype}"
        return f"torch.empty({shape}{options})", column + len(dims)

    def usual(self, call: ModuleCall) -> list[Any]:
        """For all that an instance is told what most are, where any number will do."""
        given = given_module(self, call)
        own = self.of[call].usual.values()
        return [*(self.usual(given) if given else ()), *own]

    def instance(self, call: ModuleCall, texts: Sequence[str]) -> str:
        """Source that makes an instance, of a text for each number that it is told."""
        cls, inner, arguments = self.of[call], given_module(self, call), []
        if inner is not None:
            size = len(told(self, inner))
            arguments, texts = [self.instance(inner, texts[:size])], texts[size:]
        given = dict(zip(cls.parameters, texts, strict=True))
        if not cls.chain:
            for label, text in given.items():
                if label not in cls.defaults:
                    name = f"{label}=" if label.startswith(BY_NAME) else ""
                    arguments.append(name + text)
                elif text != render(spell(cls.defaults[label])):
                    arguments.append(f"{label}={text}")
            return f"{cls.name}({', '.join(arguments)})"
        holes = {c: given.get(text, text) for c, text in cls.holes.items()}
        if repeated := repeated_lines(self, cls, holes):
            return repeated[0]
        column, layers = 0, []
        for member in cls.members:
            text, column = self.constructor(cls, member, column, holes)
            layers.append(text)
        return f"nn.Sequential({in_runs(layers)})"


def _layer_text(
    form: ModuleForm, column: int, holes: dict[int, str]
) -> tuple[str, int]:
    texts = []
    for value in form.positional:
        texts.append(holes.get(column) or render(spell(value)))
        column += 1
    after = {}
    for key in sorted(form.keywords):
        value, default = form.keywords[key]
        usual = render(spell(default))
        own = usual if value == default else render(spell(value))
        if (text := holes.get(column) or own) != usual:
            after[key] = f"{key}={text}"
        column += 1
    # Printed in the order the operator gave; counted in a fixed one.
    texts += [after[key] for key in form.keywords if key in after]
    return f"{form.layer}({', '.join(texts)})", column


def _class_wish(calls: Sequence[ModuleCall], hints: set[str]) -> str:
    """What a class of these calls would best be called."""
    hint, *others = sorted(hints)
    convolves = any("Conv" in s.form.layer for s in calls[0].steps() if s.form)
    own = _said_by_file(calls[0])
    ask: dict[str, Callable[[], str]] = {
        "file": lambda: "" if others else own,
        "path": lambda: "" if others else hint,
        "shared words": lambda: shared_name(hints),
        "layers": lambda: "ConvBlock" if convolves else "Block",
    }
    return first_name(CLASSES, ask)


def _said_by_file(call: ModuleCall) -> str:
    said = call.hint not in ("", "Sequential", "ModuleList")
    return class_name(call.hint) if said else ""
