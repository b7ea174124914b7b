"""Runs that do the same become one class; numbers that differ become its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

import onnx_ir as ir

from ...analysis.graph.parameters import is_parameter
from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import TORCH_DTYPES, Expr, Leaf, Ref, render, spell
from ..ir.assignment import Assignment, LayerRef
from ..ir.control_flow import Action, Block
from ..ir.identifiers import class_name, shared_name, unused
from ..ir.module_call import ModuleCall
from ..ir.naming import CLASSES, first_name
from ..modules.members import Attribute, ConstructorValue, assign_members, member_name
from ..modules.sequential import is_chain
from .constructor_arguments import ANY, ARGUMENTS, Parameter, parameters, plain_size
from .generalise import unify
from .repeated_layers import Depth, growth, row

MAX_PARAMETERS = 8

Key: TypeAlias = tuple[object, ...]


@dataclass(eq=False)
class ModuleClass:
    """One class of the emitted module, or an nn.Sequential when `chain`."""

    name: str
    run: ModuleCall  # the first instance; its names are printed
    members: list[Attribute]
    chain: bool
    parameters: list[str] = field(default_factory=list)
    # Column number -> parameter name, for the columns in which instances differ.
    holes: dict[int, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


class ClassTable:
    """The classes of a tree, innermost first; `of` and `arguments` per run."""

    def __init__(self, root: ModuleCall, network: str, faithful: bool = False) -> None:
        self.faithful = faithful
        self.of: dict[ModuleCall, ModuleClass] = {}
        self.arguments: dict[ModuleCall, tuple[Any, ...]] = {}
        self.counts: dict[ModuleCall, int] = {}  # how many runs are of the same kind
        self.members: dict[ModuleCall, list[Attribute]] = {}
        self.names: dict[object, str] = {}  # Step/Run/Value in a run -> member text
        self.order: list[ModuleClass] = []
        self.taken: set[str] = {network, *(s.__name__ for s in root.sources())}
        self.root_run = root
        self._places = {run: i for i, run in enumerate(root.all_runs())}
        self.root = self.build(root, network)

    def assign(self, run: ModuleCall) -> list[Attribute]:
        return assign_members(run, self.faithful)

    def hint(self, run: ModuleCall) -> str:
        """What the class of a run is called in the file, or after its path."""
        return _class_hint(run)

    def place(self, run: ModuleCall) -> int:
        """Where a run stands in the order of execution."""
        return self._places[run]

    # ---- classes

    def build(self, root: ModuleCall, network: str) -> ModuleClass:
        levels: dict[int, list[ModuleCall]] = {}
        self._heights(root, levels)
        for height in sorted(levels):
            groups: dict[Key, list[ModuleCall]] = {}
            for run in levels[height]:
                self.members[run] = self.assign(run)
                groups.setdefault(self.key(run), []).append(run)
            unify(self, groups)
            for runs in groups.values():
                for part in self._split_wide(runs):
                    self._make(part, network if part[0] is root else "")
        return self.of[root]

    def _heights(self, run: ModuleCall, levels: dict[int, list[ModuleCall]]) -> int:
        inner = [self._heights(r, levels) for r in run.runs() if r.shares is None]
        height = 1 + max(inner, default=0)
        levels.setdefault(height, []).append(run)
        return height

    def _split_wide(self, runs: list[ModuleCall]) -> list[list[ModuleCall]]:
        """A class with too many parameters is harder to read than two classes."""
        flagged = any(member.is_flagged for member in self.members[runs[0]])
        if flagged or len(self.varying(runs)) <= MAX_PARAMETERS:
            return [runs]  # no part would need a flag
        parts: dict[object, list[ModuleCall]] = {}
        for run in runs:
            parts.setdefault(tuple(self.columns(run)), []).append(run)
        return list(parts.values())

    def _make(self, runs: list[ModuleCall], network: str) -> None:
        first = runs[0]
        members = self.members[first]
        chain = is_chain(first) and not network
        kind = ModuleClass(network, first, members, chain)
        if not chain and not network:
            self._name(kind, _class_wish(runs), len(runs))
        varying = self.varying(runs)
        labels: dict[int, str] = {}
        # Attributes of its own first: size1 is self.size1.
        for parameter in sorted(varying, key=lambda p: (p.wish == "size", p.columns)):
            labels[id(parameter)] = unused(parameter.wish, labels.values())
        for parameter in varying:
            label = labels[id(parameter)]
            kind.parameters.append(label)
            kind.holes.update(parameter.texts(label))
            if parameter.default is not None:
                kind.defaults[label] = parameter.default
        for i, run in enumerate(runs):
            self.of[run] = kind
            self.counts[run] = len(runs)
            self.arguments[run] = tuple(parameter.values[i] for parameter in varying)
        self.order.append(kind)

    def varying(self, runs: list[ModuleCall]) -> list[Parameter]:
        """The parameters that a class for all these runs has."""
        rows = [self.columns(run) for run in runs]
        # A chain is written out where it is called: it computes nothing of its own.
        return parameters(rows, self._column_names(runs[0]), not is_chain(runs[0]))

    def _name(self, kind: ModuleClass, wish: str, instances: int) -> None:
        """Its name; of two classes of one name, one says what it has more."""
        kind.name = unused(wish, self.taken)
        if kind.name != wish:
            twin = next((k for k in self.order if k.name == wish), None)
            mine = _layer_names(kind)
            theirs = _layer_names(twin) if twin is not None else set()
            if twin is not None and theirs > mine and len(theirs - mine) == 1:
                twin.name = self._with(wish, theirs - mine)
                kind.name = wish
            elif theirs < mine and len(mine - theirs) == 1:
                kind.name = self._with(wish, mine - theirs)
            elif twin is not None and self.counts[twin.run] < instances:
                twin.name, kind.name = kind.name, wish
                self.taken.add(twin.name)
        self.taken.add(kind.name)

    def _with(self, name: str, extra: set[str]) -> str:
        made = unused(f"{name}With{class_name(min(extra))}", self.taken)
        self.taken.add(made)
        return made

    def key(self, run: ModuleCall) -> Key:
        """Equal for runs whose printed class is equal, numbers of layers aside."""
        return self.keyed(run)[0]

    def keyed(
        self,
        run: ModuleCall,
        without: Mapping[Assignment, ir.Value] | None = None,
        spelled: Callable[[Expr], Expr] = lambda expr: expr,
    ) -> tuple[Key, dict[object, int]]:
        """The key, and the number that each value has in it.

        As if the run had no step of `without`, whose readers read what that gives, and
        its statements were `spelled` otherwise.
        """
        left = without or {}
        texts = {m.what: m.text for m in self.members[run] if m.what not in left}
        numbers: dict[object, int] = {}
        unused_numbers = count()

        def number(value: object) -> int:
            if value not in numbers:
                numbers[value] = next(unused_numbers)
            return numbers[value]

        for value in (*run.inputs, *run.sizes):
            number(value)

        def name(leaf: Leaf) -> str:
            if isinstance(leaf, LayerRef):
                return member_name(texts, leaf)
            assert isinstance(leaf, Ref)
            return texts.get(leaf.value) or f"v{number(leaf.value)}"

        def part(item: Assignment | ModuleCall) -> object:
            if isinstance(item, Block):
                return tuple(tuple(map(part, items)) for items in item.parts())
            if isinstance(item, Assignment) and item in left:
                numbers.update(dict.fromkeys(item.outputs, number(left[item])))
                return None
            outs = tuple(None if out is None else number(out) for out in item.outputs)
            if isinstance(item, ModuleCall):
                source = item.shares or item
                args = [*map(Ref, item.inputs), *item.size_args]
                call = ", ".join(render(arg, name) for arg in args)
                return id(self.of[source]), texts.get(source), call, outs
            kind = item.kind if isinstance(item, Action) else ""
            return render(spelled(item.expr), name), outs, item.inlines, kind

        parts: list[object] = [is_chain(run)]
        parts += [key for item in run.items if (key := part(item)) is not None]
        for member in self.members[run]:
            if member.what not in left:
                parts.append((member.text, _shape_key(member)))
        parts.append(tuple(numbers[out] for out in run.outputs))
        deep = None if left else self.depth(run)
        return deep.key if deep is not None else tuple(parts), numbers

    def depth(self, run: ModuleCall) -> Depth | None:
        """Of a run that may hold any number of equal modules."""
        return row(self, run) or growth(self, run)

    def columns(self, run: ModuleCall) -> list[Any]:
        """Every number of a run's constructor, in printing order."""
        deep = self.depth(run)
        if deep is not None:
            return deep.numbers
        found: list[Any] = []
        for member in self.members[run]:
            if isinstance(member.what, ModuleCall):
                found += self.arguments[member.what]
            elif isinstance(member.what, Assignment):
                found += _layer_columns(member.what)
            elif isinstance(member.what, ConstructorValue):
                found.append(member.what.value)
            else:
                found += _dims(member.what)
        return found

    def _column_names(self, run: ModuleCall) -> list[str]:
        deep = self.depth(run)
        if deep is not None:
            return deep.labels
        found: list[str] = []
        for member in self.members[run]:
            if isinstance(member.what, ModuleCall):
                found += map(plain_size, self.of[member.what].parameters)
            elif isinstance(member.what, Assignment):
                step = member.what
                form = step.lacks or step.form
                assert form is not None
                found += [member.attr] if step.optional else []
                named = ARGUMENTS.get(form.layer, ())
                found += [
                    named[i] if i < len(named) else "size"
                    for i in range(len(form.positional))
                ]
                found += sorted(form.keywords)
            elif isinstance(member.what, ConstructorValue):
                found.append(member.attr)
            else:
                found += ["dim"] * len(_dims(member.what))
        return found

    # ---- constructors

    def constructor(
        self, member: Attribute, column: int, holes: dict[int, str]
    ) -> tuple[str, int]:
        """Source of a member's value, and the first column after it."""
        what = member.what
        if isinstance(what, ModuleCall):
            kind = self.of[what]
            values = list(self.arguments[what])
            texts = [
                holes.get(column + i) or render(spell(v)) for i, v in enumerate(values)
            ]
            if kind.chain:
                return self._sequential(
                    kind, dict(zip(kind.parameters, texts, strict=True))
                ), column + len(values)
            return self.call(kind, texts), column + len(values)
        if isinstance(what, Assignment):
            form = what.lacks or what.form
            assert form is not None
            if not what.optional:
                return _layer_text(form, column, holes)
            text, end = _layer_text(form, column + 1, holes)
            return f"{text} if {holes[column]} else nn.Identity()", end
        if isinstance(what, ConstructorValue):
            return holes.get(column) or render(spell(what.value)), column + 1
        dims = _dims(what)
        sizes = [holes.get(column + i, str(size)) for i, size in enumerate(dims)]
        shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        dtype = TORCH_DTYPES[_dtype(what)]
        options = "" if dtype == "float32" else f", dtype=torch.{dtype}"
        return f"torch.empty({shape}{options})", column + len(dims)

    def call(self, kind: ModuleClass, texts: list[str]) -> str:
        """The constructor of a class with a text for each of its parameters."""
        arguments = []
        for label, text in zip(kind.parameters, texts, strict=True):
            if label not in kind.defaults:
                arguments.append(text)
            elif text != render(spell(kind.defaults[label])):
                arguments.append(f"{label}={text}")
        return f"{kind.name}({', '.join(arguments)})"

    def _sequential(self, kind: ModuleClass, values: dict[str, str]) -> str:
        """nn.Sequential(...) with the parameters of its kind filled in."""
        column, texts = 0, []
        holes = {c: values[label] for c, label in kind.holes.items()}
        if row(self, kind.run) is not None:
            depth = holes.get(0) or str(len(kind.run.items))
            text, _ = self.constructor(kind.members[0], 1, holes)
            if not depth.isdigit():
                return f"nn.Sequential(*({text} for _ in range({depth})))"
            return f"nn.Sequential({', '.join([text] * int(depth))})"
        for member in kind.members:
            text, column = self.constructor(member, column, holes)
            texts.append(text)
        return f"nn.Sequential({', '.join(texts)})"


def _layer_columns(step: Assignment) -> list[Any]:
    form = step.lacks or step.form
    assert form is not None
    numbers = [
        *form.positional,
        *(form.keywords[k][0] for k in sorted(form.keywords)),
    ]
    if step.lacks is not None:
        numbers = [ANY] * len(numbers)
    return [step.lacks is None, *numbers] if step.optional else numbers


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
        if column in holes:
            after[key] = f"{key}={holes[column]}"
        elif value != default:
            after[key] = f"{key}={render(spell(value))}"
        column += 1
    # Printed in the order the operator gave; counted in a fixed one.
    texts += [after[key] for key in form.keywords if key in after]
    return f"{form.layer}({', '.join(texts)})", column


def _layer_names(kind: ModuleClass) -> set[str]:
    return {m.attr for m in kind.members if not isinstance(m.what, ConstructorValue)}


def _class_wish(runs: Sequence[ModuleCall]) -> str:
    """What a class of these calls would best be called."""
    hints = {_class_hint(run) for run in runs}
    hint, *others = sorted(hints)
    convolves = any("Conv" in s.form.layer for s in runs[0].steps() if s.form)
    own = _said_by_file(runs[0])
    ask: dict[str, Callable[[], str]] = {
        "file": lambda: "" if others else own,
        "path": lambda: "" if others else hint,
        "shared words": lambda: shared_name(hints),
        "layers": lambda: "ConvBlock" if convolves else "Block",
    }
    return first_name(CLASSES, ask)


def _said_by_file(run: ModuleCall) -> str:
    said = run.hint not in ("", "Sequential", "ModuleList")
    return class_name(run.hint) if said else ""


def _class_hint(run: ModuleCall) -> str:
    """The class that the file names, else the last word of the path."""
    if named := _said_by_file(run):
        return named
    # Numbers around a word count, those in it are its own: a Layer, but a Stem2b.
    parts = (w.strip("0123456789") for w in re.split(r"[^A-Za-z0-9]+", run.path))
    words = [w for w in parts if len(w) > 1]  # h.0 is a block, and no H
    if not words:
        return "Block"
    word = words[-1]
    if run.path[-1:].isdigit() and word.endswith("s") and len(word) > 3:
        word = word[:-1]  # layers.0 is a Layer
    return class_name(word)


def _shape_key(member: Attribute) -> tuple[object, ...]:
    what = member.what
    if isinstance(what, ModuleCall):
        return ("run",)
    if isinstance(what, Assignment):
        form = what.lacks or what.form
        assert form is not None
        kinds = tuple(type(v).__name__ for v in form.positional)
        return (form.layer, kinds, tuple(sorted(form.keywords)), tuple(form.weights))
    if isinstance(what, ConstructorValue):
        return ("switch",)
    return (str(what.dtype), is_parameter(what), len(_dims(what)))


def _dims(value: ir.Value) -> tuple[int, ...]:
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())


def _dtype(value: ir.Value) -> ir.DataType:
    assert value.const_value is not None
    return value.const_value.dtype
