"""Random instances of operators that move elements, and of opaque ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.denotation_cases import Case, Draw, case, ints
from support.symbolic_law import gathered

from fairhand.rewrites.proof.kernel.scalars import Const
from fairhand.rewrites.proof.kernel.tensors import Context, Tensor, shape
from fairhand.rewrites.proof.semantics import gather as g
from fairhand.rewrites.proof.semantics import movement as m
from fairhand.rewrites.proof.semantics.index_maps import (
    axes_of,
    axis_range,
    per_axis,
)
from fairhand.rewrites.proof.semantics.table import MEANINGS


@case("Identity")
def _identity(draw: Draw) -> Case:
    return Case(
        "Identity", [draw.array(draw.sizes())], MEANINGS["Identity"], exact=True
    )


@case("Transpose")
def _transpose(draw: Draw) -> Case:
    sizes = draw.sizes()
    p = draw.random.sample(range(len(sizes)), len(sizes))
    q = [p.index(k) for k in range(len(p))]
    return Case(
        "Transpose",
        [draw.array(sizes)],
        lambda c, t: m.transpose(c, t, per_axis(p), per_axis(q)),
        {"perm": p} if p else {},
        exact=True,
    )


@case("Slice")
def _slice(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    begin = [draw.integer(0, n) for n in sizes]
    end = [draw.integer(b, n) for b, n in zip(begin, sizes, strict=True)]
    step = [draw.integer(1, 2) for _ in sizes]
    listed = [ints(*begin), ints(*end), ints(*range(len(sizes))), ints(*step)]
    bounds = per_axis(begin), per_axis(end), per_axis(step, 1)
    return Case(
        "Slice",
        [draw.array(sizes), *listed],
        lambda c, t, *_: m.slice(c, t, *bounds),
        exact=True,
    )


@case("Slice of one axis")
def _slice_axis(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    axis = draw.integer(0, len(sizes) - 1)
    begin = draw.integer(0, sizes[axis])
    end = draw.integer(begin, sizes[axis])
    return Case(
        "Slice",
        [draw.array(sizes), ints(begin), ints(end), ints(axis)],
        lambda c, t, *_: m.slice_axis(c, t, axis, begin, end),
        exact=True,
    )


@case("Pad")
def _pad(draw: Draw) -> Case:
    mode = draw.choice(["constant", "constant", "edge", "reflect", "wrap"])
    sizes = draw.sizes(1, low=0 if mode == "constant" else 1)
    least = -1 if mode == "constant" else 0
    pads = [
        [
            draw.integer(max(least, -(n // 2)), n - 1 if mode == "reflect" else 2)
            for n in sizes
        ]
        for _ in range(2)
    ]
    value = Const(2.5)
    return Case(
        "Pad",
        [draw.array(sizes), ints(*pads[0], *pads[1]), np.float32(2.5)],
        lambda c, t, *_: m.pad(c, t, per_axis(pads[0]), per_axis(pads[1]), value, mode),
        {"mode": mode},
        exact=True,
    )


@case("Concat")
def _concat(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    axis = draw.integer(0, len(sizes) - 1)
    shapes = [[*sizes] for _ in range(draw.integer(1, 3))]
    for s in shapes:
        s[axis] = draw.integer(0, 3)
    return Case(
        "Concat",
        [draw.array(s) for s in shapes],
        lambda c, *t: m.concat(c, axis, *t),
        {"axis": axis},
        exact=True,
    )


def _chosen(draw: Draw, sizes: list[int]) -> tuple[list[int], Any]:
    """Some axes to squeeze, as a list and as one of the three ways to give them."""
    rank = len(sizes)
    way = draw.choice(["one", "range", "set"])
    if way == "one" and rank:
        axis = draw.integer(0, rank - 1)
        return [axis], axis
    if way == "range":
        low = draw.integer(0, rank)
        high = draw.integer(low, rank)
        return [*range(low, high)], axis_range(low, high)
    axes = draw.subset(rank)
    return axes, axes_of(axes, rank)


@case("Unsqueeze")
def _unsqueeze(draw: Draw) -> Case:
    result = draw.sizes()
    axes, given = _chosen(draw, result)
    sizes = [n for k, n in enumerate(result) if k not in axes]
    act = m.unsqueeze if isinstance(given, int) else m.unsqueeze_set
    inputs = [draw.array(sizes), ints(*axes)]
    return Case("Unsqueeze", inputs, lambda c, t, _: act(c, t, given), exact=True)


@case("Squeeze")
def _squeeze(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    axes, given = _chosen(draw, sizes)
    if not axes:  # an empty list would mean all axes of size 1
        axes, given = [0], 0
    sizes = [1 if k in axes else n for k, n in enumerate(sizes)]

    def denote(c: Context, t: Tensor, _: Tensor) -> Tensor:
        if isinstance(given, int):
            return m.squeeze(c, t, given)
        return m.squeeze_set(c, t, given)

    return Case("Squeeze", [draw.array(sizes), ints(*axes)], denote, exact=True)


@case("Expand")
def _expand(draw: Draw) -> Case:
    given = draw.sizes()
    inputs = [draw.array(draw.broadcastable(given)), ints(*given)]
    return Case(
        "Expand",
        inputs,
        lambda c, t, _: m.expand(c, t, len(given), shape(*given)),
        exact=True,
    )


@case("Tile")
def _tile(draw: Draw) -> Case:
    sizes = draw.sizes(1)
    repeats = [draw.integer(0, 2) for _ in sizes]
    inputs = [draw.array(sizes), ints(*repeats)]
    return Case(
        "Tile", inputs, lambda c, t, _: m.tile(c, t, per_axis(repeats)), exact=True
    )


@case("Gather")
def _gather(draw: Draw) -> Case:
    sizes = draw.sizes(1, 3, low=1)
    axis = draw.integer(0, len(sizes) - 1)
    shape_of_indices = draw.sizes(0, 2)
    n = sizes[axis]
    indices = draw.values.integers(0, n, shape_of_indices)
    rank = indices.ndim

    def read(j: Any) -> int:
        return int(indices[tuple(j(k) for k in range(rank))])

    def denote(c: Context, t: Tensor, _: Tensor) -> Tensor:
        if rank == 1:
            listed = per_axis([int(n) for n in indices])
            return gathered(c, t, axis, listed, len(indices))
        return g.gather_index(c, t, axis, rank, shape(*indices.shape), read)

    inputs = [draw.array(sizes), np.asarray(indices, np.int64)]
    return Case("Gather", inputs, denote, {"axis": axis}, exact=True)


class Inside:
    """A context where places are drawn inside: it is asked for the rest alone."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def require(self, condition: Any, what: str = "") -> None:
        if "indices" not in what:
            self._context.require(condition, what)


@case("ScatterND")
def _scatter_nd(draw: Draw) -> Case:
    sizes = draw.sizes(1, 3, low=1)
    depth = draw.integer(1, len(sizes))
    places = list(np.ndindex(*sizes[:depth]))
    chosen = draw.random.sample(places, draw.integer(1, len(places)))
    updates = draw.array([len(chosen), *sizes[depth:]])
    return Case(
        "ScatterND",
        [draw.array(sizes), np.array(chosen, np.int64), updates],
        lambda c, *tensors: g.scatter_nd(Inside(c), *tensors),  # type: ignore[arg-type]
        exact=True,
    )


@case("ScatterND of all rows")
def _scatter_rows(draw: Draw) -> Case:
    sizes = draw.sizes(1, 3)
    rows = draw.random.sample(range(sizes[0]), sizes[0])
    places = [rows.index(j) for j in range(len(rows))]
    indices = np.array(rows, np.int64).reshape(-1, 1)
    return Case(
        "ScatterND",
        [draw.array(sizes), indices, draw.array(sizes)],
        lambda c, x, _, y: g.scatter_rows(c, x, y, per_axis(rows), per_axis(places)),
        exact=True,
    )
