"""Sizes of what operators give that reshape, or resize."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import sympy

from ...errors import FairhandError
from ...graph.dims import Dim, Dims, floor, product, quotient, same
from ...graph.shape_facts import DimsResult, NodeFacts
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


def resize(site: NodeFacts, x: Dims) -> DimsResult:
    """Sizes as given, or scales times sizes, rounded down."""
    axes = site.attr("axes") or range(len(x))
    axes = [axis % len(x) for axis in axes]
    stretched = site.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
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
        elif scales and scales[i] is not None:
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
