"""Modules that differ in one optional part become one class with a switch.

A layer that some instances lack is nn.Identity there; a sum or product that some leave
out, such as the residual of a block whose sizes change, is decided by a flag, and so
are two rolls, there and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import (
    Conditional,
    Expr,
    Leaf,
    Ref,
    renamed,
    render,
    substitute,
)
from ..ir.assignment import Assignment, LayerRef
from ..ir.control_flow import Block
from ..ir.module_call import ModuleCall
from ..modules.members import ConstructorValue

if TYPE_CHECKING:
    from .module_classes import ClassTable, Key

# What a flag is called, by the operator that it switches.
_FLAGS = {"Add": "residual", "Mul": "scaled"}
MAX_SWITCHES = 2


def unify_variants(kinds: ClassTable, groups: dict[Key, list[ModuleCall]]) -> None:
    """Merge groups of runs, each a class to be, whose instances differ in one part."""
    merged = True
    while merged:
        merged = any(
            _merge(kinds, groups, longer, shorter)
            for longer in list(groups)
            for shorter in list(groups)
            if longer in groups and shorter in groups and longer is not shorter
        )


def _merge(
    kinds: ClassTable, groups: dict[Key, list[ModuleCall]], longer: Key, shorter: Key
) -> bool:
    more, fewer = groups[longer], groups[shorter]
    first = more[0]
    if not _comparable(kinds, first, fewer[0]):
        return False
    for extra in _extras(first, fewer[0]):
        if kinds.keyed(first, extra)[0] != kinds.keyed(fewer[0])[0] or not all(
            _separable(kinds, first, step, instead) for step, instead in extra.items()
        ):
            continue
        for run in fewer:
            _insert(kinds, first, extra, run)
        places = [
            (first.items.index(step), _operands(step).index(instead))
            for step, instead in extra.items()
        ]
        for run in more:
            _mark(run, places)
        runs = sorted([*more, *fewer], key=kinds.place)
        for run in runs:
            kinds.members[run] = kinds.assign(run)
        position = list(groups).index(longer)
        del groups[longer], groups[shorter]
        _put(groups, position, kinds.key(runs[0]), runs)
        return True
    return False


Extra: TypeAlias = Mapping[Assignment, ir.Value]


def _extras(longer: ModuleCall, shorter: ModuleCall) -> Iterator[Extra]:
    """What the longer one may have more, and what the other reads in its stead.

    A layer, a sum or a product; or two steps that do the same, as there and back.
    """
    steps = [
        item
        for item in longer.items
        if isinstance(item, Assignment) and len(item.outputs) == 1 and not item.optional
    ]
    if len(longer.items) == len(shorter.items) + 1:
        for step in steps:
            if step.form is not None or len(_operands(step)) == 2:
                yield from ({step: instead} for instead in _operands(step))
        return
    for one, other in combinations([step for step in steps if _rolls(step)], 2):
        yield {one: _operands(one)[0], other: _operands(other)[0]}


def _rolls(step: Assignment) -> bool:
    text = render(step.expr, lambda leaf: "v") if step.form is None else ""
    return text.startswith("v.roll(")


def _put(
    groups: dict[Key, list[ModuleCall]], position: int, key: Key, runs: list[ModuleCall]
) -> None:
    entries = list(groups.items())
    entries.insert(position, (key, runs))
    groups.clear()
    groups.update(entries)


def _comparable(kinds: ClassTable, a: ModuleCall, b: ModuleCall) -> bool:
    """Two runs of one original class, the first with one statement more."""
    switches = sum(isinstance(getattr(v, "value", 0), bool) for v in a.constants)
    switches += sum(s.optional for s in a.items if isinstance(s, Assignment))
    return (
        kinds.hint(a) == kinds.hint(b)
        and 1 <= len(a.items) - len(b.items) <= 2
        and len(a.inputs) == len(b.inputs)
        and len(a.outputs) == len(b.outputs)
        and switches < MAX_SWITCHES
        and not any(isinstance(item, Block) for item in a.items)
        and a is not kinds.root_run
    )


def _operands(step: Assignment) -> list[ir.Value]:
    """What the others may read in the step's place: its operands, in their order."""
    values = dict.fromkeys(v for v in step.reads() if v.const_value is None)
    if isinstance(step.form, ModuleForm):
        plain = render(step.expr, lambda x: "L" if isinstance(x, LayerRef) else "v")
        return list(values) if plain == "L(v)" else []
    return list(values)


def _separable(
    kinds: ClassTable, run: ModuleCall, step: Assignment, instead: ir.Value
) -> bool:
    """Whether no other item reads both the step's result and its operand."""
    result = step.outputs[0]
    if result is None or (result in run.outputs and instead in run.outputs):
        return False
    if isinstance(step.form, ModuleForm):
        listed = any(
            m.what is step and (m.index is not None or m.inner)
            for m in kinds.members[run]
        )
        shared = sum(s.form is step.form for s in run.steps()) > 1
        if listed or shared:
            return False
    return not any(
        result in reads and instead in reads
        for item in run.items
        if item is not step
        for reads in [item.inputs if isinstance(item, ModuleCall) else item.reads()]
    )


def _insert(
    kinds: ClassTable, pattern: ModuleCall, extra: Extra, run: ModuleCall
) -> None:
    """Give `run` the steps of `pattern` that it lacks, switched off."""
    left, new = dict(extra), list[tuple[Assignment, ir.Value]]()
    for step in extra:
        new.append(_inserted(kinds, pattern, step, left, run))
        del left[step]
    _switch(run, new, on=False)


def _inserted(
    kinds: ClassTable,
    pattern: ModuleCall,
    step: Assignment,
    left: Extra,
    run: ModuleCall,
) -> tuple[Assignment, ir.Value]:
    """The first of the steps that are `left`, at its place in `run`; its operand."""
    instead = left[step]
    _, numbers = kinds.keyed(pattern, left)
    there = {number: value for value, number in kinds.keyed(run)[1].items()}
    place = pattern.items.index(step)
    operand = there[numbers[instead]]
    assert isinstance(operand, ir.Value)
    # Whoever reads the result in the pattern reads a new value here, and so does
    # the outside; the operand's other readers keep it.
    result = ir.Value(name=operand.name, type=operand.type, shape=operand.shape)
    made = {operand: result}
    if operand in run.outputs:  # the outside knows it under this name
        made = {}
        for item in run.items[:place]:
            if operand in item.outputs:
                _rename(item, operand, result)
        operand, result = result, operand
    both = [item for item in pattern.items if item not in left]
    for item, here in zip(both, run.items, strict=True):
        reads = item.inputs if isinstance(item, ModuleCall) else item.reads()
        if made and step.outputs[0] in reads:
            _reread(here, made)
        elif not made and instead in reads:
            _reread(here, {result: operand})

    def translated(leaf: Leaf) -> Expr | None:
        if isinstance(leaf, Ref) and leaf.value.const_value is None:
            value = there[numbers[leaf.value]]
            assert isinstance(value, ir.Value)
            value = operand if leaf.value is instead else value
            return Ref(value)
        return None

    if step.form is not None:
        form = ModuleForm("nn.Identity", (), {}, {}, (operand,), (result,))
        path = run.path + step.path.removeprefix(pattern.path)
        new = replace(
            step,
            outputs=(result,),
            expr=LayerRef(form)(Ref(operand)),
            form=form,
            path=path,
            optional=True,
            lacks=step.form,
        )
    else:
        expr = substitute(step.expr, translated)
        new = replace(step, outputs=(result,), expr=expr)
    run.items.insert(place, new)
    return new, operand


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


def _mark(run: ModuleCall, places: list[tuple[int, int]]) -> None:
    """Say of the steps of a run that has them that others lack them."""
    found = []
    for place, nth in places:
        step = run.items[place]
        assert isinstance(step, Assignment)
        step.optional = step.form is not None
        found.append((step, _operands(step)[nth]))
    _switch(run, found, on=True)


def _switch(
    run: ModuleCall, steps: list[tuple[Assignment, ir.Value]], on: bool
) -> None:
    """`expr` becomes `expr if self.flag else operand`, for steps that are no layers."""
    plain = [(step, operand) for step, operand in steps if step.form is None]
    if not plain:
        return
    first, _ = plain[0]
    op = first.node.op_type if first.node is not None else ""
    word = "shifted" if _rolls(first) else _FLAGS.get(op, f"with_{op.lower()}")
    flag = ConstructorValue(word, on)
    run.constants.append(flag)
    for step, operand in plain:
        step.expr = Conditional(step.expr, Ref(flag), Ref(operand))
