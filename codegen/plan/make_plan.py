"""Graph in, frozen plan out: the tree, its kinds, and the text of every class."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ...analysis.graph.parameters import has_name, is_parameter
from ...analysis.literals import one_line
from ...analysis.shapes.infer import ShapeFacts
from ...analysis.spelling.expr import Function, HelperRef, leaves
from ..classes.module_classes import ClassTable, ModuleClass
from ..classes.provenance import Sources, merged
from ..classes.repeated_layers import growth_lines
from ..classes.stored_parameters import is_filled, parameter_count, weights_of
from ..classes.tied_weights import tie
from ..forward.writer import Body, BodyWriter, method_plan
from ..ir.cache_arguments import CacheArgument, find_families
from ..ir.copied_source import helper_sources
from ..ir.identifiers import class_name, unused, variable
from ..ir.module_call import ModuleCall
from ..ir.package_plan import (
    ArgumentPlan,
    ClassPlan,
    PackagePlan,
    SourceNodes,
    SourcePlan,
    TensorPlan,
    WeightPlan,
)
from ..lanes.divide import Divided
from ..lanes.lane_lines import ForkWriter
from ..modules.members import Attribute, ConstructorValue
from ..modules.module_tree import make_tree
from ..modules.recover_modules import find_scopes
from ..statements.from_graph import make_steps
from ..statements.module_scopes import network_class
from ..statements.symbolic_sizes import settle_dimensions
from .body_styles import PLAINLY, BodyStyle, BodyWriters
from .interface import nested, signature, table, tensor_plan


def make_plan(
    model: ir.Model,
    shapes: ShapeFacts,
    source: SourcePlan,
    title: str,
    declared: ir.Model | None = None,
    applied: Mapping[str, int] | None = None,
    level: int = 1,
    ways: BodyStyle = PLAINLY,
) -> tuple[PackagePlan, list[WeightPlan], Divided | None]:
    """`declared` is the model as loaded, whose inputs and outputs Session reports;
    `applied` counts the rewrites, for the docstring; `ways` are what bodies show.
    Raises Unsupported, listing all that can't be spelled."""
    takes, results = list(model.graph.inputs), list(model.graph.outputs)
    faithful = level == 0
    steps = make_steps(model, shapes, faithful, ways.collection is not None)
    find_scopes(steps)
    given = find_families(takes, shapes)
    made = find_families(results, shapes, given)
    cache = frozenset(v for family in given for row in family.rows for v in row)
    root = make_tree(steps, results, faithful, cache)
    settle_dimensions(root, takes, shapes)
    kinds = ClassTable(root, _network_name(model, root, title), faithful)
    writers = BodyWriters(kinds, model, shapes, ways)
    divided, collection = writers.divided, writers.collection
    if collection is not None:
        collection.start()
        _classes(kinds, results, given, made, writers)
        collection.choose(kinds.taken | _helper_names(kinds.root.run))
    classes, helpers = _classes(kinds, results, given, made, writers)
    tied = tie(weights_of(kinds))
    classes[-1] = tied.network(classes[-1])
    inputs, outputs = _tensors(model, declared or model, shapes)
    dims = map(shapes.dims, [*takes, *results])
    roles = ["input"] * len(takes) + ["output"] * len(results)
    rows = list(zip((*inputs, *outputs), dims, roles, strict=True))
    plan = PackagePlan(
        title=one_line(title),
        source=source,
        inputs=inputs,
        outputs=outputs,
        input_table=table(inputs, given),
        output_table=table(outputs, made),
        nested=nested([*given, *made]),
        signature=signature(rows, [*given, *made]),
        imports=_imports(classes, helpers),
        abstract=_abstract(helpers, classes),
        helpers=tuple(helpers),
        classes=tuple(classes),
        network=kinds.root.name,
        rewrites=_summary(applied or {}, level),
        constants=faithful and any(w.constant for w in tied.weights),
        parameters=parameter_count(kinds) - tied.spared,
        filled=any(is_filled(w.array()) for w in tied.weights),
        ties=tied.keys,
        lanes=divided.summary if divided is not None else "",
        lane_count=divided.count if divided is not None and divided.forks else 0,
        kernels=collection.names if collection is not None else (),
    )
    return plan, tied.weights, divided


def _tensors(
    model: ir.Model, declared: ir.Model, shapes: ShapeFacts
) -> tuple[tuple[TensorPlan, ...], ...]:
    """Inputs and outputs of the model, as the file declares them.

    An output's size that is an input's is called like that, and not by the name that an
    exporter makes up for it: Addlast_hidden_state_dim_0.
    """
    known = {v.name: v for v in (*declared.graph.inputs, *declared.graph.outputs)}
    takes, gives = (
        [(v, known.get(v.name, v)) for v in side]
        for side in (model.graph.inputs, model.graph.outputs)
    )
    inputs = tuple(tensor_plan(v, told, shapes) for v, told in takes)
    sizes = {size for tensor in inputs for size in tensor.shape or ()}
    return inputs, tuple(tensor_plan(v, told, shapes, sizes) for v, told in gives)


def _summary(applied: Mapping[str, int], level: int) -> str:
    """What was done to the graph; the report names the rules."""
    rules = {name: n for name, n in applied.items() if "-" not in name}
    count, times = len(rules), sum(rules.values())
    kinds = "1 proven rule" if count == 1 else f"{count} proven rules"
    return f"-O{level}: {kinds} applied {times} times, as report.json lists"


def _network_name(model: ir.Model, root: ModuleCall, title: str) -> str:
    name = root.hint if root.path else network_class(model)
    if name in ("", "Model", "Net", "Pick", "Wrapper"):
        name = title
    return unused(class_name(name), {source.__name__ for source in root.sources()})


# ------------------------------------------------------------------------- classes


def _classes(
    kinds: ClassTable,
    results: list[ir.Value],
    given: list[CacheArgument],
    made: list[CacheArgument],
    writers: BodyWriters,
) -> tuple[list[ClassPlan], list[str]]:
    """Bodies are written from the network inwards, because names flow that way."""
    plans: dict[ModuleClass, ClassPlan] = {}
    helpers: dict[Callable[..., Any], None] = dict.fromkeys(kinds.root.run.sources())
    reserved = _helper_names(kinds.root.run) | writers.names
    taken = _root_arguments(kinds.root.run, given, reserved)
    sources = Sources(kinds)
    todo: list[tuple[ModuleClass, list[str]]] = [(kinds.root, taken)]
    while todo:
        kind, arguments = todo.pop(0)
        if kind in plans:
            continue
        if kind.chain:
            todo += [(kinds.of[r], ["x"]) for r in kind.run.runs()]
            continue
        is_root = kind is kinds.root
        returned = results if is_root else kind.run.outputs
        writer = writers.writer(kind, reserved)
        body = (
            writer.write(arguments, returned, given, made)
            if is_root
            else writer.write(arguments, returned)
        )
        plans[kind] = _class_plan(kind, kinds, sources, writer, body, helpers)
        for run, names in writer.callees:
            if run.shares is None:
                todo.append((kinds.of[run], names))
    ordered = [plans[kind] for kind in kinds.order if kind in plans]
    return ordered, helper_sources(helpers)


def _class_plan(
    kind: ModuleClass,
    kinds: ClassTable,
    sources: Sources,
    writer: BodyWriter,
    body: Body,
    helpers: dict[Callable[..., Any], None],
) -> ClassPlan:
    """One class, with its written body; what that calls is added to `helpers`."""
    lanes = writer.methods() if isinstance(writer, ForkWriter) else []
    for written in (body, *(lane for _, lane in lanes)):
        helpers.update(dict.fromkeys(written.helpers))  # type: ignore[arg-type]
    forward = method_plan("forward", body, kind, sources)
    loop = growth_lines(kinds, kind)
    members = loop or _member_lines(kind, kinds)
    behind = sources.members(kind)
    return ClassPlan(
        name=kind.name,
        parameters=_parameters(kind, kinds),
        members=tuple(members),
        arguments=forward.arguments,
        returns=forward.returns,
        body=forward.body,
        member_sources=(SourceNodes(), merged(behind)) if loop[1:] else tuple(behind),
        body_sources=forward.body_sources,
        lanes=tuple(method_plan(*lane, kind, sources) for lane in lanes),
        forks=writer.calls if isinstance(writer, ForkWriter) else (),
    )


def _root_arguments(
    root: ModuleCall, given: list[CacheArgument], reserved: frozenset[str]
) -> list[str]:
    """What the inputs are called; a member of a family is `past[0][1]`."""
    nested = {
        value: f"{family.name}[{i}]" + (f"[{j}]" if len(row) > 1 else "")
        for family in given
        for i, row in enumerate(family.rows)
        for j, value in enumerate(row)
    }
    families = {family.name for family in given}
    taken: list[str] = []
    for value in root.inputs:
        name = unused(variable(value.name or "x"), {*taken, *reserved, *families})
        taken.append(nested.get(value, name))
    return taken


def _helper_names(root: ModuleCall) -> frozenset[str]:
    functions = {
        leaf.function.__name__
        for step in root.steps()
        for leaf in leaves(step.expr)
        if isinstance(leaf, HelperRef)
    }
    return frozenset(functions | {source.__name__ for source in root.sources()})


def _parameters(kind: ModuleClass, kinds: ClassTable) -> tuple[ArgumentPlan, ...]:
    """Constructor arguments, typed by the values the instances give."""
    values = kinds.arguments[kind.run]
    found = []
    for label, value in zip(kind.parameters, values, strict=True):
        annotation = (
            type(value).__name__ if not isinstance(value, np.generic) else "float"
        )
        if isinstance(value, tuple):
            annotation = "tuple[int, ...]"
        if isinstance(value, Function):
            annotation = "Callable[[Tensor], Tensor]"
        default = repr(kind.defaults[label]) if label in kind.defaults else ""
        found.append(ArgumentPlan(label, annotation, default))
    return tuple(found)


def _member_lines(kind: ModuleClass, kinds: ClassTable) -> list[str]:
    lines: list[str] = []
    lists: dict[str, list[str]] = {}
    deep: dict[str, dict[tuple[str, ...], str]] = {}
    column = 0
    for member in kind.members:
        text, column = kinds.constructor(member, column, kind.holes)
        if member.inner:
            if member.attr not in deep:
                lines.append(member.attr)
            if isinstance(member.what, ir.Value):
                text = f"nn.Parameter({text})"
            deep.setdefault(member.attr, {})[member.inner] = text
        elif member.index is not None:
            if member.attr not in lists:
                lines.append(member.attr)  # its place; filled in below
            lists.setdefault(member.attr, []).append(text)
        elif isinstance(member.what, ConstructorValue):
            lines.append(f"self.{member.attr} = {text}")
        elif isinstance(member.what, ir.Value):
            lines.append(_constant_line(member, text, kinds.faithful))
        else:
            lines.append(f"self.{member.attr} = {text}")
    made = []
    for line in lines:
        if line in lists:
            line = f"self.{line} = {_module_list(lists[line])}"
        elif line in deep:
            line = f"self.{line} = {_dictionary(deep[line])}"
        made.append(line)
    return made


def _constant_line(member: Attribute, text: str, faithful: bool) -> str:
    assert isinstance(member.what, ir.Value)
    if is_parameter(member.what):
        return f"self.{member.attr} = nn.Parameter({text})"
    persistent = ", persistent=False" if faithful and not has_name(member.what) else ""
    return f'self.register_buffer("{member.attr}", {text}{persistent})'


def _dictionary(entries: dict[tuple[str, ...], str]) -> str:
    """nn.ModuleDict's in each other, for keys of several words."""
    inner: dict[str, dict[tuple[str, ...], str]] = {}
    for words, text in entries.items():
        inner.setdefault(words[0], {})[words[1:]] = text
    parts = [
        f'"{word}": {rest[()] if () in rest else _dictionary(rest)}'
        for word, rest in inner.items()
    ]
    tensors = any(text.startswith("nn.Parameter(") for text in entries.values())
    return f"nn.{'Parameter' if tensors else 'Module'}Dict({{{', '.join(parts)}}})"


def _module_list(items: list[str]) -> str:
    if len(set(items)) == 1:
        return f"nn.ModuleList({items[0]} for _ in range({len(items)}))"
    return f"nn.ModuleList([{', '.join(items)}])"


def _imports(classes: list[ClassPlan], helpers: list[str]) -> tuple[str, ...]:
    """Which of the optional modules the text uses."""
    text = "\n".join(
        [
            *helpers,
            *(line for c in classes for line in (*c.body, *c.members, c.returns)),
            *(line for c in classes for lane in c.lanes for line in lane.body),
            *(a.annotation for c in classes for a in c.arguments),
        ]
    )
    text = re.sub(r'"(\\.|[^"\\])*"', '""', text)  # words mention no module
    modules = ("F", "json", "math", "np", "re")
    found = [name for name in modules if re.search(rf"\b{name}\.", text)]
    return (*found, *(["Any"] if re.search(r": Any\b", text) else []))


def _abstract(helpers: list[str], classes: list[ClassPlan]) -> tuple[str, ...]:
    """Which of Python's abstract types annotations name."""
    text = "\n".join([*helpers, *(a.annotation for c in classes for a in c.parameters)])
    return tuple(n for n in ("Callable", "Sequence") if re.search(rf"\b{n}\[", text))
