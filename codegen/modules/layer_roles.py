"""What a layer without a name in the file is called: by the part that it plays."""

from __future__ import annotations

import re
from collections.abc import Iterable

import onnx_ir as ir

from ...analysis.spelling.expr import Ref, leaves, render
from ..ir.assignment import Assignment, LayerRef
from ..ir.module_call import ModuleCall

_MATRIX = re.compile(r"(nn\.|Packed|Quantized)Linear")


def matrix_roles(run: ModuleCall) -> dict[int, str]:
    """query, key, value, out; gate, up, down; or qkv: for the layers' identities.

    A module of several attentions, or of several pairs of matrices, has none.
    """
    flow = _Flow([item for item in run.contents() if isinstance(item, Assignment)])
    attentions = [s for s in flow.steps if s.form is None and "attention(" in _text(s)]
    if len(attentions) == 1:
        return flow.attention(attentions[0])
    named = any(s.path not in ("", run.path) for s in flow.steps if _is_matrix(s))
    return {} if attentions or named else flow.feed_forward()


def shortcut_role(run: ModuleCall) -> dict[int, str]:
    """The layer that changes what is added to the result of a block's other layers."""
    steps = [item for item in run.contents() if isinstance(item, Assignment)]
    flow = _Flow(steps)
    for step in steps:
        added = {v for v in step.reads() if v.const_value is None}
        makers = [flow.makers.get(v) for v in added]
        if step.node is None or step.node.op_type != "Add" or len(makers) != 2:
            continue
        for near, far in (makers, makers[::-1]):
            if near is None or near.form is None or near.reads() != run.inputs:
                continue
            if flow.layers(far) > 1:
                return {id(near.form): "shortcut"}
    return {}


def _text(step: Assignment) -> str:
    return render(step.expr, lambda x: "L" if isinstance(x, LayerRef) else "v")


def _is_matrix(step: Assignment) -> bool:
    return step.form is not None and _MATRIX.match(step.form.layer) is not None


class _Flow:
    """What is computed from what in one module."""

    def __init__(self, steps: list[Assignment]) -> None:
        self.steps = steps
        self.makers = {out: step for step in steps for out in step.outputs}

    def behind(self, values: Iterable[ir.Value]) -> list[Assignment]:
        """The nearest matrices and attentions that values are computed with."""
        found: dict[Assignment, None] = {}
        todo = list(values)
        while todo:
            step = self.makers.get(todo.pop(0))
            if step is None:
                continue
            if _is_matrix(step) or "attention(" in _text(step):
                found[step] = None
            else:
                todo += step.reads()
        return list(found)

    def layers(self, step: Assignment | None) -> int:
        """How many layers a step's result is computed with."""
        todo, found = [step], dict[Assignment, None]()
        while todo:
            one = todo.pop()
            if one is not None and one not in found:
                found[one] = None
                todo += [self.makers.get(value) for value in one.reads()]
        return sum(one.form is not None for one in found)

    def attention(self, step: Assignment) -> dict[int, str]:
        operands = [x.value for x in leaves(step.expr) if isinstance(x, Ref)][:3]
        sources = [self.behind([value]) for value in operands]
        if len(sources) < 3 or any(len(found) != 1 for found in sources):
            return {}
        layers = [id(found[0].form) for found in sources]
        if len(set(layers)) not in (1, 3):
            return {}
        same = len(set(layers)) == 1
        words = ("qkv",) if same else ("query", "key", "value")
        roles = dict(zip(dict.fromkeys(layers), words, strict=True))
        for other in filter(_is_matrix, self.steps):
            if self.behind(other.reads()) == [step]:
                return {**roles, id(other.form): "out"}
        return roles

    def feed_forward(self) -> dict[int, str]:
        """A matrix that widens, or a pair of them, and one back."""
        matrices = [step for step in self.steps if _is_matrix(step)]
        last = matrices.pop() if 2 <= len(matrices) <= 3 else None
        if last is None or set(self.behind(last.reads())) != set(matrices):
            return {}
        if any(not _widens(step) for step in matrices) or _widens(last):
            return {}
        roles = {id(last.form): "down", id(matrices[0].form): "up"}
        if len(matrices) == 2:
            up = [step for step in matrices if self.is_factor(step)]
            if len(up) != 1:
                return {}
            roles.update((id(step.form), "gate") for step in matrices)
            roles[id(up[0].form)] = "up"
        return roles

    def is_factor(self, step: Assignment) -> bool:
        """Whether a product reads what a layer gives as it is."""
        readers = [s for s in self.steps if not set(step.outputs).isdisjoint(s.reads())]
        return any(s.node is not None and s.node.op_type == "Mul" for s in readers)


def _widens(step: Assignment) -> bool:
    sizes = step.form.positional[:2] if step.form is not None else ()
    return len(sizes) == 2 and sizes[0] < sizes[1]
