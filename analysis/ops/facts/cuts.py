"""Along which axes an operator may be cut: each part of its result from parts alone.

A Cut says: where the inputs are cut along `inputs` (None: each part needs the whole)
into as many equal parts as divide `parts`, the results of the operator on the parts are
the parts of its results along `outputs`. A function here lists the cuts of a node, and
leaves out what it can't tell; it is given the sizes of the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sympy

from ...graph.dims import Dim, Dims, product
from ...graph.shape_facts import NodeFacts


@dataclass(frozen=True)
class Cut:
    """One way to cut a node. `pieces` above 1: the input holds so many tensors side by
    side, of each of which a part has its share."""

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    parts: Dim
    pieces: int = 1


Rule = Callable[[NodeFacts, Sequence[Dims | None]], list[Cut]]


def _same(site: NodeFacts, results: Sequence[Dims | None], axis: int) -> Cut:
    """Along one axis of the first input and all results, the other inputs whole."""
    count = len(site.node.inputs)
    dims = site.dims(0) or ()
    axes = tuple(axis if i == 0 else None for i in range(count))
    return Cut(axes, (axis,) * len(results), dims[axis])


def elementwise(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis, of the inputs that aren't spread along it."""
    found = []
    for axis, size in enumerate(results[0] or ()):
        axes: list[int | None] = []
        for i in range(len(site.node.inputs)):
            dims = site.dims(i)
            if dims is None:
                if site.has(i):
                    return []
                axes.append(None)
                continue
            own = axis - len(results[0] or ()) + len(dims)
            axes.append(own if own >= 0 and dims[own] != 1 else None)
        found.append(Cut(tuple(axes), (axis,) * len(results), size))
    return found


def along(*kept: int) -> Rule:
    """Along the first input's axes `kept` alone: batches, rows."""

    def rule(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
        dims = site.dims(0) or ()
        if len(results) > 1:  # as places counted through all of the input
            return []
        made = [result or () for result in results]
        return [
            _same(site, results, axis)
            for axis in kept
            if axis < len(dims)
            and all(r[axis : axis + 1] == (dims[axis],) for r in made)
        ]

    return rule


def but_axis(default: int) -> Rule:
    """Along every axis but the one that the operator works on."""

    def rule(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
        dims = site.dims(0)
        if dims is None:
            return []
        worked = site.axis(len(dims), default)
        return [_same(site, results, a) for a in range(len(dims)) if a != worked]

    return rule


def before_axis(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis before those that are normalised."""
    first = site.axis(len(site.dims(0) or ()), -1)
    return [_same(site, results, axis) for axis in range(first)]


def reduce(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis that stays."""
    dims = site.dims(0)
    axes = None if dims is None else site.axes(1, len(dims))
    if dims is None or not axes:
        return []
    kept = [a for a in range(len(dims)) if a not in axes]
    moved = range(len(kept)) if not site.attr("keepdims", 1) else kept
    count = len(site.node.inputs)
    return [
        Cut((axis, *[None] * (count - 1)), (new,), dims[axis])
        for axis, new in zip(kept, moved, strict=True)
    ]


def transpose(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis, wherever it goes."""
    dims = site.dims(0)
    if dims is None:
        return []
    perm = site.attr("perm") or range(len(dims))[::-1]
    return [Cut((old,), (new,), dims[old]) for new, old in enumerate(perm)]


def _common(a: Dim, b: Dim) -> Dim:
    """What both are a multiple of."""
    if isinstance(a, int) and isinstance(b, int):
        return math.gcd(a, b)
    return a if a == b or isinstance(b, int) else b


def _ratio(a: Dim, b: Dim) -> Dim | None:
    """a / b where that is a product of sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 or a % b else a // b
    if b == 0:
        return None
    quotient = sympy.sympify(a) / b
    return product([quotient]) if quotient.as_numer_denom()[1] == 1 else None


def reshape(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along the outermost axis of each group of axes that become a group of others."""
    before, after = site.dims(0), results[0]
    if before is None or after is None or 0 in (*before, *after):
        return []
    count, found = len(site.node.inputs), []
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == 1 or after[j] == 1:
            i, j = i + (before[i] == 1), j + (after[j] == 1)
            continue
        parts = _common(before[i], after[j])
        found.append(Cut((i, *[None] * (count - 1)), (j,), parts))
        left, right = before[i], after[j]
        i, j = i + 1, j + 1
        while left != right:
            if i < len(before) and _ratio(right, left) is not None:
                left, i = product([left, before[i]]), i + 1
            elif j < len(after) and _ratio(left, right) is not None:
                right, j = product([right, after[j]]), j + 1
            else:
                return found[:-1]
    return found


def squeeze(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Reshaped, where axes are named: else a part of one element loses its axis."""
    named = site.axes(1, len(site.dims(0) or ())) if site.has(1) else None
    return reshape(site, results) if named and len(site.numbers(1) or ()) else []


def expand(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis: what is spread along one is whole for each part."""
    dims, made = site.dims(0), results[0]
    if dims is None or made is None:
        return []
    ahead = len(made) - len(dims)
    found = []
    for axis, size in enumerate(made):
        own = axis - ahead
        spread = own < 0 or dims[own] == 1
        if spread or dims[own] == size:
            found.append(Cut((None if spread else own, None), (axis,), size))
    return found


def filled(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis: all elements are the same."""
    return [Cut((None,), (axis,), size) for axis, size in enumerate(results[0] or ())]


def concat(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis but the one that they are joined along."""
    made = results[0]
    if made is None:
        return []
    joined, count = site.axis(len(made)), len(site.node.inputs)
    return [
        Cut((axis,) * count, (axis,), size)
        for axis, size in enumerate(made)
        if axis != joined
    ]


def split(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along the other axes, and within equal pieces."""
    dims = site.dims(0)
    if dims is None:
        return []
    axis, count = site.axis(len(dims)), len(results)
    whole = (None,) * (len(site.node.inputs) - 1)
    found = [
        Cut((a, *whole), (a,) * count, size) for a, size in enumerate(dims) if a != axis
    ]
    sizes = {None if made is None else made[axis] for made in results}
    if len(sizes) == 1 and None not in sizes:
        size = sizes.pop()
        assert size is not None
        found.append(Cut((axis, *whole), (axis,) * count, size, count))
    return found


def slices(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along every axis of which nothing is left out."""
    dims, made = site.dims(0), results[0]
    steps = site.numbers(4) if site.has(4) else [1]
    if dims is None or made is None or steps is None:
        return []
    if any(not isinstance(step, int) or step < 1 for step in steps):
        return []
    named = site.axes(3, len(dims)) if site.has(3) else list(range(len(dims)))
    starts = site.numbers(1)
    if named is None or starts is None:
        return []
    zero = dict(zip(named, starts, strict=False))
    count = len(site.node.inputs)
    return [
        Cut((axis, *[None] * (count - 1)), (axis,), size)
        for axis, size in enumerate(dims)
        if made[axis] == size and zero.get(axis, 0) == 0
    ]


def gather(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Along the table's other axes, or along those of the indices."""
    table, places = site.dims(0), site.dims(1)
    if table is None or places is None:
        return []
    axis = site.axis(len(table))
    found = [
        Cut((a, None), (a if a < axis else a + len(places) - 1,), size)
        for a, size in enumerate(table)
        if a != axis
    ]
    found += [Cut((None, a), (axis + a,), size) for a, size in enumerate(places)]
    return found


def matmul(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Rows of the left, columns of the right, and what both have many of."""
    left, right, made = site.dims(0), site.dims(1), results[0]
    if left is None or right is None or made is None or min(len(left), len(right)) < 2:
        return []
    rank = len(made)
    found = [
        Cut((len(left) - 2, None), (rank - 2,), left[-2]),
        Cut((None, len(right) - 1), (rank - 1,), right[-1]),
    ]
    for axis in range(rank - 2):
        own = [axis - rank + len(dims) for dims in (left, right)]
        axes = tuple(
            a if a >= 0 and dims[a] != 1 else None
            for a, dims in zip(own, (left, right), strict=True)
        )
        found.append(Cut(axes, (axis,), made[axis]))
    return found


def gemm(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Rows of the left."""
    left, added = site.dims(0), site.dims(2)
    if left is None or site.attr("transA", 0):
        return []
    spread = added is None or len(added) < 2 or added[0] == 1
    axes = (0, None, *([None if spread else 0] if site.has(2) else ()))
    return [Cut(axes, (0,), left[0])]


def attention(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """The batch, and heads of four axes: those that share keys go together."""
    q, k, mask = site.dims(0), site.dims(1), site.dims(3)
    if q is None or k is None or len(q) != 4 or len(site.node.inputs) > 4:
        return [] if q is None else _batch_of_attention(site, results)
    axes: list[Cut] = []
    for axis in (0, 1):
        own = None if mask is None else axis - 4 + len(mask)
        spread = own is None or own < 0 or (mask is not None and mask[own] == 1)
        row = (axis, axis, axis, *([None if spread else own] * (site.has(3) or 0)))
        row += (None,) * (len(site.node.inputs) - len(row))
        outputs = (axis,) * len(results)
        axes.append(Cut(row, outputs, _common(q[axis], k[axis])))
    return axes


def _batch_of_attention(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """Of three axes, or with caches: the batch alone, where each input has it."""
    mask = site.dims(3)
    if site.has(3) and (mask is None or (len(mask) == 4 and mask[0] != 1)):
        row = [0, 0, 0, 0]
    else:
        row = [0, 0, 0, None]  # type: ignore[list-item]
    row += [0 if site.has(i) else None for i in range(4, 7)]  # type: ignore[misc]
    q = site.dims(0) or (1,)
    axes = tuple(row[: len(site.node.inputs)])
    return [Cut(axes, (0,) * len(results), q[0])]


def rotary(site: NodeFacts, results: Sequence[Dims | None]) -> list[Cut]:
    """The batch, and heads of four axes; angles that each row has go along."""
    dims, cosine = site.dims(0), site.dims(1)
    if dims is None or cosine is None:
        return []
    own = 0 if len(cosine) == 3 and cosine[0] != 1 else None
    placed = 0 if site.has(3) else None
    rows = (0, own, own, placed)[: len(site.node.inputs)]
    found = [Cut(rows, (0,), dims[0])]
    if len(dims) == 4:
        whole = (None,) * (len(site.node.inputs) - 1)
        found.append(Cut((1, *whole), (1,), dims[1]))
    return found
