"""Operators with several operands, and those that move elements and compute none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from .elementwise import converted, rounded, shifted
from .operators import (
    OPERATORS,
    Attributes,
    aligned,
    front,
    given,
    integers,
    like,
    moved,
    operator,
    pointwise,
)
from .places import (
    FLOAT,
    INT64,
    Kind,
    Places,
    Tensor,
    Undefined,
    Unknown,
    mp,
    objects,
    stored,
)

# ---- elementwise, with more operands


@operator("Where")
def _where(inputs: list[Any], a: Attributes) -> Tensor:
    return pointwise(lambda c, x, y: x if c else y, inputs, inputs[1].kind)


@operator("Clip")
def _clip(inputs: list[Any], a: Attributes) -> Tensor:
    x, low, high = inputs[0], given(inputs, 1), given(inputs, 2)
    if low is not None:
        x = pointwise(max, [x, low], x.kind)
    return x if high is None else pointwise(min, [x, high], x.kind)


@operator("Cast")
def _cast(inputs: list[Any], a: Attributes) -> Tensor:
    (x,), target = inputs, Kind.of(ir.DataType(a["to"]))
    return pointwise(lambda n: converted(n, x.kind, target), [x], target)


@operator("BitShift")
def _shift(inputs: list[Any], a: Attributes) -> Tensor:
    x, by = inputs
    return pointwise(
        lambda n, k: shifted(x.kind, n, k, a["direction"]), [x, by], x.kind
    )


@operator("QuantizeLinear")
def _quantize(inputs: list[Any], a: Attributes) -> Tensor:
    if len(inputs) < 3 or a.get("block_size"):
        raise Unknown("quantisation of this form")
    x, scale, zero = inputs
    kind = zero.kind
    low = -(1 << kind.bits - 1) if kind.name == "int" else 0
    high = low + (1 << kind.bits) - 1

    def level(n: Any, s: Any, z: Any) -> int:
        if s == 0:
            raise Undefined("a scale of 0")
        return int(min(max(rounded(n / s) + z, low), high))

    return pointwise(level, _along(x, [scale, zero], a), kind)


@operator("DequantizeLinear")
def _dequantize(inputs: list[Any], a: Attributes) -> Tensor:
    if len(inputs) < 3 or a.get("block_size"):
        raise Unknown("quantisation of this form")
    x, scale, zero = inputs
    return pointwise(lambda n, s, z: (n - z) * s, _along(x, [scale, zero], a), FLOAT)


def _along(x: Tensor, others: list[Any], a: Attributes) -> list[Any]:
    axis = front(a.get("axis", 1), x.rank)
    return [x, *(per_axis(t, axis, x.rank) if t.rank else t for t in others)]


def per_axis(t: Tensor, axis: int, rank: int) -> Tensor:
    """A vector as a tensor that broadcasts along the others."""
    shape = [t.shape[0] if k == axis else 1 for k in range(rank)]
    return moved(t, shape, lambda at: [at[axis]])


# ---- movements


@operator("Transpose")
def _transpose(inputs: list[Any], a: Attributes) -> Tensor:
    (x,) = inputs
    perm = list(a.get("perm", reversed(range(x.rank))))
    back = [perm.index(k) for k in range(x.rank)]
    return moved(x, [x.shape[k] for k in perm], lambda at: [at[k] for k in back])


def reshaped(x: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape."""
    if int(np.prod(shape, dtype=object)) != x.size:
        raise Unknown(f"a reshape of {x.shape} to {tuple(shape)}")

    def place(at: Places) -> Places:
        numbers = np.zeros(like(at), np.int64)
        for k, size in zip(at, shape, strict=True):
            numbers = numbers * size + k
        return x.unraveled(numbers)

    return moved(x, shape, place)


@operator("Reshape")
def _reshape(inputs: list[Any], a: Attributes) -> Tensor:
    x, target = inputs[0], integers(inputs[1])
    if not a.get("allowzero"):
        target = [x.shape[k] if n == 0 else n for k, n in enumerate(target)]
    if -1 in target:
        rest = int(np.prod([n for n in target if n != -1], dtype=object))
        target[target.index(-1)] = x.size // rest if rest else 0
    return reshaped(x, target)


@operator("Flatten")
def _flatten(inputs: list[Any], a: Attributes) -> Tensor:
    (x,) = inputs
    axis = front(a.get("axis", 1), x.rank)
    return reshaped(x, [int(np.prod(p)) for p in (x.shape[:axis], x.shape[axis:])])


@operator("Squeeze")
def _squeeze(inputs: list[Any], a: Attributes) -> Tensor:
    x = inputs[0]
    listed = given(inputs, 1)
    axes = range(x.rank) if listed is None else integers(listed)
    out = {front(k, x.rank) for k in axes}
    if listed is None:
        out = {k for k in out if x.shape[k] == 1}
    if any(x.shape[k] != 1 for k in out):
        raise Undefined("an axis that isn't 1 is squeezed")
    return reshaped(x, [n for k, n in enumerate(x.shape) if k not in out])


@operator("Unsqueeze")
def _unsqueeze(inputs: list[Any], a: Attributes) -> Tensor:
    x, listed = inputs[0], integers(inputs[1])
    shape = list(x.shape)
    for k in sorted(front(k, x.rank + len(listed)) for k in listed):
        shape.insert(k, 1)
    return reshaped(x, shape)


@operator("Expand")
def _expand(inputs: list[Any], a: Attributes) -> Tensor:
    x, target = inputs[0], integers(inputs[1])
    shape = np.broadcast_shapes(x.shape, tuple(target))
    return moved(x, shape, lambda at: aligned(at, x))


@operator("Tile")
def _tile(inputs: list[Any], a: Attributes) -> Tensor:
    x, repeats = inputs[0], integers(inputs[1])
    shape = [n * r for n, r in zip(x.shape, repeats, strict=True)]
    return moved(x, shape, lambda at: [k % n for k, n in zip(at, x.shape, strict=True)])


@operator("Slice")
def _slice(inputs: list[Any], a: Attributes) -> Tensor:
    x, begins, ends = inputs[0], integers(inputs[1]), integers(inputs[2])
    axes, steps = given(inputs, 3), given(inputs, 4)
    listed = list(range(len(begins))) if axes is None else integers(axes)
    by = [1] * len(begins) if steps is None else integers(steps)
    parts = [range(n) for n in x.shape]
    for k, low, high, step in zip(listed, begins, ends, by, strict=True):
        if step < 1:
            raise Unknown("a Slice that runs backwards")
        axis = front(k, x.rank)
        parts[axis] = parts[axis][slice(low, high, step)]

    def place(at: Places) -> Places:
        return [r.start + r.step * k for k, r in zip(at, parts, strict=True)]

    return moved(x, [len(r) for r in parts], place)


@operator("Concat")
def _concat(inputs: list[Any], a: Attributes) -> Tensor:
    axis = front(a["axis"], inputs[0].rank)
    starts = np.cumsum([0, *(x.shape[axis] for x in inputs)])
    shape = list(inputs[0].shape)
    shape[axis] = int(starts[-1])

    def compute(at: Places) -> np.ndarray:
        found = objects([None] * at[0].size)
        for x, start, end in zip(inputs, starts, starts[1:], strict=False):
            here = (at[axis] >= start) & (at[axis] < end)
            if here.any():
                inside = [
                    k[here] - (start if j == axis else 0) for j, k in enumerate(at)
                ]
                found[here] = x.at(inside)
        return found

    return Tensor(inputs[0].kind, shape, compute)


@operator("Split")
def _split(inputs: list[Any], a: Attributes) -> list[Tensor]:
    x, axis = inputs[0], front(a.get("axis", 0), inputs[0].rank)
    if given(inputs, 1) is not None:
        sizes = integers(inputs[1])
    else:
        each = -(-x.shape[axis] // a[""])
        sizes = [min(each, x.shape[axis] - each * k) for k in range(a[""])]
    starts = np.cumsum([0, *sizes])

    def part(start: int, size: int) -> Tensor:
        shape = [size if k == axis else n for k, n in enumerate(x.shape)]
        return moved(
            x, shape, lambda at: [k + start * (j == axis) for j, k in enumerate(at)]
        )

    return [part(int(s), n) for s, n in zip(starts, sizes, strict=False)]


@operator("Gather")
def _gather(inputs: list[Any], a: Attributes) -> Tensor:
    x, listed = inputs
    axis = front(a.get("axis", 0), x.rank)
    shape = (*x.shape[:axis], *listed.shape, *x.shape[axis + 1 :])

    def place(at: Places) -> Places:
        inside = listed.at(at[axis : axis + listed.rank], like(at))
        found = _indices(inside, x.shape[axis])
        return [*at[:axis], found, *at[axis + listed.rank :]]

    return moved(x, shape, place)


def _indices(found: np.ndarray, size: int) -> np.ndarray:
    numbers = np.array([int(n) for n in found.reshape(-1)], np.int64)
    numbers = np.where(numbers < 0, numbers + size, numbers)
    if np.any((numbers < 0) | (numbers >= size)):
        raise Undefined("an index that is outside")
    return numbers.reshape(found.shape)


@operator("GatherND")
def _gather_nd(inputs: list[Any], a: Attributes) -> Tensor:
    x, listed = inputs
    if a.get("batch_dims"):
        raise Unknown("GatherND with batches")
    outer, count = listed.rank - 1, listed.shape[-1]

    def place(at: Places) -> Places:
        picked = [
            _indices(listed.at([*at[:outer], np.full(like(at), k)]), x.shape[k])
            for k in range(count)
        ]
        return [*picked, *at[outer:]]

    return moved(x, (*listed.shape[:-1], *x.shape[count:]), place)


@operator("Pad")
def _pad(inputs: list[Any], a: Attributes) -> Tensor:
    x, pads, value = inputs[0], integers(inputs[1]), given(inputs, 2)
    if a.get("mode", "constant") != "constant":
        raise Unknown(f"Pad in mode {a['mode']}")
    axes = given(inputs, 3)
    listed = (
        range(x.rank) if axes is None else [front(k, x.rank) for k in integers(axes)]
    )
    low, high = [0] * x.rank, [0] * x.rank
    for j, axis in enumerate(listed):
        low[axis], high[axis] = pads[j], pads[j + len(listed)]
    fill = mp.mpf(0) if value is None else value.all()[0]
    shape = [n + p + q for n, p, q in zip(x.shape, low, high, strict=True)]

    def compute(at: Places) -> np.ndarray:
        return within(x, [k - p for k, p in zip(at, low, strict=True)], fill)

    return Tensor(x.kind, shape, compute)


def within(x: Tensor, places: Places, otherwise: Any) -> np.ndarray:
    """The elements at places, some of which may be outside."""
    shape = np.broadcast_shapes(*(np.shape(k) for k in places))
    wide = [np.broadcast_to(k, shape) for k in places]
    inside = np.ones(shape, np.bool_)
    for k, size in zip(wide, x.shape, strict=True):
        inside &= (k >= 0) & (k < size)
    found = np.full(shape, otherwise, object)
    if inside.any():
        found[inside] = x.at([k[inside] for k in wide])
    return found


@operator("DepthToSpace")
def _depth_to_space(inputs: list[Any], a: Attributes) -> Tensor:
    x, b = inputs[0], a["blocksize"]
    n, c, h, w = x.shape
    crd = a.get("mode", "DCR") == "CRD"
    split = (n, c // (b * b), b, b, h, w) if crd else (n, b, b, c // (b * b), h, w)
    perm = (0, 1, 4, 2, 5, 3) if crd else (0, 3, 4, 1, 5, 2)
    parts = OPERATORS["Transpose"]([reshaped(x, split)], {"perm": perm})
    return reshaped(parts, (n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def _space_to_depth(inputs: list[Any], a: Attributes) -> Tensor:
    x, b = inputs[0], a["blocksize"]
    n, c, h, w = x.shape
    parts = reshaped(x, (n, c, h // b, b, w // b, b))
    parts = OPERATORS["Transpose"]([parts], {"perm": (0, 3, 5, 1, 2, 4)})
    return reshaped(parts, (n, c * b * b, h // b, w // b))


@operator("Trilu")
def _trilu(inputs: list[Any], a: Attributes) -> Tensor:
    x = inputs[0]
    k = 0 if given(inputs, 1) is None else integers(inputs[1])[0]
    upper = a.get("upper", 1)
    zero = x.kind.wrapped(0) if x.kind.name != "float" else mp.mpf(0)

    def compute(at: Places) -> np.ndarray:
        distance = at[-1] - at[-2]
        kept = distance >= k if upper else distance <= k
        return np.asarray(np.where(kept, x.at(at), zero))

    return Tensor(x.kind, x.shape, compute)


@operator("Shape")
def _shape(inputs: list[Any], a: Attributes) -> Tensor:
    x = inputs[0]
    part = x.shape[a.get("start", 0) : a.get("end", x.rank)]
    return stored(np.array(part, np.int64), INT64)


@operator("Range")
def _range(inputs: list[Any], a: Attributes) -> Tensor:
    start, limit, step = (t.all()[0] for t in inputs)
    if step == 0:
        raise Undefined("steps of 0")
    kind = inputs[0].kind
    ceil = (
        -(-(limit - start) // step) if kind.whole else mp.ceil((limit - start) / step)
    )
    count = max(int(ceil), 0)
    return Tensor(
        kind, [count], lambda at: objects([start + int(k) * step for k in at[0]])
    )
