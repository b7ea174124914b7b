"""What an operator requires of the sizes of its inputs: which have to fit each other.

Sizes for verification are solved for so that they do (codegen/verify/solve_sizes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from itertools import combinations, zip_longest
from typing import NamedTuple, TypeAlias

from ...graph.dims import Dim, Dims, floordiv, product, simplify
from ...graph.shape_facts import NodeFacts


class Relation(Enum):
    """How two sizes have to stand to each other."""

    EQUAL = "equal"
    BROADCAST = "equal, or one is 1"
    AT_LEAST = "not less"
    MULTIPLE = "a multiple"


class Fit(NamedTuple):
    """`a` and `b` have to be in a relation: a >= b, a a multiple of b, and so on."""

    relation: Relation
    a: Dim
    b: Dim


Fits: TypeAlias = Callable[..., Iterable[Fit]]


def equal_each(a: Dims, b: Dims) -> Iterator[Fit]:
    """Each size equals the one at its place."""
    return (Fit(Relation.EQUAL, x, y) for x, y in zip(a, b, strict=False))


def one(a: Dim, b: Dim) -> Fit:
    """These two are equal."""
    return Fit(Relation.EQUAL, a, b)


def stretching(a: Dims, b: Dims) -> Iterator[Fit]:
    """Two shapes broadcast together."""
    for x, y in zip_longest(reversed(a), reversed(b), fillvalue=1):
        yield Fit(Relation.BROADCAST, x, y)


def together(site: NodeFacts) -> Iterator[Fit]:
    """All inputs broadcast together."""
    dims = (site.dims(i) for i in range(len(site.node.inputs)))
    for a, b in combinations([d for d in dims if d is not None], 2):
        yield from stretching(a, b)


def matmul(a: int = 0, b: int = 1) -> Fits:
    """A product of inputs `a` and `b`, matrices or rows of them."""

    def fits(site: NodeFacts) -> Iterator[Fit]:
        x, y = site.dims(a), site.dims(b)
        if x and y:
            yield one(x[-1], y[-2] if len(y) > 1 else y[0])
            yield from stretching(x[:-2], y[:-2])

    return fits


def gemm(site: NodeFacts, a: Dims, b: Dims) -> Iterator[Fit]:
    """Two matrices, either one transposed, and what is added."""
    c = site.dims(2)
    m, k = a[::-1] if site.attr("transA", 0) else a
    inner, n = b[::-1] if site.attr("transB", 0) else b
    yield one(k, inner)
    if c is not None:
        yield from stretching((m, n), c)


def window(kernel: int | None = None, channels: int = 1) -> Fits:
    """A window moves over input 0; input `kernel` has its size.

    `channels` is the axis of that input that counts those of input 0, by groups or, at
    0, all of them.
    """

    def fits(site: NodeFacts, x: Dims) -> Iterator[Fit]:
        w = None if kernel is None else site.dims(kernel)
        if len(x) < 3:
            return
        if w is not None and len(w) == len(x):
            groups = int(site.attr("group", 1)) if channels else 1
            yield one(x[1], simplify(w[channels] * groups))
        sizes = site.attr("kernel_shape") or (w or ())[2:]
        if channels == 0 or str(site.attr("auto_pad", "")).startswith("SAME"):
            return
        count = len(sizes)
        dilations = site.attr("dilations") or [1] * count
        pads = site.attr("pads") or [0] * 2 * count
        for i, (size, length) in enumerate(zip(x[2:], sizes, strict=False)):
            if isinstance(length, int):
                reach = (length - 1) * dilations[i] + 1 - pads[i] - pads[i + count]
                yield Fit(Relation.AT_LEAST, size, reach)

    return fits


def channelwise(site: NodeFacts) -> Iterator[Fit]:
    """The other inputs have a number for each channel of the first."""
    x = site.dims(0) or ()
    for i in range(1, len(site.node.inputs)):
        y = site.dims(i)
        if y and len(y) == 1 and len(x) > 1:
            yield one(x[1], y[0])
    groups = site.attr("num_groups")
    if groups and len(x) > 1:
        yield Fit(Relation.MULTIPLE, x[1], groups)


def last_axes(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """The other inputs are as large as the last axes of the first, or broadcast."""
    for i in range(1, len(site.node.inputs)):
        y = site.dims(i)
        if y is not None:
            yield from stretching(x[max(0, len(x) - len(y)) :], y)


def concat(site: NodeFacts, first: Dims) -> Iterator[Fit]:
    """All axes but one agree."""
    for i in range(1, len(site.node.inputs)):
        dims = site.dims(i)
        if not dims or len(dims) != len(first):
            continue
        axis = site.axis(len(first))
        pairs = enumerate(zip(first, dims, strict=True))
        yield from (one(a, b) for j, (a, b) in pairs if j != axis)


def reshape(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """As many elements as before."""
    target = site.numbers(1)
    if target is None or None in target:
        return
    copies = not site.attr("allowzero", 0)
    out: list[Dim] = []
    for i, size in enumerate(target):
        assert size is not None
        out.append(x[i] if size == 0 and copies and i < len(x) else size)
    known = product(size for size in out if size != -1)
    relation = Relation.MULTIPLE if -1 in out else Relation.EQUAL
    yield Fit(relation, product(x), known)


def split(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """The parts are the whole."""
    parts = site.attr("split") or (site.numbers(1) if site.has(1) else None)
    if x and parts and None not in parts:
        whole: Dim = 0
        for part in parts:
            assert part is not None
            whole = simplify(whole + part)
        yield one(x[site.axis(len(x))], whole)


def squeeze(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """What goes is 1."""
    for axis in site.axes(1, len(x)) or ():
        yield one(x[axis], 1)


def expand(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """The shape that it is stretched to suits it."""
    sizes = (1 if size is None else size for size in site.numbers(1) or ())
    yield from stretching(x, tuple(sizes))


def recurrent(site: NodeFacts, x: Dims, w: Dims, r: Dims) -> Iterator[Fit]:
    """Features, hidden size and batch are those of the weights and the states."""
    yield one(x[2], w[2])
    batch = x[0] if site.attr("layout", 0) else x[1]
    lengths = site.dims(4)
    if lengths:
        yield one(lengths[0], batch)
    for i in (5, 6):
        state = site.dims(i)
        if state is not None and len(state) == 3:
            rest = (w[0], batch) if not site.attr("layout", 0) else (batch, w[0])
            yield from equal_each(state, (*rest, r[2]))


def of_size(sizes: dict[int, Dims]) -> Fits:
    """Inputs whose last axes have these sizes."""

    def fits(site: NodeFacts) -> Iterator[Fit]:
        for i, wanted in sizes.items():
            dims = site.dims(i)
            if dims is not None and len(dims) >= len(wanted):
                yield from equal_each(dims[len(dims) - len(wanted) :], wanted)

    return fits


def non_max_suppression(site: NodeFacts, found: Dims, scores: Dims) -> Iterator[Fit]:
    """NonMaxSuppression: scores for each box, and limits of one element."""
    yield from equal_each(found, (scores[0], scores[2], 4))
    yield from of_size({2: (1,), 3: (1,), 4: (1,)})(site)


def roi_align(site: NodeFacts) -> Iterator[Fit]:
    """RoiAlign: four numbers, and the place of a picture, for each region."""
    rois, places = site.dims(1), site.dims(2)
    if rois and places:
        yield from equal_each((rois[-1], rois[0]), (4, places[0]))


def grid_sample(site: NodeFacts, x: Dims, places: Dims) -> Iterator[Fit]:
    """GridSample: a place in each picture."""
    yield from equal_each((places[0], places[-1]), (x[0], len(x) - 2))


def blocks(*parts: tuple[int, int]) -> Fits:
    """Axes that are a multiple of a power of the block's size."""

    def fits(site: NodeFacts, x: Dims) -> Iterator[Fit]:
        for axis, power in parts:
            size = int(site.attr("blocksize", 1)) ** power
            yield Fit(Relation.MULTIPLE, x[axis], size)

    return fits


def gather(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """What is looked up is there."""
    numbers = [i for i in site.numbers(1) or () if isinstance(i, int)]
    if x and numbers:
        least = max(i + 1 if i >= 0 else -i for i in numbers)
        yield Fit(Relation.AT_LEAST, x[site.axis(len(x))], least)


def top_k(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """There are as many elements as are wanted."""
    k = site.numbers(1)
    if x and k and k[0] is not None:
        yield Fit(Relation.AT_LEAST, x[site.axis(len(x), default=-1)], k[0])
    yield from of_size({1: (1,)})(site)


def scattered(site: NodeFacts) -> Iterator[Fit]:
    """An element, or row, for each index."""
    x, places, updates = (site.dims(i) for i in range(3))
    if x is None or places is None or updates is None or not places:
        return
    if site.node.op_type == "ScatterND" and isinstance(places[-1], int):
        yield from equal_each(updates, (*places[:-1], *x[places[-1] :]))
    elif site.node.op_type != "ScatterND":
        yield from equal_each(updates, places)


def einsum(site: NodeFacts) -> Iterator[Fit]:
    """One size for each label."""
    left = str(site.attr("equation", "")).replace(" ", "").partition("->")[0]
    sizes: dict[str, Dim] = {}
    for i, term in enumerate(left.split(",")):
        dims = site.dims(i)
        if dims is None or "." in term or len(term) != len(dims):
            continue
        for label, size in zip(term, dims, strict=True):
            yield Fit(Relation.BROADCAST, sizes.setdefault(label, size), size)


def attention(site: NodeFacts, q: Dims, k: Dims, v: Dims) -> Iterator[Fit]:
    """Queries, keys and values of one batch; as many values as keys, and a mask that
    has a place for each key."""
    mask = site.dims(3)
    yield from equal_each((k[0], v[0], k[-2]), (q[0], q[0], v[-2]))
    if len(q) == 4:
        yield from equal_each((q[3], k[1]), (k[3], v[1]))
    elif site.attr("q_num_heads") and site.attr("kv_num_heads"):
        heads, kv_heads = site.attr("q_num_heads"), site.attr("kv_num_heads")
        yield one(simplify(q[2] * kv_heads), simplify(k[2] * heads))
        yield Fit(Relation.MULTIPLE, q[2], heads)
        yield Fit(Relation.MULTIPLE, v[2], kv_heads)
    for i, new in ((4, k), (5, v)):
        past, heads = site.dims(i), site.attr("kv_num_heads", 0)
        if past and len(past) == 4:
            size = new[3] if len(new) == 4 else simplify(past[3] * heads)
            yield from equal_each(
                (past[0], size), (q[0], past[3] if len(new) == 4 else new[2])
            )
            yield one(past[1], new[1] if len(new) == 4 else heads)
    if mask:
        past = site.dims(4) or (0, 0, 0, 0)
        yield Fit(Relation.BROADCAST, mask[-1], simplify(past[-2] + k[-2]))


def grouped_query_attention(site: NodeFacts) -> Iterator[Fit]:
    """A cache of as many heads as keys have, each as large as one of theirs.

    The total counts those in the cache and the new ones. A cache that drops keys has
    room for a window; before it is full, what stands behind its keys may be anything.
    """
    q, k = site.dims(0), site.dims(1)
    total = (site.numbers(6) or [None])[0]
    heads = site.attr("kv_num_heads", 0)
    if q and len(q) == 3 and heads > 0 and not site.has(1):  # which holds all three
        size = floordiv(q[2], site.attr("num_heads", 0) + 2 * heads)
        k = (*q[:2], simplify(size * heads))
    if not q or not k or not len(q) == len(k) == 3 or heads < 1:
        return
    for past in filter(None, (site.dims(3), site.dims(4))):
        if len(past) != 4:
            continue
        yield from equal_each(
            (past[0], past[1], simplify(past[3] * heads)), (q[0], heads, k[2])
        )
        if site.attr("sliding_window_cache", 0):
            window = site.attr("local_window_size", 0)
            yield one(past[2], window)
            if total is not None:  # twice the window: some of it may be padding
                yield Fit(Relation.AT_LEAST, total, 2 * window)
        elif total is not None:
            yield one(total, simplify(past[2] + q[1]))


def labels(site: NodeFacts, x: Dims) -> Iterator[Fit]:
    """ZipMap: a score for each label."""
    known = site.attr("classlabels_strings") or site.attr("classlabels_int64s")
    if known:
        yield one(x[-1], len(known))
