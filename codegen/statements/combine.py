"""What is asked of steps when several become one, and how they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

import onnx_ir as ir

from ...analysis.graph.dims import Dim
from ..ir.assignment import Assignment


class Flow:
    """What makes each value of some steps, and how often it is read.

    `results` are read by others, too.
    """

    def __init__(
        self, steps: list[Assignment], results: Collection[ir.Value] = ()
    ) -> None:
        self.uses = Counter(value for step in steps for value in step.reads())
        self.uses.update(results)
        self.makers = {out: step for step in steps for out in step.outputs}

    def maker(self, value: ir.Value, *ops: str) -> Assignment | None:
        """The step that makes a value, if it does one of these; of any, without."""
        step = self.makers.get(value)
        return step if step and (not ops or does(step, *ops)) else None

    def only(self, value: ir.Value, *ops: str) -> Assignment | None:
        """The same, if the value is read once."""
        return self.maker(value, *ops) if self.uses[value] == 1 else None


def does(step: Assignment, *ops: str) -> bool:
    """Whether a step is one of these operators of ONNX's own."""
    node = step.node
    return node is not None and node.op_type in ops and not node.domain


def axis_of(step: Assignment, rank: int) -> int:
    """The attribute `axis` of a step's node, counted from the front."""
    assert step.node is not None
    return step.node.attributes.get_int("axis", 0) % rank


def size_of(dims: Sequence[Dim], axis: int) -> int:
    """The size of an axis; 0 if that isn't a number."""
    size = dims[axis]
    return size if isinstance(size, int) else 0


def without(
    steps: list[Assignment], gone: dict[Assignment, Assignment]
) -> list[Assignment]:
    """The steps but for some, whose nodes are behind those that took their work."""
    for step, by in gone.items():
        by.absorbed += (*step.absorbed, *([step.node] if step.node else []))
    return [step for step in steps if step not in gone]
