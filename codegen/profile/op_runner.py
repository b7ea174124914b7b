"""What is emitted for some nodes, as functions that run by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from ...analysis.cost.typical_sizes import Sizes
from ...analysis.dataflow.dataflow import Dataflow
from ...analysis.graph.shape_facts import ShapeFacts
from ...analysis.lazy import lazy
from ...analysis.spelling.expr import TORCH_DTYPES
from ..engines.choose import takes_images
from ..ir.assignment import Assignment
from ..ir.control_flow import Block
from ..statements.from_graph import make_steps
from ..statements.spell_nodes import Spelling
from ..verify.bisect import Names, to_torch

torch = lazy("torch")

Trial = Callable[[], object]

# What gives a tensor of four axes another layout than that of the one it reads.
RELAID = frozenset("Attention Einsum MatMul Reshape Transpose".split())


class Trials:
    """Makes trials: calls of what is emitted, on inputs of its types and sizes."""

    def __init__(self, model: ir.Model, shapes: ShapeFacts, flow: Dataflow) -> None:
        self.sizes = Sizes(shapes, flow.assumed)
        self.images = images(model, shapes)
        self.spelling = Spelling(model, shapes)
        self.steps: dict[ir.Node, list[tuple[int, Assignment]]] = {}  # in their order
        for place, step in enumerate(make_steps(model, shapes)):
            for node in step.work():
                self.steps.setdefault(node, []).append((place, step))

    def alone(self, node: ir.Node) -> list[Trial]:
        """One, of a node and what its layer does besides; none if it can't be run."""
        steps = [step for _, step in self.steps.get(node, ()) if step.node is node]
        whole = steps and not any(isinstance(step, Block) for step in steps)
        return [_Program(self.sizes, self.images).trial(steps)] if whole else []

    def pair(self, first: Sequence[ir.Node], second: Sequence[ir.Node]) -> list[Trial]:
        """Of two groups, the second of which reads of the first: apart, and as one.

        A layer that does the work of nodes in both is only in the latter.
        """
        parts = self._steps_of(first), self._steps_of(second)
        both = self._steps_of([*first, *second])
        if not (all(parts) and both):
            return []
        program = _Program(self.sizes, self.images)
        return [program.trial(*parts), program.trial(both)]

    def _steps_of(self, nodes: Sequence[ir.Node]) -> list[Assignment]:
        """In order; none if they can't be run."""
        found: dict[Assignment, tuple[int, int]] = {}
        for i, node in enumerate(nodes):
            for place, step in self.steps.get(node, ()):
                if isinstance(step, Block):
                    return []
                row = [step]
                if not set(step.work()) <= set(nodes):  # a part of a layer
                    row = self.spelling.spell(node, None, set(node.outputs))
                for one in row:
                    found.setdefault(one, (place, i))
        spelled = not (self.spelling.missing or self.spelling.refused)
        return sorted(found, key=found.__getitem__) if spelled else []


def images(model: ir.Model, shapes: ShapeFacts) -> set[ir.Value]:
    """Values that have the layout which a Session gives to images that come in."""
    found = set(model.graph.inputs) if takes_images(model, shapes) else set()
    for node in model.graph:
        if node.op_type not in RELAID and not found.isdisjoint(node.inputs):
            found.update(v for v in node.outputs if shapes.rank(v) == 4)
    return found


class _Program:
    """Functions of statements, on tensors that they don't compute themselves."""

    def __init__(self, sizes: Sizes, images: set[ir.Value]) -> None:
        self.sizes, self.images = sizes, images
        self.names = Names(sizes.number, self.tensor)

    def trial(self, *parts: Sequence[Assignment]) -> Trial:
        """Calls a function for each part, and returns what all of them compute."""
        made: dict[ir.Value, None] = {}
        lines, calls = [], []
        for steps in parts:
            reads = {v for step in steps for v in step.reads()}
            given = ", ".join(self.local(v) for v in made if v in reads)
            own = [v for step in steps for v in step.outputs if v is not None]
            results = "".join(f"{self.local(v)}, " for v in own)
            part = self.function()
            lines.append(f"def {part}({given}):")
            lines += [f"    {self.statement(step)}" for step in steps]
            lines.append(f"    return ({results})")
            calls.append(f"    {results or '_ '}= {part}({given})")
            made.update(dict.fromkeys(own))
        whole = self.function()
        results = "".join(f"{self.local(v)}, " for v in made)
        lines += [f"def {whole}():", *calls, f"    return ({results})"]
        # Our own text, from identifiers and literals that we made.
        exec(compile("\n".join(lines), "trial", "exec"), self.names.known)
        return self.names.known[whole]

    def function(self) -> str:
        return self.names.bind(object(), "part", lambda: None)

    def local(self, value: ir.Value) -> str:
        return self.names.bind(value, "x", lambda: None)

    def statement(self, step: Assignment) -> str:
        targets = ", ".join("_" if v is None else self.local(v) for v in step.outputs)
        return f"{targets} = {self.names.text(step.expr)}"

    def tensor(self, value: ir.Value) -> Any:
        """Random numbers; whole numbers are 0, which is good for an index too.

        Images have the channels innermost.
        """
        if value.const_value is not None:
            return to_torch(value.const_value.numpy())
        dims = self.sizes.dims(value)
        assert dims is not None and value.dtype is not None
        made = torch.zeros(dims, dtype=getattr(torch, TORCH_DTYPES[value.dtype]))
        if value in self.images:
            made = made.contiguous(memory_format=torch.channels_last)
        return made.normal_() if made.is_floating_point() else made
