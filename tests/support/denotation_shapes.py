"""Random instances of Reshape and the operators that are reshapes in disguise."""

from __future__ import annotations

import numpy as np
from support.denotation_cases import Case, Draw, case, ints

from fairhand.rewrites.proof.kernel.tensors import Context, Tensor, shape
from fairhand.rewrites.proof.semantics import reshape as r
from fairhand.rewrites.proof.semantics.table import MEANINGS


@case("Reshape")
def _reshape(draw: Draw) -> Case:
    """At once, or through another shape."""
    found = draw.array(draw.sizes())
    result = _factors(draw, found.size)
    between = _factors(draw, found.size)
    twice = draw.flag()

    def denote(c: Context, t: Tensor, _: Tensor) -> Tensor:
        if twice:
            t = r.reshape(c, t, len(between), shape(*between))
        return r.reshape(c, t, len(result), shape(*result))

    inputs = [found, ints(*result)]
    return Case("Reshape", inputs, denote, {"allowzero": 1}, exact=True)


def _factors(draw: Draw, count: int) -> list[int]:
    """A shape with this many elements."""
    if count == 0:
        return draw.random.sample([0, 2, 3], 3)
    found = []
    while count > 1:
        n = draw.choice([n for n in range(1, count + 1) if count % n == 0])
        found.append(n)
        count //= n
    return found


@case("Reshape that splits an axis")
def _split(draw: Draw) -> Case:
    sizes = draw.sizes(1, 3)
    axis = draw.integer(0, len(sizes) - 1)
    a, b = draw.integer(0, 2), draw.integer(0, 2)
    result = [*sizes[:axis], a, b, *sizes[axis + 1 :]]
    sizes[axis] = a * b

    def denote(c: Context, t: Tensor, _: Tensor) -> Tensor:
        return r.split_axis(c, t, axis, a, b)

    inputs = [draw.array(sizes), ints(*result)]
    return Case("Reshape", inputs, denote, {"allowzero": 1}, exact=True)


@case("Reshape that merges axes")
def _merge(draw: Draw) -> Case:
    sizes = draw.sizes(2)
    axis = draw.integer(0, len(sizes) - 2)
    merged = int(np.prod(sizes[axis : axis + 2]))
    result = [*sizes[:axis], merged, *sizes[axis + 2 :]]

    def denote(c: Context, t: Tensor, _: Tensor) -> Tensor:
        return r.merge_axes(c, t, axis)

    inputs = [draw.array(sizes), ints(*result)]
    return Case("Reshape", inputs, denote, {"allowzero": 1}, exact=True)


@case("Flatten")
def _flatten(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    axis = draw.integer(0, len(sizes))
    return Case(
        "Flatten",
        [draw.array(sizes)],
        lambda c, t: MEANINGS["Flatten"](c, t, axis),
        {"axis": axis},
        exact=True,
    )


@case("DepthToSpace")
def _depth_to_space(draw: Draw) -> Case:
    block, mode = draw.integer(1, 2), draw.choice(["DCR", "CRD"])
    n, c, h, w = (draw.integer(1, 2) for _ in range(4))
    return Case(
        "DepthToSpace",
        [draw.array([n, c * block**2, h, w])],
        lambda context, t: r.depth_to_space(context, t, block, mode),
        {"blocksize": block, "mode": mode},
        exact=True,
    )


@case("SpaceToDepth")
def _space_to_depth(draw: Draw) -> Case:
    block = draw.integer(1, 2)
    n, c, h, w = (draw.integer(1, 2) for _ in range(4))
    return Case(
        "SpaceToDepth",
        [draw.array([n, c, h * block, w * block])],
        lambda context, t: r.space_to_depth(context, t, block),
        {"blocksize": block},
        exact=True,
    )
