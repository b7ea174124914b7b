"""Classes, weights and the interface, put together: all that model.py says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from ... import __version__
from ...analysis.literals import one_line
from ...analysis.spelling.expr import Function, helpers
from ...rewrites.simplify import Rewriting
from ..classes.bodies import in_runs, is_rolled, repeated_lines
from ..classes.constant_texts import Constants
from ..classes.constructor_arguments import ANY
from ..classes.module_classes import ClassTable, ModuleClass
from ..classes.provenance import Sources, merged
from ..classes.stored_parameters import is_filled, parameter_count, weights_of
from ..classes.tied_weights import tie
from ..forward.writer import Body, BodyWriter, method_plan
from ..ir.copied_source import helper_sources
from ..ir.identifiers import class_name, unused, variable
from ..ir.module_call import ModuleCall
from ..ir.naming import GENERIC
from ..ir.package_plan import (
    ArgumentPlan,
    ClassPlan,
    MethodPlan,
    PackagePlan,
    SourceNodes,
    SourcePlan,
    StatePlan,
    WeightPlan,
)
from ..kernels.kernel_set import KernelSet
from ..lanes.divide import Divided
from ..lanes.lane_lines import ForkWriter
from ..load.read_model import Loaded
from ..modules.members import ConstructorValue
from ..statements.module_scopes import network_class
from .body_styles import BodyWriters
from .interface import Interface, interface_plan

# Functions whose source model.py has, in the order in which they are met.
Helpers = dict[Callable[..., Any], None]


@dataclass(frozen=True)
class CompiledModel:
    """The rewritten graph, what was done to it, and what there is to write."""

    graph: ir.Model
    rewriting: Rewriting
    plan: PackagePlan
    weights: list[WeightPlan]
    classes: ClassTable
    divided: Divided | None = None  # into lanes
    collection: KernelSet | None = None  # of kernels


def source_plan(loaded: Loaded) -> SourcePlan:
    """What model.py says of the file that it was made from."""
    return SourcePlan(
        file=one_line(loaded.file),
        opset=loaded.opset,
        nodes=loaded.node_count,
        sha256=loaded.sha256,
        version=__version__,
    )


def make_plan(
    source: SourcePlan,
    title: str,
    declared: ir.Model,
    rewriting: Rewriting,
    interface: Interface,
    classes: ClassTable,
    writers: BodyWriters,
) -> tuple[PackagePlan, list[WeightPlan]]:
    """What model.py says and weights.safetensors holds.

    `declared` is the model as loaded, whose inputs and outputs Session reports. Raises
    Unsupported for inputs and outputs of a type that PyTorch lacks.
    """
    divided, collection = writers.divided, writers.collection
    if collection is not None:  # written twice: to find kernels, to call them
        collection.start()
        _class_plans(classes, interface, writers, Constants(classes))
        collection.choose(classes.taken | _helper_names(classes.root.call))
    constants = Constants(classes)
    plans, functions = _class_plans(classes, interface, writers, constants)
    weights = weights_of(classes)
    tied = tie(weights, classes.faithful)
    stored = classes.faithful and any(w.constant for w in tied.weights)
    helpers = helper_sources([*functions, *constants.helpers(stored)])
    plans[-1] = constants.network(tied.network(plans[-1]))
    plan = PackagePlan(
        title=one_line(title),
        source=source,
        rewrites=_summary(rewriting.counts(), rewriting.level),
        interface=interface_plan(interface, declared, rewriting.shapes),
        helpers=tuple(helpers),
        classes=tuple(plans),
        network=classes.root.name,
        state=StatePlan(
            parameters=parameter_count(weights) - tied.spared,
            constants=stored,
            unwritten=constants.unwritten,
            filled=any(is_filled(w.array()) for w in tied.weights),
            ties=tied.keys,
            two_names=tied.two_names,
        ),
        lanes=divided.count if divided is not None and divided.forks else 0,
        kernels=collection.names if collection is not None else (),
    )
    return plan, tied.weights


def _summary(applied: Mapping[str, int], level: int) -> str:
    """What was done to the graph; the report names the rules."""
    rules = {name: n for name, n in applied.items() if "-" not in name}
    if not rules:
        return f"-O{level}: none applied"
    count, times = len(rules), sum(rules.values())
    kinds = "1 proven rule" if count == 1 else f"{count} proven rules"
    return f"-O{level}: {kinds} applied {times} times, as report.json lists"


def network_name(model: ir.Model, root: ModuleCall, title: str) -> str:
    """What the class of the whole network is called: as in its original, if that says
    something, else `title`."""
    name = root.hint if root.path else network_class(model)
    if name in ("", "Model", "Net", "Pick", "Wrapper"):
        name = title
    name = class_name(name)
    if any(call.hint == name for call in root.all_calls()):
        # A part of that name keeps it.
        name += "Net" if name.endswith("Model") else "Model"
    return unused(name, {source.__name__ for source in root.sources()})


# ---- classes


def _class_plans(
    classes: ClassTable,
    interface: Interface,
    writers: BodyWriters,
    constants: Constants,
) -> tuple[list[ClassPlan], Helpers]:
    """The classes as they are written, innermost first, and the helpers they call.

    Bodies are written from the network inwards, because names flow that way.
    """
    plans: dict[ModuleClass, ClassPlan] = {}
    helpers: Helpers = dict.fromkeys(classes.root.call.sources())
    reserved = _helper_names(classes.root.call) | writers.names
    taken = _root_arguments(classes.root.call, interface, reserved)
    sources = Sources(classes)
    todo: list[tuple[ModuleClass, list[str], list[str]]] = [(classes.root, taken, [])]
    while todo:
        cls, arguments, results = todo.pop(0)
        if cls in plans:
            continue
        if cls.chain:
            todo += [(classes.of[r], ["x"], []) for r in cls.call.calls()]
            continue
        writer = writers.writer(cls, reserved)
        if cls is classes.root:
            caches = interface.taken, interface.returned
            body = writer.write(arguments, interface.outputs, *caches)
        else:
            body = writer.write(arguments, cls.call.outputs, asked=results)
        plans[cls] = _class_plan(
            cls, classes, constants, sources, writer, body, helpers
        )
        for call, names, results in writer.callees:
            if call.shares is None:
                todo += [(of, names, results) for of in classes.made_for(cls, call)]
    return [plans[cls] for cls in classes.order if cls in plans], helpers


def _class_plan(
    cls: ModuleClass,
    classes: ClassTable,
    constants: Constants,
    sources: Sources,
    writer: BodyWriter,
    body: Body,
    helpers: Helpers,
) -> ClassPlan:
    """One class, with its written body; what that calls is added to `helpers`."""
    lanes = writer.methods() if isinstance(writer, ForkWriter) else []
    for written in (body, *(lane for _, lane in lanes)):
        helpers.update(dict.fromkeys(written.helpers))  # type: ignore[arg-type]
    named = {call.hint for call, of in classes.of.items() if of is cls}
    loop = repeated_lines(classes, cls, cls.holes)
    members = loop or _member_lines(cls, classes, constants)
    behind = tuple(sources.members(cls))
    if is_rolled(classes, cls):  # the last two lines are a loop
        behind = (
            *behind[: len(loop) - 2],
            SourceNodes(),
            merged(behind[len(loop) - 2 :]),
        )
    return ClassPlan(
        cls.name,
        MethodPlan(
            "__init__", _parameters(cls, classes), "None", tuple(members), behind
        ),
        method_plan("forward", body, cls, sources),
        lanes=tuple(method_plan(*lane, cls, sources) for lane in lanes),
        forks=writer.calls if isinstance(writer, ForkWriter) else (),
        named="" if len(named) > 1 else cls.call.hint,
    )


def _root_arguments(
    root: ModuleCall, interface: Interface, reserved: frozenset[str]
) -> list[str]:
    """What the inputs are called; one in a list of caches is `past[0][1]`.

    onnx::MatMul_0 and input.1 are TorchScript's words for what has no name.
    """
    nested = {
        value: f"{family.name}[{i}]" + (f"[{j}]" if len(row) > 1 else "")
        for family in interface.taken
        for i, row in enumerate(family.rows)
        for j, value in enumerate(row)
    }
    families = {family.name for family in interface.taken}
    taken: list[str] = []
    for value in root.inputs:
        word = value.name or "x"
        if re.fullmatch(r"onnx::.*|input\.\d+", word):
            word = next((letter for letter in GENERIC if letter not in taken), "x")
        name = unused(variable(word), {*taken, *reserved, *families})
        taken.append(nested.get(value, name))
    return taken


def _helper_names(root: ModuleCall) -> frozenset[str]:
    """Functions of model.py that a tree calls, and classes of its layers."""
    functions = helpers(step.expr for step in root.steps()).values()
    return frozenset([*functions, *(source.__name__ for source in root.sources())])


def _parameters(cls: ModuleClass, classes: ClassTable) -> tuple[ArgumentPlan, ...]:
    """Constructor arguments, typed by the values the instances give."""
    rows = [classes.arguments[call] for call, made in classes.of.items() if made is cls]
    part = classes.part(cls)
    found = [ArgumentPlan(part, "nn.Module", "")] if part else []
    for label, values in zip(cls.parameters, zip(*rows, strict=True), strict=True):
        value = next(x for x in values if x is not None and x is not ANY)
        annotation = (
            type(value).__name__ if not isinstance(value, np.generic) else "float"
        )
        annotation += " | None" if None in values else ""
        if isinstance(value, tuple):
            annotation = "tuple[int, ...]"
        if isinstance(value, Function):
            annotation = "Callable[[Tensor], Tensor]"
        default = repr(cls.defaults[label]) if label in cls.defaults else ""
        found.append(ArgumentPlan(label, annotation, default))
    return tuple(found)


def _member_lines(
    cls: ModuleClass, classes: ClassTable, constants: Constants
) -> list[str]:
    lines: list[str] = []
    deep: dict[str, dict[tuple[str | int, ...], str]] = {}
    stored = set[tuple[str | int, ...]]()  # those of `deep` that hold parameters
    buffers: list[str] = []
    column = 0
    for member in cls.members:
        text, column = classes.constructor(cls, member, column, cls.holes)
        inner = member.inner if member.index is None else (member.index,)
        if inner:
            if member.attr not in deep:
                lines.append(member.attr)  # its place; filled in below
            entries = deep.setdefault(member.attr, {})
            if member.is_deep_buffer:
                entries[inner[:-1]] = ""
                buffers.append(constants.line(cls, member, text))
                continue
            if isinstance(member.what, ir.Value):
                text = f"nn.Parameter({text})"
                stored.add((member.attr, *inner[:-1]))
            entries[inner] = text
        elif isinstance(member.what, ConstructorValue):
            lines.append(f"self.{member.attr} = {text}")
        elif isinstance(member.what, ir.Value):
            lines.append(constants.line(cls, member, text))
        else:
            lines.append(f"self.{member.attr} = {text}")
    made = [
        f"self.{line} = {_holder(deep[line], stored, line)}" if line in deep else line
        for line in lines
    ]
    return [*made, *buffers]


def _holder(
    entries: dict[tuple[str | int, ...], str],
    stored: set[tuple[str | int, ...]],
    *path: str | int,
) -> str:
    """Lists and dictionaries in each other; those in `stored` have parameters.

    One that holds buffers has an entry without a text for itself.
    """
    if text := entries.get((), ""):
        return text
    inner: dict[str | int, dict[tuple[str | int, ...], str]] = {}
    for words, text in entries.items():
        if words:
            inner.setdefault(words[0], {})[words[1:]] = text
    if not inner:
        return "nn.ModuleDict()"
    kind = "Parameter" if path in stored else "Module"
    parts = {word: _holder(rest, stored, *path, word) for word, rest in inner.items()}
    if 0 not in parts:
        listed = ", ".join(f'"{word}": {text}' for word, text in parts.items())
        return f"nn.{kind}Dict({{{listed}}})"
    items = [parts[i] for i in range(len(parts))]
    if len(items) > 1 and len(set(items)) == 1:
        return f"nn.{kind}List({items[0]} for _ in range({len(items)}))"
    return f"nn.{kind}List([{in_runs(items)}])"
