"""Sizes of the outputs of operators: elementwise, reduction, indexing, generation.

A function gives None for a size that it can't tell; shapes/infer.py then asks onnx,
and invents a symbol if onnx can't tell either. It takes the sizes of the leading
inputs, and is called where those are known.
"""

from __future__ import annotations

import numpy as np

from ...graph.dims import Dim, Dims, at_least, broadcast, ceildiv, maximum, simplify
from ...graph.shape_facts import DimsResult, NodeFacts


def broadcast_together(site: NodeFacts) -> DimsResult:
    """All inputs broadcast together."""
    given = [i for i in range(len(site.node.inputs)) if site.has(i)]
    shapes = [site.dims(i) for i in given]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    return [broadcast(*known)]


def integer_pair(site: NodeFacts) -> DimsResult:
    """Both broadcast together; scales stand between them."""
    a, b = site.dims(0), site.dims(3)
    if a is None or b is None:
        return None
    return [broadcast(a, b)]


def like_input(site: NodeFacts, x: Dims) -> DimsResult:
    """The first output has the shape of the first input."""
    return [x]


def like_input_twice(site: NodeFacts, x: Dims) -> DimsResult:
    """Both outputs have the shape of the first input."""
    return [x, x]


def dynamic_quantize_linear(site: NodeFacts, x: Dims) -> DimsResult:
    """Like the input, a scale and a zero point."""
    return [x, (), ()]


def sequence_at(site: NodeFacts, x: Dims) -> DimsResult:
    """An item; names of sizes that a list declares are no item's alone."""
    return [_declared(x)]


def _declared(x: Dims) -> list[int | None]:
    return [size if isinstance(size, int) else None for size in x]


def concat_from_sequence(site: NodeFacts, x: Dims) -> DimsResult:
    """Items that are joined, along an axis of theirs or a new one."""
    sizes, new = _declared(x), int(site.attr("new_axis", 0))
    axis = int(site.attr("axis", 0)) % (len(sizes) + new)
    return [[*sizes[:axis], None, *sizes[axis + 1 - new :]]]


def number(site: NodeFacts) -> DimsResult:
    """One number."""
    return [()]


def shape_of(site: NodeFacts, x: Dims) -> DimsResult:
    """A vector of the chosen sizes."""
    return [(len(x[slice(site.attr("start", 0), site.attr("end"))]),)]


def gather(site: NodeFacts, x: Dims, indices: Dims) -> DimsResult:
    """The indices take the place of the axis."""
    axis = site.axis(len(x))
    return [(*x[:axis], *indices, *x[axis + 1 :])]


def gather_elements(site: NodeFacts, x: Dims, indices: Dims) -> DimsResult:
    """One element for each index."""
    return [indices]


def gather_nd(site: NodeFacts, x: Dims, indices: Dims) -> DimsResult:
    """The last axis of the indices is a place in the axes after the batch."""
    depth = indices[-1]
    if not isinstance(depth, int):
        return None
    return [(*indices[:-1], *x[site.attr("batch_dims", 0) + depth :])]


def reduce(site: NodeFacts, x: Dims) -> DimsResult:
    """The axes given become 1, or go."""
    keep = bool(site.attr("keepdims", 1))
    axes: list[int] | None = []
    if site.has(1) or site.attr("axes"):
        axes = site.axes(1, len(x))
    if axes is None:
        return [[None] * len(x)] if keep else None
    if not axes and not site.attr("noop_with_empty_axes", 0):
        axes = list(range(len(x)))
    return [_without(x, axes, keep)]


def arg_reduce(site: NodeFacts, x: Dims) -> DimsResult:
    """The axis becomes 1, or goes."""
    return [_without(x, [site.axis(len(x))], bool(site.attr("keepdims", 1)))]


def _without(x: Dims, axes: list[int], keep: bool) -> list[Dim]:
    if keep:
        return [1 if i in axes else d for i, d in enumerate(x)]
    return [d for i, d in enumerate(x) if i not in axes]


def range_(site: NodeFacts) -> DimsResult:
    """As many steps as fit between start and limit."""
    bounds = [_number(site, i) for i in range(3)]
    start, limit, delta = bounds
    if start is None or limit is None or delta is None or delta == 0:
        return [[None]]
    if any(isinstance(bound, float) for bound in bounds):
        if not all(isinstance(bound, int | float) for bound in bounds):
            return [[None]]
        return [[max(int(np.ceil((limit - start) / delta)), 0)]]
    if at_least(delta, 1):
        return [[maximum(ceildiv(simplify(limit - start), delta), 0)]]
    if at_least(-1, delta):
        return [[maximum(ceildiv(simplify(start - limit), simplify(-delta)), 0)]]
    return [[None]]


def _number(site: NodeFacts, index: int) -> Dim | float | None:
    """A scalar input; a whole float as an int."""
    numbers = site.numbers(index)
    number: Dim | float | None = numbers[0] if numbers else None
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def constant_of_shape(site: NodeFacts, shape: Dims) -> DimsResult:
    """The shape given; onnx knows one output size per element."""
    sizes = site.numbers(0)
    if sizes is None:
        return [[None] * shape[0]] if isinstance(shape[0], int) else None
    return [sizes]


def top_k(site: NodeFacts, x: Dims) -> DimsResult:
    """k along the axis, values and indices alike."""
    axis, k = site.axis(len(x), default=-1), site.numbers(1)
    out = [*x[:axis], k[0] if k else None, *x[axis + 1 :]]
    return [out, out]


def one_hot(site: NodeFacts, indices: Dims) -> DimsResult:
    """A new axis of `depth`."""
    axis, depth = site.axis(len(indices) + 1, default=-1), site.numbers(1)
    size = None
    if depth and depth[0] is not None:
        size = int(depth[0]) if isinstance(depth[0], float) else depth[0]
    return [[*indices[:axis], size, *indices[axis:]]]


def non_zero(site: NodeFacts, x: Dims) -> DimsResult:
    """One row per axis; as many columns as there are true elements."""
    elements = site.numbers(0)
    known = elements is not None and all(isinstance(e, bool | int) for e in elements)
    count = sum(map(bool, elements)) if elements is not None and known else None
    return [(max(len(x), 1), count)]


def compress(site: NodeFacts, x: Dims) -> DimsResult:
    """Unknown along the axis, or flattened without one."""
    if site.attr("axis") is None:
        return [[None]]
    axis = site.axis(len(x))
    return [[*x[:axis], None, *x[axis + 1 :]]]


def unique(site: NodeFacts, x: Dims) -> DimsResult:
    """As `compress`; first places, places of the inputs, and counts."""
    (values,) = compress(site, x) or (None,)
    return [values, [None], [None], [None]]
