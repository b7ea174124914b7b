"""What is asked of steps when several become one, and how they do."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.graph.dims import Dim
from ..ir.assignment import Assignment


def does(step: Assignment, *ops: str) -> bool:
    node = step.node
    return node is not None and node.op_type in ops and not node.domain


def axis_of(step: Assignment, rank: int) -> int:
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
