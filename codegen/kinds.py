"""Runs that do the same become one class; numbers that differ become its parameters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from ..analysis.ops.table import ModuleForm
from ..analysis.spell import TORCH_DTYPES, Leaf, Ref, render, spell
from .members import Member, assign_members, member_name
from .names import class_name, unused
from .run import Run, is_parameter
from .steps import LayerRef, Step

# What the positional arguments of a layer are called, to name a class's parameters.
ARGUMENTS = {
    "nn.Conv1d": ("in_channels", "out_channels", "kernel_size"),
    "nn.Conv2d": ("in_channels", "out_channels", "kernel_size"),
    "nn.Conv3d": ("in_channels", "out_channels", "kernel_size"),
    "nn.ConvTranspose1d": ("in_channels", "out_channels", "kernel_size"),
    "nn.ConvTranspose2d": ("in_channels", "out_channels", "kernel_size"),
    "nn.ConvTranspose3d": ("in_channels", "out_channels", "kernel_size"),
    "nn.Linear": ("in_features", "out_features"),
    "nn.Embedding": ("num_embeddings", "embedding_dim"),
    "nn.GroupNorm": ("groups", "channels"),
    "nn.BatchNorm1d": ("num_features",),
    "nn.BatchNorm2d": ("num_features",),
    "nn.BatchNorm3d": ("num_features",),
    "nn.LayerNorm": ("num_features",),
    "nn.RMSNorm": ("num_features",),
    "nn.LSTM": ("input_size", "hidden_size"),
    "nn.GRU": ("input_size", "hidden_size"),
    "nn.RNN": ("input_size", "hidden_size"),
}
MAX_PARAMETERS = 8


@dataclass(eq=False)
class Kind:
    """One class of the emitted module, or an nn.Sequential when `chain`."""

    name: str
    run: Run  # the first instance; its names are printed
    members: list[Member]
    chain: bool
    parameters: list[str] = field(default_factory=list)
    # Column number -> parameter name, for the columns in which instances differ.
    holes: dict[int, str] = field(default_factory=dict)


class Kinds:
    """The classes of a tree, innermost first; `of` and `arguments` per run."""

    def __init__(self, root: Run, network: str) -> None:
        self.of: dict[Run, Kind] = {}
        self.arguments: dict[Run, tuple[Any, ...]] = {}
        self.counts: dict[Run, int] = {}  # how many runs are of the same kind
        self.members: dict[Run, list[Member]] = {}
        self.names: dict[object, str] = {}  # Step/Run/Value in a run -> member text
        self.order: list[Kind] = []
        self.taken: set[str] = {network}
        self.root = self.build(root, network)

    # ---- classes

    def build(self, root: Run, network: str) -> Kind:
        levels: dict[int, list[Run]] = {}
        self._heights(root, levels)
        for height in sorted(levels):
            groups: dict[object, list[Run]] = {}
            for run in levels[height]:
                self.members[run] = assign_members(run)
                groups.setdefault(self.key(run), []).append(run)
            for runs in groups.values():
                for part in self._split_wide(runs):
                    self._make(part, network if part[0] is root else "")
        return self.of[root]

    def _heights(self, run: Run, levels: dict[int, list[Run]]) -> int:
        inner = [self._heights(r, levels) for r in run.runs() if r.shares is None]
        height = 1 + max(inner, default=0)
        levels.setdefault(height, []).append(run)
        return height

    def _split_wide(self, runs: list[Run]) -> list[list[Run]]:
        """A class with too many parameters is harder to read than two classes."""
        labels = self._column_names(self.members[runs[0]])
        if len(_varying([self.columns(run) for run in runs], labels)) <= MAX_PARAMETERS:
            return [runs]
        parts: dict[object, list[Run]] = {}
        for run in runs:
            parts.setdefault(tuple(self.columns(run)), []).append(run)
        return list(parts.values())

    def _make(self, runs: list[Run], network: str) -> None:
        first = runs[0]
        members = self.members[first]
        chain = is_chain(first) and not network
        kind = Kind(network, first, members, chain)
        if not chain and not network:
            hints = {_class_hint(run) for run in runs}
            convolves = any("Conv" in s.form.layer for s in first.steps() if s.form)
            common = "ConvBlock" if convolves else "Block"
            self._name(kind, min(hints) if len(hints) == 1 else common)
        labels = self._column_names(members)
        varying = [
            (_parameter_name([labels[c] for c in columns]), columns)
            for columns in _varying([self.columns(run) for run in runs], labels)
        ]
        varying.sort(key=lambda entry: not entry[0].startswith(_CHANNELS))
        for wish, columns in varying:
            label = unused(wish, kind.parameters)
            kind.parameters.append(label)
            kind.holes.update(dict.fromkeys(columns, label))
        for run in runs:
            self.of[run] = kind
            self.counts[run] = len(runs)
            values = self.columns(run)
            self.arguments[run] = tuple(values[columns[0]] for _, columns in varying)
        self.order.append(kind)

    def _name(self, kind: Kind, wish: str) -> None:
        """Its name; of two classes of one name, one says what it has more."""
        kind.name = unused(wish, self.taken)
        if kind.name != wish:
            twin = next((k for k in self.order if k.name == wish), None)
            mine = {m.attr for m in kind.members}
            theirs = {m.attr for m in twin.members} if twin is not None else set()
            if twin is not None and theirs > mine and len(theirs - mine) == 1:
                twin.name = self._with(wish, theirs - mine)
                kind.name = wish
            elif theirs < mine and len(mine - theirs) == 1:
                kind.name = self._with(wish, mine - theirs)
        self.taken.add(kind.name)

    def _with(self, name: str, extra: set[str]) -> str:
        made = unused(f"{name}With{class_name(min(extra))}", self.taken)
        self.taken.add(made)
        return made

    def key(self, run: Run) -> tuple[object, ...]:
        """Equal for runs whose printed class is equal, numbers of layers aside."""
        texts = {m.what: m.text for m in self.members[run]}
        numbers: dict[object, int] = {}
        for value in (*run.inputs, *run.sizes):
            numbers[value] = len(numbers)

        def name(leaf: Leaf) -> str:
            if isinstance(leaf, LayerRef):
                return member_name(texts, leaf)
            assert isinstance(leaf, Ref)
            if leaf.value in texts:
                return texts[leaf.value]
            return f"v{numbers.setdefault(leaf.value, len(numbers))}"

        parts: list[object] = [is_chain(run)]
        for item in run.items:
            outs = tuple(
                None if out is None else numbers.setdefault(out, len(numbers))
                for out in item.outputs
            )
            if isinstance(item, Run):
                source = item.shares or item
                args = [Ref(v) for v in item.inputs] + item.size_args
                call = ", ".join(render(arg, name) for arg in args)
                parts.append((id(self.of[source]), texts.get(source), call, outs))
            else:
                parts.append((render(item.expr, name), outs, item.inlines))
        for member in self.members[run]:
            parts.append((member.text, _shape_key(member)))
        parts.append(tuple(numbers[out] for out in run.outputs))
        return tuple(parts)

    def columns(self, run: Run) -> list[Any]:
        """Every number of a run's constructor, in printing order."""
        found: list[Any] = []
        for member in self.members[run]:
            if isinstance(member.what, Run):
                found += self.arguments[member.what]
            elif isinstance(member.what, Step):
                form = member.what.form
                assert form is not None
                found += form.positional
                found += [form.keywords[k][0] for k in sorted(form.keywords)]
            else:
                found.append(_dims(member.what))
        return found

    def _column_names(self, members: list[Member]) -> list[str]:
        found: list[str] = []
        for member in members:
            if isinstance(member.what, Run):
                found += self.of[member.what].parameters
            elif isinstance(member.what, Step):
                form = member.what.form
                assert form is not None
                named = ARGUMENTS.get(form.layer, ())
                found += [
                    named[i] if i < len(named) else "size"
                    for i in range(len(form.positional))
                ]
                found += sorted(form.keywords)
            else:
                found.append("shape")
        return found

    # ---- constructors

    def constructor(
        self, member: Member, column: int, holes: dict[int, str]
    ) -> tuple[str, int]:
        """Source of a member's value, and the first column after it."""
        what = member.what
        if isinstance(what, Run):
            kind = self.of[what]
            values = list(self.arguments[what])
            texts = [
                holes.get(column + i) or render(spell(v)) for i, v in enumerate(values)
            ]
            if kind.chain:
                return self._sequential(
                    kind, dict(zip(kind.parameters, texts, strict=True))
                ), column + len(values)
            return f"{kind.name}({', '.join(texts)})", column + len(values)
        if isinstance(what, Step):
            assert what.form is not None
            return _layer_text(what.form, column, holes)
        text = holes.get(column) or render(spell(_dims(what)))
        dtype = TORCH_DTYPES[_dtype(what)]
        options = "" if dtype == "float32" else f", dtype=torch.{dtype}"
        return f"torch.empty({text}{options})", column + 1

    def _sequential(self, kind: Kind, values: dict[str, str]) -> str:
        """nn.Sequential(...) with the parameters of its kind filled in."""
        column = 0
        texts = []
        holes = {c: values[label] for c, label in kind.holes.items()}
        for member in kind.members:
            text, column = self.constructor(member, column, holes)
            texts.append(text)
        return f"nn.Sequential({', '.join(texts)})"


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


_CHANNELS = ("in_", "width", "hidden", "out_", "num_", "embedding", "channels")


def _parameter_name(labels: list[str]) -> str:
    """What a parameter is called that stands in several columns.

    One that leaves a layer and enters the next is the width inside the block.
    """
    inner = any(label.startswith("in_") for label in labels)
    if labels[0].startswith("num_"):  # a norm before a layer: named after the layer
        return next((label for label in labels if label.startswith("in_")), labels[0])
    if labels[0] == "out_channels" and inner:
        return "width"
    if labels[0] == "out_features" and inner:
        return "hidden"
    return labels[0]


def _varying(rows: list[list[Any]], labels: list[str]) -> list[list[int]]:
    """The columns in which rows differ; equal ones of one meaning stand together."""
    found: dict[object, list[int]] = {}
    for i, column in enumerate(zip(*rows, strict=True)):
        if any(value != column[0] for value in column):
            channels = labels[i].startswith((*_CHANNELS, "groups"))
            meaning = "channels" if channels else labels[i]
            found.setdefault((meaning, column), []).append(i)
    return list(found.values())


def is_chain(run: Run) -> bool:
    """Whether a run is nn.Sequential: each member fed by the one before it, no more."""
    if len(run.inputs) != 1 or len(run.outputs) != 1 or run.sizes or len(run.items) < 2:
        return False
    if run.constants or not _numbered(run):
        return False
    current: ir.Value | None = run.inputs[0]
    for item in run.items:
        if isinstance(item, Run):
            if item.shares is not None or item.inputs != [current] or item.size_args:
                return False
        elif item.form is None or item.reads() != [current] or _wrapped(item):
            return False
        outputs = [out for out in item.outputs if out is not None]
        if len(outputs) != 1:
            return False
        current = outputs[0]
    return current is run.outputs[0]


def _wrapped(step: Step) -> bool:
    """Whether a step does more than call its layer on one operand."""
    text = render(step.expr, lambda leaf: "L" if isinstance(leaf, LayerRef) else "v")
    return text != "L(v)"


def _numbered(run: Run) -> bool:
    return all(
        item.path.startswith(f"{run.path}.")
        and item.path.removeprefix(f"{run.path}.").isdigit()
        for item in run.items
    )


def _class_hint(run: Run) -> str:
    if run.hint and run.hint not in ("Sequential", "ModuleList"):
        return class_name(run.hint)
    words = [w for w in re.split(r"[^A-Za-z]+", run.path) if w]
    if not words:
        return "Block"
    word = words[-1]
    if run.path[-1:].isdigit() and word.endswith("s") and len(word) > 3:
        word = word[:-1]  # layers.0 is a Layer
    return class_name(word)


def _shape_key(member: Member) -> tuple[object, ...]:
    what = member.what
    if isinstance(what, Run):
        return ("run",)
    if isinstance(what, Step):
        assert what.form is not None
        form = what.form
        kinds = tuple(type(v).__name__ for v in form.positional)
        return (form.layer, kinds, tuple(sorted(form.keywords)), tuple(form.weights))
    return (str(what.dtype), is_parameter(what), len(_dims(what)))


def _dims(value: ir.Value) -> tuple[int, ...]:
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())


def _dtype(value: ir.Value) -> ir.DataType:
    assert value.const_value is not None
    return value.const_value.dtype
