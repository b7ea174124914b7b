"""Operators in an nn.Sequential as layers without parameters: nn.ReLU, nn.Flatten."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from ...analysis.lazy import lazy
from ...analysis.ops.module_form import ModuleForm
from ...analysis.spelling.expr import (
    Call,
    Expr,
    Literal,
    Ref,
    Tuple,
    callee,
    leaves,
    renamed,
)
from ..ir.assignment import Assignment, LayerRef, is_plain_call
from ..ir.module_call import Item, ModuleCall
from .sequential import is_list

if TYPE_CHECKING:
    from torch import nn
else:
    nn = lazy("torch.nn")

# Functions whose layer has another name, and the methods that have one.
_OTHERS = {"interpolate": "upsample"}
_PADS = {"reflect": "reflection", "replicate": "replication"}
_METHODS = (".flatten", ".unflatten", ".softmax", ".log_softmax", ".mean")


def enter_plain_layers(
    root: ModuleCall, results: Sequence[ir.Value], faithful: bool
) -> None:
    """Give a layer's form to each operator between the layers of an nn.Sequential.

    One with anything else in it, or with a result that is read elsewhere, isn't marked
    whole. If `faithful`, an nn.Identity stands where its numbers have a gap, as a
    Dropout leaves.
    """
    reads = Counter(value for step in root.steps() for value in step.reads())
    reads.update(results)
    for call in [*root.all_calls()][::-1]:
        plain = _plain(call, reads, faithful)
        if plain is not None and len(plain) < len(call.items):
            call.whole = bool(plain) or faithful
            for path, (step, form) in plain.items():
                step.form, step.path = form, path
                step.expr = LayerRef(form)(Ref(form.inputs[0]))
            if faithful:
                call.items = [*_without_gaps(call)]


def _without_gaps(call: ModuleCall) -> Iterator[Item]:
    """The members of a row, and an nn.Identity for each number that none has."""
    place, given = 0, ir.Value()
    for member in call.items:
        steps = list(member.steps()) if isinstance(member, ModuleCall) else []
        made = {out for step in steps for out in step.outputs}
        reads = [v for s in steps for v in s.reads() if v.const_value is None]
        given = next(v for v in reads if v not in made)
        for number in range(place, _number(member, call)):
            new = ir.Value(name=given.name, type=given.type, shape=given.shape)
            form = ModuleForm("nn.Identity", (), {}, {}, (given,), (new,))
            path, layer = f"{call.path}.{number}", LayerRef(form)(Ref(given))
            yield Assignment((new,), layer, None, form=form, path=path)
            for step in steps:
                step.expr = renamed(step.expr, {given: new})
            given = new
        place = _number(member, call) + 1
        yield member


def _number(member: Item, call: ModuleCall) -> int:
    """Where a member stands in a row; -1 of one that has no number.

    TorchScript counts the calls: cnn.4_1 is the second of cnn.4.
    """
    found = re.fullmatch(r"(\d{1,4})(_\d+)?", member.path.removeprefix(f"{call.path}."))
    return -1 if found is None else int(found[1])


def _plain(
    call: ModuleCall, reads: Counter[ir.Value], faithful: bool
) -> dict[str, tuple[Assignment, ModuleForm]] | None:
    """The operators of a row, each a module that reads what the one before it gives."""
    row = [x for x in call.items if isinstance(x, ModuleCall)]
    if call.hint not in ("", "Sequential") or not len(call.items) == len(row) > 1:
        return None
    found: dict[str, tuple[Assignment, ModuleForm]] = {}
    given, place = ir.Value(), -1
    for i, member in enumerate(row):
        steps = [*member.steps()]
        every = Counter(value for step in steps for value in step.reads())
        fixed = {value for value in every if value.const_value is not None}
        made = [out for step in steps for out in step.outputs if out is not None]
        gives = [out for out in made if out not in every]
        kinds = {type(leaf) for step in steps for leaf in leaves(step.expr)}
        before, place = place, _number(member, call)
        if place < 0 or kinds - {Ref, LayerRef} or len(gives) != 1:
            return None
        if faithful and (
            not before < place <= 2 * i + 1 or (is_list(member) and not member.whole)
        ):
            return None
        read = every.keys() - fixed - {*made}
        if len(read) != 1 or (i and (read != {given} or reads[given] > every[given])):
            return None
        given = gives[0]
        if not fixed and all(step.form is None for step in steps):
            form = _form(steps[0]) if len(steps) == 1 else None
            if form is None:
                return None
            found[f"{call.path}.{place}"] = steps[0], form
        elif len(steps) == 1 and not is_plain_call(steps[0].expr):
            return None
    return found


def _form(step: Assignment) -> ModuleForm | None:
    """The layer that calls the function which a step calls, of equal arguments."""
    if not isinstance(step.expr, Call) or len(step.expr.operands) < 2:
        return None
    name, keywords = callee(step.expr), step.expr.label
    function, *arguments = step.expr.operands
    if name in _METHODS:
        arguments.insert(0, function.operands[0])
    values = [_value(x) for x in arguments[1:]]
    source, result = arguments[0], step.outputs[0]
    if not isinstance(source, Ref) or ... in values or result is None:
        return None
    split = len(values) - len(keywords)
    named = dict(zip(keywords, values[split:], strict=True))
    rank = source.value.shape.rank() if source.value.shape is not None else 0
    if name == ".mean" and rank in (4, 5) and isinstance(named.get("dim"), tuple):
        over = {dim % rank for dim in named.pop("dim")}
        if over == {*range(2, rank)} and named.pop("keepdim", False):
            name, values, split = f"F.adaptive_avg_pool{rank - 2}d", [1], 1
    if name in _METHODS or name.startswith(("F.", "torch.")):
        made = _layer(name.rpartition(".")[2], values[:split], named)
        if made is not None:
            return ModuleForm(*made, {}, (source.value,), (result,))
    return None


def _value(expr: Expr) -> Any:
    """A number, string, or tuple of such; `...` for what is none."""
    if isinstance(expr, Literal):
        return expr.label
    values = tuple(map(_value, expr.operands)) if isinstance(expr, Tuple) else (...,)
    return ... if ... in values else values


def _layer(
    name: str, values: list[Any], named: dict[str, Any]
) -> tuple[str, tuple[Any, ...], dict[str, tuple[Any, Any]]] | None:
    """A layer's class and what it is made with, where it has no parameters."""
    word = _OTHERS.get(name, name).replace("_", "")
    if word == "pad" and isinstance(sides := values[0], tuple):
        mode = named.pop("mode", "constant" if "value" in named else "zero")
        word = f"{_PADS.get(mode, mode)}pad{len(sides) // 2}d"
        values[0] = sides[0] if len({*sides}) == 1 else sides
    kinds = vars(nn.modules).items()
    kind = next(
        (k for n, k in kinds if n.lower() == word and isinstance(k, type)), None
    )
    try:
        takes = signature(kind).parameters  # type: ignore[arg-type]
        layer = kind(*values, **named)  # type: ignore[misc]
    except (TypeError, ValueError):
        return None
    if layer.state_dict() or (word == "flatten" and not values):
        return None  # x.flatten() begins at the first axis, nn.Flatten() doesn't
    while values and values[-1] == [*takes.values()][len(values) - 1].default:
        values.pop()
    options = {key: (value, takes[key].default) for key, value in named.items()}
    return f"nn.{type(layer).__name__}", tuple(values), options
