"""Sizes of the outputs of operators that move elements without changing them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import sympy

from ...errors import FairhandError
from ...graph.dims import (
    Dim,
    Dims,
    agree,
    at_least,
    broadcast,
    ceildiv,
    floor,
    maximum,
    minimum,
    product,
    quotient,
    same,
    simplify,
    slice_range,
)
from ...graph.shape_facts import DimsResult, NodeFacts
from .index_maps import slice_bounds
from .small_values import as_rational


def reshape(site: NodeFacts, x: Dims) -> DimsResult:
    """0 copies a size unless allowzero is set, and -1 takes what is left."""
    target = site.numbers(1)
    if target is None:
        shape = site.dims(1)
        length = shape[0] if shape else None
        return [[None] * length] if isinstance(length, int) else None
    copies = not site.attr("allowzero", 0)
    out = [x[i] if copies and d == 0 else d for i, d in enumerate(target)]
    if -1 in out:
        # An element that is not known leaves the one solved for unknown as well.
        known = [d for d in out if d is not None and d != -1]
        # ONNX Runtime doesn't solve for one beside a size of 0.
        site.shapes.filled.update(d for d in known if isinstance(d, sympy.Expr))
        solved = None if None in out else quotient(x, known)
        out[out.index(-1)] = solved
    before = product(x)
    after = None if None in out else product(d for d in out if d is not None)
    if isinstance(before, int) and isinstance(after, int) and before != after:
        raise FairhandError(f"{before} elements do not fit the shape {target}")
    return [out]


def flatten(site: NodeFacts, x: Dims) -> DimsResult:
    """Two axes: the product before `axis`, the product from it on."""
    axis = int(site.attr("axis", 1))
    axis += len(x) if axis < 0 else 0
    return [(product(x[:axis]), product(x[axis:]))]


def transpose(site: NodeFacts, x: Dims) -> DimsResult:
    """Axes in the order of `perm`."""
    perm = site.attr("perm") or range(len(x))[::-1]
    if sorted(perm) != list(range(len(x))):
        raise ValueError(f"perm {list(perm)} is no order of {len(x)} axes")
    return [[x[axis] for axis in perm]]


def squeeze(site: NodeFacts, x: Dims) -> DimsResult:
    """Without the axes given, or all that are 1."""
    if site.has(1) or site.attr("axes"):
        axes = site.axes(1, len(x))
        if axes is None:
            return None
        return [[d for i, d in enumerate(x) if i not in axes]]
    if any(same(d, 1) is None for d in x):
        return None
    return [[d for d in x if d != 1]]


def unsqueeze(site: NodeFacts, x: Dims) -> DimsResult:
    """Axes of size 1 at the places given, counted in the result."""
    shape = site.dims(1)
    count = len(site.attr("axes", ())) or (shape[0] if shape else 1)
    if not isinstance(count, int):
        return None
    axes = site.axes(1, len(x) + count)
    if axes is None:
        return [[None] * (len(x) + count)]
    sizes = iter(x)
    if len(set(axes)) < count:
        raise ValueError("an axis is named twice")
    return [[1 if i in axes else next(sizes) for i in range(len(x) + count)]]


def concat(site: NodeFacts, first: Dims) -> DimsResult:
    """Sizes add up along the axis and agree elsewhere."""
    axis = site.axis(len(first))
    out = list(first)
    for i in range(1, len(site.node.inputs)):
        dims = site.dims(i)
        if dims is None:
            return [[None if j == axis else d for j, d in enumerate(first)]]
        if len(dims) != len(first):
            raise ValueError("inputs differ in rank")
        for j, size in enumerate(dims):
            out[j] = simplify(out[j] + size) if j == axis else agree(out[j], size)
    return [out]


def split(site: NodeFacts, x: Dims) -> DimsResult:
    """Parts as listed, or as even as can be with the last one shorter."""
    axis, parts = site.axis(len(x)), len(site.node.outputs)
    sizes: list[Dim | None]
    listed = site.attr("split")
    if site.has(1) or listed:
        sizes = list(listed) if listed else site.numbers(1) or [None] * parts
    else:
        chunk = ceildiv(x[axis], int(site.attr("num_outputs", parts)))
        sizes = [chunk] * (parts - 1)
        sizes.append(simplify(x[axis] - chunk * (parts - 1)))
    return [[*x[:axis], size, *x[axis + 1 :]] for size in sizes]


# In a Slice's `meta`: it takes as many from 0 on as its end says, which are all there.
WITHIN = "within"


def slice_(site: NodeFacts, x: Dims) -> DimsResult:
    """Bounds count from the end if negative, and are clamped to the axis."""
    bounds = slice_bounds(site, x)
    if bounds is None:
        return [[None] * len(x)]
    out: list[Dim | None] = list(x)
    for axis, start, end, step in bounds:
        if start is None or end is None or not isinstance(step, int):
            out[axis] = None
        else:
            within = end if site.node.meta.get(WITHIN) else None
            out[axis] = within or _slice_length(x[axis], start, end, step)
    return [out]


def _slice_length(size: Dim, start: Dim, end: Dim, step: int) -> Dim | None:
    if step == 0:
        raise ValueError("a slice has step 0")
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        return len(slice_range(size, start, end, step))
    if step < 0:
        last = isinstance(start, int) and (start == -1 or start >= 2**31 - 1)
        whole = last and isinstance(end, int) and end < -(2**31) + 1
        return ceildiv(size, -step) if whole else None
    first, stop = _clamped(size, start), _clamped(size, end)
    if stop is None:
        return None
    if stop == size and size == simplify(-start):
        length = size  # of an axis without elements, too
    elif stop == size and at_least(-1, start):
        length = minimum(simplify(-start), size)
    elif stop == size and at_least(start, 0):
        length = maximum(simplify(size - start), 0)
    elif first is not None:
        length = maximum(simplify(stop - first), 0)
    else:
        return None
    return _if_plain(ceildiv(length, step))


def _clamped(size: Dim, bound: Dim) -> Dim | None:
    if bound == size:
        return size
    if at_least(bound, 0):
        return _if_plain(minimum(size, bound))
    if at_least(-1, bound):
        return _if_plain(maximum(simplify(size + bound), 0))
    return None


def _if_plain(size: Dim) -> Dim | None:
    """Not a nest of Min and Max: a symbol of its own reads better."""
    if isinstance(size, int):
        return size
    choices = [e for e in sympy.preorder_traversal(size) if isinstance(e, _CHOICES)]
    return size if len(choices) <= 1 else None


_CHOICES = (sympy.Min, sympy.Max)


def expand(site: NodeFacts, x: Dims) -> DimsResult:
    """Broadcast with the shape given, in both directions."""
    target = site.numbers(1)
    if target is None:
        shape = site.dims(1)
        length = shape[0] if shape else None
        if not isinstance(length, int) or length < len(x):
            return None
        target = [None] * length
    out: list[Dim | None] = []
    for a, b in zip_longest(x[::-1], target[::-1], fillvalue=1):
        if b is None:
            # Against an unknown size, only a number other than 1 is certain.
            out.append(a if isinstance(a, int) and a != 1 else None)
        else:
            out += broadcast((a,), (b,))
    return [out[::-1]]


def tile(site: NodeFacts, x: Dims) -> DimsResult:
    """Each size times its repeats."""
    repeats = site.numbers(1) or [None] * len(x)
    if len(repeats) != len(x):
        raise ValueError("repeats and axes differ in number")
    pairs = zip(x, repeats, strict=True)
    return [[None if r is None else simplify(d * r) for d, r in pairs]]


def pad(site: NodeFacts, x: Dims) -> DimsResult:
    """Begin and end added to each axis given."""
    axes = site.axes(3, len(x)) if site.has(3) else list(range(len(x)))
    pads = site.numbers(1)
    if axes is None or pads is None:
        return [[None] * len(x)]
    out: list[Dim | None] = list(x)
    for axis, begin, end in zip(
        axes, pads[: len(axes)], pads[len(axes) :], strict=True
    ):
        if begin is None or end is None:
            out[axis] = None
        else:
            out[axis] = simplify(x[axis] + begin + end)
    return [out]


def resize(site: NodeFacts, x: Dims) -> DimsResult:
    """Sizes as given, or scales times sizes, rounded down."""
    axes = site.attr("axes") or range(len(x))
    axes = [axis % len(x) for axis in axes]
    stretched = site.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    cropped = site.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    out: list[Dim | None] = list(x)
    sizes = site.numbers(3) if site.has(3) else None
    scales = site.numbers(2) if sizes is None and site.has(2) else None
    if any(isinstance(size, int) and size < 0 for size in sizes or ()):
        raise ValueError(f"{sizes} has a size below 0")
    if sizes is not None and not stretched:
        old = [x[axis] for axis in axes]
        policy = str(site.attr("keep_aspect_ratio_policy"))
        known = all(isinstance(size, int) and size for size in (*old, *sizes))
        sizes = [*fitted(old, sizes, policy)[1]] if known else [None] * len(axes)
    for i, axis in enumerate(axes):
        if sizes is not None:
            out[axis] = sizes[i]
        elif scales and scales[i] is not None and not cropped:
            out[axis] = _scaled(x[axis], scales[i])
        else:
            out[axis] = None
    return [out]


def fitted(
    old: Sequence[Any], room: Sequence[Any], policy: str
) -> tuple[float, list[int]]:
    """The one scale at which sizes fit into a room or fill it, and what they become."""
    ratios = [new / size for new, size in zip(room, old, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return scale, [math.floor(scale * size + 0.5) for size in old]


def _scaled(size: Dim, scale: Dim) -> Dim | None:
    """ONNX Runtime multiplies in single precision, which decides the last element."""
    if isinstance(size, int):
        return int(np.float32(size) * np.float32(scale))
    exact = as_rational(scale)
    return None if exact is None else floor(size * exact)
