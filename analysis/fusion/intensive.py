"""Whether several Many-to-Many operators can share one pass over tiles (AGO)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from ..dataflow.dataflow import Dataflow
from ..ops.facts.tiles import Tile
from ..ops.registry import MANY_TO_MANY, ONE_TO_MANY, REORGANIZE, SHUFFLE

# What came before: something complex; since then, axes or even rows that changed.
_STARTED, _RESHAPED, _MOVED = 1, 2, 4


def uses_up_tiles(flow: Dataflow, operators: Iterable[int]) -> int | None:
    """The bytes to keep on chip if no tile has to be computed twice; else None.

    One operator is the first to be Many-to-Many. Each further one has to follow its
    first input tile by tile (tiling.py), all by the same kind of tile, with nothing in
    between that breaks tiles up, and nothing may read a row again that was costly.
    """
    members = sorted(operators)
    state: dict[int | None, int] = {}
    held, roots = 0, 0
    tiles: set[Tile] = set()
    for i in members:
        op = flow.operators[i]
        states = {t: state.get(flow.tensors[t].producer, 0) for t in op.reads}
        started = [t for t, before in states.items() if before & _STARTED]
        before = reduce(or_, states.values(), 0)
        if op.repeats > 1 and before & _STARTED:
            return None
        if op.mapping is MANY_TO_MANY and before & _STARTED:
            if op.tiling is None or started != [op.reads[0]]:
                return None
            if before & (_MOVED if op.tiling.tile is Tile.ROW else _MOVED | _RESHAPED):
                return None
            held += op.tiling.held_bytes
            tiles.add(op.tiling.tile)
        elif op.mapping is MANY_TO_MANY:
            roots += 1
        if op.mapping in (MANY_TO_MANY, ONE_TO_MANY):
            before |= _STARTED
        elif op.mapping in (REORGANIZE, SHUFFLE) and before & _STARTED:
            before |= _RESHAPED if op.keeps_rows else _MOVED
        state[i] = before
    return held if roots <= 1 and len(tiles) <= 1 else None
