"""What ScatterND writes in places that are a part of a tensor as it lies.

TorchScript writes `x[:, 2:5] = y` so, with the places of all that is replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, same
from ...analysis.ops.facts.index_functions import Count, Found, Rows
from ..language.operators.read_write import Draft, Input, Output, ints
from .recognition import Recognition
from .regions import Neighbourhoods

STATEMENT = (
    "ScatterND(x, all places, y) = y; of those from a to b along one axis, with all of"
    " the others, Concat(x[:a], y, x[b:])"
)


def scatter_of_places(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """ScatterND whose places are counted along each axis."""
    facts, (x, places, y, *_) = around.facts, (*node.inputs, None, None, None)
    combined = node.attributes.get_string("reduction", "none") != "none"
    if x is None or places is None or y is None or combined or node.domain:
        return
    found, dims, part = facts.places.of(places), facts.dims(x), facts.dims(y)
    if not dims or not part or len(part) != len(dims):
        return
    counts = found.counts if isinstance(found, Rows) else (found,)
    partial = _partial(counts, dims, part)
    if partial is None or len(partial) > 1:
        return
    drafts: list[Draft] = []
    for axis, start in partial:
        size, whole = part[axis], dims[axis]
        known = isinstance(start, int) and isinstance(size, int) and size > 0
        if not known or facts.is_constant(places):
            return  # the latter is written as a slice_scatter
        start += whole if start < 0 and isinstance(whole, int) else 0
        given: list[Input] = [y]
        behind = (start + size, 2**63 - 1) if start + size not in (0, whole) else (0, 0)
        for place, ends in ((0, (0, start)), (2, behind)):
            if ends != (0, 0):
                cut = Draft("Slice", [x, *(ints([n]) for n in (*ends, axis))])
                drafts.append(cut)
                given.insert(place, Output(cut))
        drafts.append(Draft("Concat", given, {"axis": axis}))
    why = f"{places.name} counts along each axis"
    yield Recognition("scatter_of_places", (node,), tuple(drafts), why, y)


def _partial(
    counts: Sequence[Found], dims: Dims, part: Dims
) -> list[tuple[int, Dim]] | None:
    """The axes of which a part is written, and where from; None of other places."""
    found: list[tuple[int, Dim]] = []
    for k, (count, n) in enumerate(zip(counts, part, strict=False)):
        steps = tuple(int(j == k and n != 1) for j in range(len(counts) + 1))
        if not isinstance(count, Count) or count.steps != steps:
            return None
        if isinstance(count.first, int) and count.first < 0 and n != 1:
            return None
        if count.first != 0 or same(n, dims[k]) is not True:
            found.append((k, count.first))
    return found
