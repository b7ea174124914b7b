"""Operators with several operands, and those that move elements and compute none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.lazy import lazy
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

reference = lazy("onnx.reference")

# ---- elementwise, with more operands


@operator("Where")
def _where(inputs: list[Any], a: Attributes) -> Tensor:
    return pointwise(lambda c, x, y: x if c else y, inputs, inputs[1].kind)


@operator("Cast")
def _cast(inputs: list[Any], a: Attributes) -> Tensor:
    (x,), target = inputs, Kind.of(ir.DataType(a["to"]))
    return pointwise(lambda n: converted(n, x.kind, target), [x], target)


@operator("Mod")
def _mod(inputs: list[Any], a: Attributes) -> Tensor:
    def remainder(n: Any, by: Any) -> Any:
        if by == 0:
            raise Undefined("a division by 0")
        # As C has it, with the sign of what is divided.
        return abs(n) % abs(by) * (1 if n > 0 else -1) if a.get("fmod") else n % by

    return pointwise(remainder, inputs, inputs[0].kind)


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


def _by_reference(
    op: str, inputs: list[Any], a: Attributes, elements: np.ndarray
) -> list[np.ndarray]:
    """What ONNX's own implementation makes of `elements` as the first input."""
    rest = [t and np.reshape(integers(t), t.shape) for t in inputs[1:]]
    given = {f"x{i}": x for i, x in enumerate([elements, *rest])}
    node = onnx.helper.make_node(
        op,
        [name if x is not None else "" for name, x in given.items()],
        [f"y{i}" for i in range(a.get("", 1))],
        **{name: value for name, value in a.items() if name},
    )
    found: list[np.ndarray] = reference.ReferenceEvaluator(node).run(None, given)
    return found


def _in_order(op: str, inputs: list[Any], a: Attributes) -> Tensor:
    """The same elements in the sizes that the operator gives."""
    anything = np.broadcast_to(np.int64(0), inputs[0].shape)
    return reshaped(inputs[0], _by_reference(op, inputs, a, anything)[0].shape)


def _elsewhere(op: str, inputs: list[Any], a: Attributes) -> list[Tensor]:
    """What the operator does with the numbers of each axis, of which it makes views."""
    x = inputs[0]
    if not x.rank:
        return [x]
    axes = [np.broadcast_to(k, x.shape) for k in np.indices(x.shape, sparse=True)]
    results = zip(*(_by_reference(op, inputs, a, k) for k in axes), strict=True)

    def part(places: tuple[np.ndarray, ...]) -> Tensor:
        return moved(x, places[0].shape, lambda at: [k[tuple(at)] for k in places])

    return [part(places) for places in results]


OPERATORS |= {
    op: partial(_in_order, op) for op in ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
}
OPERATORS |= {op: partial(_elsewhere, op) for op in ("Split", "Transpose")}


@operator("Slice")
def _slice(inputs: list[Any], a: Attributes) -> list[Tensor]:
    if given(inputs, 4) is not None and min(integers(inputs[4]), default=1) < 1:
        raise Unknown("a Slice that runs backwards")
    return _elsewhere("Slice", inputs, a)


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
    axes = range(x.rank) if given(inputs, 3) is None else integers(inputs[3])
    listed = [front(k, x.rank) for k in axes]
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
    (parts,) = OPERATORS["Transpose"]([reshaped(x, split)], {"perm": perm})
    return reshaped(parts, (n, c // (b * b), h * b, w * b))


@operator("SpaceToDepth")
def _space_to_depth(inputs: list[Any], a: Attributes) -> Tensor:
    x, b = inputs[0], a["blocksize"]
    n, c, h, w = x.shape
    parts = reshaped(x, (n, c, h // b, b, w // b, b))
    (parts,) = OPERATORS["Transpose"]([parts], {"perm": (0, 3, 5, 1, 2, 4)})
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


@operator("Size")
def _size(inputs: list[Any], a: Attributes) -> Tensor:
    return stored(np.array(inputs[0].size, np.int64), INT64)


@operator("ConstantOfShape")
def _constant_of_shape(inputs: list[Any], a: Attributes) -> Tensor:
    value = a.get("value")
    number = np.zeros(1, np.float32) if value is None else value.numpy()
    kind = FLOAT if value is None else Kind.of(value.dtype)
    return moved(stored(number.reshape(()), kind), integers(inputs[0]), lambda at: [])


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
