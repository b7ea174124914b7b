"""Modules that are called one after the other: nn.Sequential, and its depth."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ..ir.assignment import is_plain_call
from ..ir.module_call import ModuleCall

Place = tuple[str, str]


def is_chain(run: ModuleCall) -> bool:
    """Whether a run is nn.Sequential: each member fed by the one before it, no more."""
    if len(run.inputs) != 1 or len(run.outputs) != 1 or run.sizes:
        return False
    if run.constants or not _numbered(run) or (len(run.items) < 2 and not _alone(run)):
        return False
    current: ir.Value | None = run.inputs[0]
    for item in run.items:
        if isinstance(item, ModuleCall):
            if item.shares is not None or item.inputs != [current] or item.size_args:
                return False
        elif (
            item.form is None
            or item.reads() != [current]
            or not is_plain_call(item.expr)
        ):
            return False
        outputs = [out for out in item.outputs if out is not None]
        if len(outputs) != 1:
            return False
        current = outputs[0]
    return current is run.outputs[0]


def _numbered(run: ModuleCall) -> bool:
    return all(
        item.path.startswith(f"{run.path}.")
        and item.path.removeprefix(f"{run.path}.").isdigit()
        for item in run.items
    )


def _alone(run: ModuleCall) -> bool:
    """Whether a list has one module, and no more in it."""
    return len(run.items) == 1 and any(run.runs())


def place(holder: ModuleCall, run: ModuleCall) -> Place:
    """The class of the module around a list, and what the list is called there."""
    return holder.hint, run.path.rpartition(".")[2]


def deep_places(holder: ModuleCall) -> Iterator[Place]:
    """Where several modules follow each other, in some module of the class."""
    for run in holder.runs():
        where = place(holder, run)
        if len(list(run.runs())) == len(run.contents()) > 1 and not where[1].isdigit():
            yield where
        yield from deep_places(run)


def is_shallow(holder: ModuleCall, run: ModuleCall, deep: set[Place]) -> bool:
    """Whether a list has one module where others of its class have several."""
    return _alone(run) and _numbered(run) and place(holder, run) in deep
