"""What is scattered to places that are a part of a tensor as it lies, and gathered at a
column of places.

Exporters write `x[:, 2:5] = y` so, with all places that are replaced, and `x[index]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

import onnx_ir as ir

from ...analysis.graph.dims import Dim, Dims, same
from ...analysis.ops.facts.index_functions import Count, Found, Rows
from ..language.operators.read_write import Draft, Input, Output, ints
from .attention import producer_of
from .recognition import Recognition
from .regions import Neighbourhoods

SCATTERS = ("ScatterND", "ScatterElements")
STATEMENT = (
    "ScatterND(x, all places, y) = y; of those from a to b along one axis, with all of"
    " the others, Concat(x[:a], y, x[b:]); of several, which leave nothing of x, Concat"
    " of what each puts there"
)
COLUMN = "GatherND(x, i) = Gather(x, Squeeze(i, -1), 0), where i's last axis is of 1"


class _Write(NamedTuple):
    """`put` over a part of `x` along an axis; of all of it along `None`."""

    x: ir.Value
    places: ir.Value
    put: ir.Value
    axis: int | None = None
    start: int = 0
    size: int = 0
    whole: Dim = 0


def scatter_of_places(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """What is scattered to places that are counted along each axis."""
    write, drafts = _write(node, around), list[Draft]()
    if write is None:
        return
    x, places, y, axis, start, size, whole = write
    nodes, parts = _all_parts(node, write, around)
    if axis is not None and parts:
        drafts.append(Draft("Concat", parts, {"axis": axis}))
    elif axis is not None:
        more = (user for user, at in node.outputs[0].uses() if at == 0)
        if around.facts.is_constant(places) or any(map(_scatters, more)):
            return  # a slice_scatter, or begun at what is written over it
        given: list[Input] = [y]
        behind = (start + size, 2**63 - 1) if start + size not in (0, whole) else (0, 0)
        for place, ends in ((0, (0, start)), (2, behind)):
            if ends != (0, 0):
                cut = Draft("Slice", [x, *(ints([n]) for n in (*ends, axis))])
                drafts.append(cut)
                given.insert(place, Output(cut))
        drafts.append(Draft("Concat", given, {"axis": axis}))
    why = f"{places.name} counts along each axis"
    yield Recognition("scatter_of_places", nodes, tuple(drafts), why, y)


def _scatters(node: ir.Node) -> bool:
    combined = node.attributes.get_string("reduction", "none") != "none"
    return node.op_type in SCATTERS and not node.domain and not combined


def _write(node: ir.Node | None, around: Neighbourhoods) -> _Write | None:
    """What is written over all of a tensor, or a part of it along one axis."""
    x, places, y = node.inputs if node and _scatters(node) else (None, None, None)
    if node is None or x is None or places is None or y is None:
        return None
    facts = around.facts
    found, dims, part = facts.places.of(places), facts.dims(x), facts.dims(y)
    if not dims or not part or len(part) != len(dims):
        return None
    if node.op_type == "ScatterND":
        rows = found.counts if isinstance(found, Rows) else (found,)
        counts = dict[int, Found](enumerate(rows))
    else:
        counts = {node.attributes.get_int("axis", 0) % len(dims): found}
    partial = _partial(counts, dims, part)
    if not partial:
        return _Write(x, places, y) if partial == [] else None
    axis, start = partial[0]
    size, whole = part[axis], dims[axis]
    known = isinstance(start, int) and isinstance(size, int) and size > 0
    if len(partial) > 1 or not known or (start < 0 and size > 1):
        return None
    start += whole if start < 0 and isinstance(whole, int) else 0
    return _Write(x, places, y, axis, start, size, whole)


def _all_parts(
    last: ir.Node, write: _Write | None, around: Neighbourhoods
) -> tuple[tuple[ir.Node, ...], list[Input]]:
    """What a node and those before it put along one axis, and these, if nothing else is
    left; else the node alone."""
    node: ir.Node | None = last
    nodes, found = list[ir.Node](), dict[int, _Write]()
    axis = write and write.axis
    while node and write and write.axis == axis and write.start not in found:
        found[write.start] = write
        nodes.append(node)
        row = [found[start] for start in sorted(found)]
        ends = [*accumulate(part.size for part in row)]
        if ends[-1] == write.whole and [0, *ends[:-1]] == sorted(found):
            return tuple(nodes), [part.put for part in row]
        node = write.x.producer()
        write = _write(node, around)
    return (last,), []


def _partial(
    counts: Mapping[int, Found], dims: Dims, part: Dims
) -> list[tuple[int, Dim]] | None:
    """The axes of which a part is written, and where from; None of other places."""
    found: list[tuple[int, Dim]] = []
    for k, n in enumerate(part):
        count = counts.get(k, Count(0, ()))
        if not isinstance(count, Count) or count.steps != tuple(
            int(j == k and n != 1) for j, _ in enumerate(count.steps)
        ):
            return None
        if count.first != 0 or same(n, dims[k]) is not True:
            found.append((k, count.first))
    return found


def gather_of_column(node: ir.Node, around: Neighbourhoods) -> Iterator[Recognition]:
    """Gather, but for a matrix of weights, which isn't an Embedding by that, and what a
    mask picks, which has a text of its own."""
    x, at = node.inputs
    assert x is not None and at is not None
    whole, dims = (around.facts.dims(value) for value in (x, at))
    if whole is None or not dims or dims[-1] != 1:
        return
    columns = producer_of(at, node, "Transpose")
    if columns is not None and producer_of(columns.inputs[0], node, "NonZero"):
        return
    batches = node.attributes.get_int("batch_dims", 0)
    if node.domain or batches or (len(whole) == 2 and around.facts.is_constant(x)):
        return
    row = Draft("Squeeze", [at, ints([-1])])
    drafts = (row, Draft("Gather", [x, Output(row)], {"axis": 0}))
    yield Recognition("gather_of_column", (node,), drafts, f"{at.name} is a column")
