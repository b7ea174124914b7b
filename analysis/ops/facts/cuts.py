"""Along which axes an operator may be cut: each part of its result from parts alone.

A Cut says: where the inputs are cut along `inputs` (None: each part needs the whole)
into as many equal parts as divide `parts`, the results of the operator on the parts are
the parts of its results along `outputs`. A function here lists the cuts of a node, and
leaves out what it can't tell; it is given the sizes of the outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

import sympy

from ...graph.dims import Dim, Dims, product
from ...graph.shape_facts import NodeFacts
from . import index_maps
from .index_maps import IndexMap, Piece, Place, axes_of

Pieces = int | tuple[int, ...]
Results = Sequence[Dims | None]  # sizes, None where unknown


def shares(pieces: Pieces) -> tuple[int, ...]:
    """The sizes of the pieces in proportion."""
    return (1,) * pieces if isinstance(pieces, int) else pieces


@dataclass(frozen=True)
class Cut:
    """One way to cut a node. `pieces` above 1: the input holds so many tensors side by
    side, of each of which a part has its share; several numbers are the sizes of such
    in proportion, and below 0 is the size of each, of however many there are. `made`
    says it of the results.

    Where `sums`, the results of the parts add up to the result; inputs in `once` then
    belong to one part, and are zero for the others. Where `counted` has a component of
    an input's last axis, or ALL, such elements are places along what is cut, and each
    part counts them from its own first; `gives` says it of the results.
    """

    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    parts: Dim
    pieces: Pieces = 1
    made: Pieces = 1
    sums: bool = False
    once: tuple[int, ...] = ()
    counted: tuple[int | None, ...] = ()
    gives: int | None = None


ALL = -1  # every component
MIXED = -1  # no axis alone


Rule = Callable[..., list[Cut]]  # of a node, and of sizes: of results, of inputs


def _same(site: NodeFacts, results: Results, axis: int) -> Cut:
    """Along one axis of the first input and all results, the other inputs whole."""
    count = len(site.node.inputs)
    dims = site.dims(0) or ()
    axes = tuple(axis if i == 0 else None for i in range(count))
    return Cut(axes, (axis,) * len(results), dims[axis])


def _own(axis: int, rank: int, dims: Dims | None) -> int | None:
    """Which axis of an input becomes that of `rank`; None where it is spread."""
    own = -1 if dims is None else axis - rank + len(dims)
    return own if dims is not None and own >= 0 and dims[own] != 1 else None


def elementwise(site: NodeFacts, results: Results) -> list[Cut]:
    """Along every axis, of the inputs that aren't spread along it."""
    made, every = results[0] or (), list(map(site.dims, range(len(site.node.inputs))))
    if any(dims is None and site.has(i) for i, dims in enumerate(every)):
        return []
    return [
        Cut(
            tuple(_own(axis, len(made), dims) for dims in every),
            (axis,) * len(results),
            size,
        )
        for axis, size in enumerate(made)
    ]


def followed(index_map: IndexMap) -> Rule:
    """Along every axis that operands are read along likewise, or not at all."""

    def rule(site: NodeFacts, results: Results) -> list[Cut]:
        every = [moved.pieces for moved in site.ask(index_map) or ()]
        count, found = len(site.node.inputs), []
        for axis, size in enumerate(results[0] or ()):
            read = {
                (piece.operand, _read(piece, axis, site.dims(piece.operand), made))
                for pieces, made in zip(every, results, strict=False)
                for piece in pieces
            }
            own = dict(read)
            if (
                own
                and all(every)
                and len(read) == len(own)
                and MIXED not in own.values()
            ):
                axes = tuple(own.get(i) for i in range(count))
                found.append(Cut(axes, (axis,) * len(results), size))
        return found

    return rule


def _read(piece: Piece, axis: int, dims: Dims | None, made: Dims | None) -> int | None:
    """Which axis of an operand is read along one of the result, as it is."""
    along = [k for k, place in enumerate(piece.places) if axis in axes_of(place)]
    if dims is None or made is None or any(axis == bound[0] for bound in piece.bounds):
        return MIXED
    if not along:
        return None
    plain = piece.places[along[0]] == Place(axis) and dims[along[0]] == made[axis]
    return along[0] if plain and len(along) == 1 else MIXED


def along(*kept: int) -> Rule:
    """Along the first input's axes `kept` alone: batches, rows."""

    def rule(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
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


def _axes(kept: Callable[[NodeFacts, int], Iterable[int]]) -> Rule:
    """Along axes of the first input, by its rank."""

    def rule(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
        axes = kept(site, len(dims)) if dims else ()
        return [_same(site, results, axis) for axis in axes]

    return rule


def but_axis(default: int) -> Rule:
    """Along every axis but the one that the operator works on."""
    return _axes(lambda site, rank: _but(rank, site.axis(rank, default)))


def _but(rank: int, *worked: int) -> list[int]:
    return [axis for axis in range(rank) if axis not in worked]


# Along every axis before those that are normalised.
before_axis = _axes(lambda site, rank: range(site.axis(rank, -1)))
# Along every axis but the one that is gone along.
cumulative = _axes(
    lambda site, rank: (
        [] if (found := site.axes(1, rank)) is None else _but(rank, *found)
    )
)
# Along every axis ahead of the last two.
matrices = _axes(lambda site, rank: range(rank - 2))


def _reduced(site: NodeFacts, dims: Dims, axes: Sequence[int]) -> list[Cut]:
    """Along every axis but `axes`, where it is then."""
    kept = _but(len(dims), *axes)
    moved = range(len(kept)) if not site.attr("keepdims", 1) else kept
    rest = (None,) * (len(site.node.inputs) - 1)
    return [
        Cut((axis, *rest), (new,), dims[axis])
        for axis, new in zip(kept, moved, strict=True)
    ]


def reduce(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
    """Along every axis that stays."""
    axes = site.axes(1, len(dims))
    return _reduced(site, dims, axes) if axes else []


def extreme(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
    """Along every axis but the one of which the place is said."""
    return _reduced(site, dims, [site.axis(len(dims))])


def adds(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
    """As what is reduced; and sums."""
    rest = (None,) * (len(site.node.inputs) - 1)
    return reduce(site, results, dims) + [
        Cut((axis, *rest), (None,), dims[axis], sums=True)
        for axis in site.axes(1, len(dims)) or ()
    ]


def _common(a: Dim, b: Dim) -> Dim:
    """What both are a multiple of; 1 where that isn't known."""
    if isinstance(a, int) and isinstance(b, int):
        return math.gcd(a, b)
    return a if _ratio(b, a) is not None else 1 if _ratio(a, b) is None else b


def _ratio(a: Dim, b: Dim) -> Dim | None:
    """a / b where that is a product of sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 or a % b else a // b
    if b == 0:
        return None
    quotient = sympy.sympify(a) / b
    return product([quotient]) if quotient.as_numer_denom()[1] == 1 else None


def reshape(site: NodeFacts, results: Results, before: Dims) -> list[Cut]:
    """Along axes that begin where one of the result does: in pieces, where something
    lies ahead in the same axis, before or behind."""
    after = results[0]
    if after is None or 0 in (*before, *after):
        return []
    whole, found = (None,) * (len(site.node.inputs) - 1), []
    sides = [[product(dims[:k]) for k in range(len(dims))] for dims in (before, after)]
    for ahead in dict.fromkeys([*sides[0], *sides[1]]):
        old, new = _beginning(before, ahead), _beginning(after, ahead)
        size = 1 if old is None or new is None else _common(old[2], new[2])
        if old is not None and new is not None and size != 1:
            found.append(Cut((old[0], *whole), (new[0],), size, old[1], new[1]))
    return found


flatten = unsqueeze = reshape


def _beginning(dims: Dims, ahead: Dim) -> tuple[int, int, Dim] | None:
    """The axis in which there are so many pieces, with those of the axes before; how
    many are in the axis itself, as a Cut says it, and of what size."""
    for axis, size in enumerate(dims):
        own = _ratio(size, ahead)
        if own is not None and own != 1:
            if isinstance(ahead, int) or isinstance(own, int):
                return axis, ahead if isinstance(ahead, int) else -int(own), own
            return None
        left = _ratio(ahead, size)
        if left is None:
            return None
        ahead = left
    return None


def squeeze(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
    """Reshaped, where axes are named: else a part of one element loses its axis."""
    named = site.axes(1, len(dims)) if site.has(1) else None
    return reshape(site, results, dims) if named and site.numbers(1) else []


def constant_of_shape(site: NodeFacts, results: Results) -> list[Cut]:
    """Along every axis: all elements are the same."""
    return [Cut((None,), (axis,), size) for axis, size in enumerate(results[0] or ())]


def concat(site: NodeFacts, results: Results) -> list[Cut]:
    """Along every axis but the one that they are joined along."""
    made, found = results[0], followed(index_maps.concat)(site, results)
    if made is None:
        return []
    joined, count = site.axis(len(made)), len(site.node.inputs)
    axes = [(axis, size) for axis, size in enumerate(made) if axis != joined]
    ends = accumulate((site.dims(i) or (0,) * len(made))[joined] for i in range(count))
    for place, end in enumerate(ends if joined == len(made) - 1 else ()):
        if (site.dims(place) or ())[joined:] == (1,) and isinstance(end, int):
            counted = tuple(ALL if i == place else None for i in range(count))
            found += [
                Cut((a,) * count, (a,), n, counted=counted, gives=end - 1)
                for a, n in axes
            ]
    return found


def split(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
    """Along the other axes, and within pieces."""
    axis, count = site.axis(len(dims)), len(results)
    whole = (None,) * (len(site.node.inputs) - 1)
    found = followed(index_maps.split)(site, results)
    sizes = [made[axis] for made in results if made is not None]
    known = [n for n in sizes if isinstance(n, int) and n > 0]
    cut: Callable[..., Cut] = partial(Cut, (axis, *whole), (axis,) * count)
    if len(set(sizes)) == 1 and len(sizes) == count:
        found.append(cut(sizes[0], count))
    elif len(known) == count:
        least = math.gcd(*known)
        found.append(cut(least, tuple(n // least for n in known)))
    return found


def gather(site: NodeFacts, results: Results, table: Dims, places: Dims) -> list[Cut]:
    """Along the table's other axes, or along those of the indices."""
    axis = site.axis(len(table))
    found = [
        Cut((a, None), (a if a < axis else a + len(places) - 1,), size)
        for a, size in enumerate(table)
        if a != axis
    ]
    found += [Cut((None, a), (axis + a,), size) for a, size in enumerate(places)]
    found += [
        Cut((axis, a), (axis + a,), size, counted=(None, ALL))
        for a, size in enumerate(places)
    ]
    return found


def gather_nd(
    site: NodeFacts, results: Results, table: Dims, places: Dims
) -> list[Cut]:
    """Along axes of the indices; with what is cut, where these count its places."""
    ahead = site.attr("batch_dims", 0)
    found = [Cut((a, a), (a,), size) for a, size in enumerate(places[:ahead])]
    axes = [(a, n) for a, n in enumerate(places[:-1]) if a >= ahead]
    found += [Cut((None, a), (a,), size) for a, size in axes]
    if isinstance(places[-1], int):
        rest, back = ahead + places[-1], len(places) - 1 - ahead - places[-1]
        found += [
            Cut((a, None), (a + back,), table[a]) for a in range(rest, len(table))
        ]
        found += [
            Cut(
                (ahead + k, a), (a,), size, counted=(None, k if places[-1] > 1 else ALL)
            )
            for a, size in axes
            for k in range(places[-1])
        ]
    return found


def scatter_nd(
    site: NodeFacts, results: Results, table: Dims, places: Dims
) -> list[Cut]:
    """Along the axes that indices say nothing of."""
    if not isinstance(places[-1], int):
        return []
    back = len(places) - 1 - places[-1]
    return [
        Cut((a, None, a + back), (a,), table[a]) for a in range(places[-1], len(table))
    ]


def together(default: int = 0) -> Rule:
    """Along every axis but the one that is worked on, of all inputs of equal sizes."""

    def rule(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
        count = len(site.node.inputs)
        worked = site.axis(len(dims), default)
        others = [site.dims(i) for i in range(1, count)]
        return [
            Cut((a,) * count, (a,) * len(results), size)
            for a, size in enumerate(dims)
            if a != worked
            and all(x is not None and x[a : a + 1] == (size,) for x in others)
        ]

    return rule


def tile(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
    """Along axes that are not repeated, and fewer times along those that are."""
    return followed(index_maps.tile)(site, results) + [
        Cut((None, None), (a,), count)
        for a, count in enumerate(site.numbers(1) or ())
        if count is not None and not isinstance(count, int)
    ]


def recurrent(site: NodeFacts, results: Results, dims: Dims) -> list[Cut]:
    """Along the batch."""
    if site.attr("layout", 0):
        return []
    axes = (1, None, None, None, 0, 1, 1, None)
    own = [a if site.has(i) else None for i, a in enumerate(axes)]
    count = len(site.node.inputs)
    return [Cut(tuple(own[:count]), (2, 1, 1)[: len(results)], dims[1])]


def einsum(site: NodeFacts, results: Results) -> list[Cut]:
    """Along every axis that the result has."""
    text = "".join(str(site.attr("equation", "")).split())
    given, arrow, made = text.partition("->")
    terms = given.split(",")
    if not arrow or "." in text or any(len(set(t)) < len(t) for t in terms):
        return []
    return [
        Cut(
            tuple(t.index(c) if c in t else None for t in terms),
            (a,),
            (results[0] or (0,) * len(made))[a],
        )
        for a, c in enumerate(made)
    ]


def quantized(site: NodeFacts, results: Results, dims: Dims, scale: Dims) -> list[Cut]:
    """Along every axis; with the scales, where each place has one."""
    if site.attr("block_size", 0):
        return []
    worked = site.axis(len(dims), 1) if len(scale) == 1 and scale != (1,) else None
    rest = len(site.node.inputs) - 1
    return [
        Cut((a, *[0 if a == worked else None] * rest), (a,), size)
        for a, size in enumerate(dims)
    ]


def matmul(site: NodeFacts, results: Results, left: Dims, right: Dims) -> list[Cut]:
    """Rows of the left, columns of the right, what both have many of; and sums."""
    made = results[0]
    if made is None or min(len(left), len(right)) < 2:
        return []
    rank = len(made)
    found = [
        Cut((len(left) - 2, None), (rank - 2,), left[-2]),
        Cut((None, len(right) - 1), (rank - 1,), right[-1]),
        Cut((len(left) - 1, len(right) - 2), (None,), left[-1], sums=True),
    ]
    return found + [
        Cut((_own(a, rank, left), _own(a, rank, right)), (a,), made[a])
        for a in range(rank - 2)
    ]


def gemm(site: NodeFacts, results: Results, left: Dims, right: Dims) -> list[Cut]:
    """Rows of the left, columns of the right; and sums."""
    added = site.dims(2)
    if site.has(2) and added is None:
        return []
    rows, columns = int(site.attr("transA", 0)), 1 - int(site.attr("transB", 0))
    bias: list[tuple[int | None, ...]] = [(), ()]
    if added is not None:
        last = len(added) - 1
        bias[0] = (0 if last == 1 and added[0] != 1 else None,)
        bias[1] = (last if added and added[last] != 1 else None,)
    return [
        Cut((rows, None, *bias[0]), (0,), left[rows]),
        Cut((None, columns, *bias[1]), (1,), right[columns]),
        Cut(
            (1 - rows, 1 - columns, *[None] * len(bias[0])),
            (None,),
            left[1 - rows],
            sums=True,
            once=(2,) if bias[0] else (),
        ),
    ]


def attention(site: NodeFacts, results: Results, q: Dims, k: Dims) -> list[Cut]:
    """The batch, and heads of four axes, with their caches: those that share keys go
    together."""
    found, mask = [], site.dims(3)
    for axis in (0, 1) if len(q) == 4 else (0,):
        counts = axis if axis == 0 else None
        every = (axis, axis, axis, _own(axis, 4, mask), axis, axis, counts)
        row = tuple(a if site.has(i) else None for i, a in enumerate(every))
        size, count = _common(q[axis], k[axis]), len(site.node.inputs)
        found.append(Cut(row[:count], (axis,) * len(results), size))
    return found


def rotary_embedding(
    site: NodeFacts, results: Results, dims: Dims, cosine: Dims
) -> list[Cut]:
    """The batch, and heads of four axes; angles that each row has go along."""
    own = 0 if len(cosine) == 3 and cosine[0] != 1 else None
    placed = 0 if site.has(3) else None
    rows = (0, own, own, placed)[: len(site.node.inputs)]
    found = [Cut(rows, (0,), dims[0])]
    if len(dims) == 4:
        whole = (None,) * (len(site.node.inputs) - 1)
        found.append(Cut((1, *whole), (1,), dims[1]))
    return found
