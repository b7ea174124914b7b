"""Results of operators with several outputs."""

from __future__ import annotations

from typing import Any

from .registry import NodeView


def wanted(n: NodeView, made: Any, count: int) -> Any:
    """What the node's readers use of `made`, which evaluates to `count` results."""
    used = [j for j in range(n.outputs) if n.used(j)]
    if used == [0]:
        return made[0]
    if len(used) == 1:
        return tuple(made[j] if j in used else None for j in range(n.outputs))
    return made if n.outputs == count else made[: n.outputs]
