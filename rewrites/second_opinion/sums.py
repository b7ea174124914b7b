"""Operators along axes: reductions, softmax, products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from .elementwise import logarithm
from .movements import reshaped
from .operators import (
    OPERATORS,
    Attributes,
    aligned,
    front,
    given,
    integers,
    like,
    operator,
    pointwise,
)
from .places import INT64, Kind, Places, Tensor, Undefined, Unknown, mp, objects

# ---- reductions


def reduced(
    x: Tensor, axes: set[int], keep: bool, f: Callable[[list[Any]], Any]
) -> Tensor:
    """f of the elements along axes."""
    shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    if not keep:
        shape = [n for k, n in enumerate(x.shape) if k not in axes]
    inner = [x.shape[k] for k in sorted(axes)]
    count = int(np.prod(inner, dtype=object))
    steps = np.unravel_index(np.arange(count), inner) if inner else ()

    def compute(at: Places) -> np.ndarray:
        outer = iter(at)
        wide: Places = []
        along = iter(steps)
        for k in range(x.rank):
            if k in axes:
                if keep:
                    next(outer)
                wide.append(np.broadcast_to(next(along), (*like(at), count)))
            else:
                place = np.asarray(next(outer))[..., None]
                wide.append(np.broadcast_to(place, (*like(at), count)))
        rows = x.at(wide, (*like(at), count)).reshape(len(at[0]) if at else 1, count)
        return objects([f(list(row)) for row in rows]).reshape(like(at))

    return Tensor(x.kind, shape, compute)


def mean(kind: Kind, row: list[Any]) -> Any:
    """The mean of a row; of whole numbers rounded towards 0."""
    if not row:
        raise Undefined("the mean of nothing")
    total = kind.wrapped(sum(row))
    if kind.whole:
        return abs(total) // len(row) * (1 if total >= 0 else -1)
    return total / len(row)


def extreme(pick: Any, row: list[Any]) -> Any:
    """The largest or smallest of a row. Raises Undefined if there is none."""
    if not row:
        raise Undefined("the largest of nothing")
    return pick(row)


REDUCTIONS: dict[str, Callable[[Kind, list[Any]], Any]] = {
    "ReduceSum": lambda kind, row: sum(row),
    "ReduceMean": mean,
    "ReduceMax": lambda kind, row: extreme(max, row),
    "ReduceMin": lambda kind, row: extreme(min, row),
    "ReduceProd": lambda kind, row: prod(row),
    "ReduceLogSum": lambda kind, row: logarithm(sum(row)),
    "ReduceLogSumExp": lambda kind, row: (
        extreme(max, row) + int(mp.log(row.count(max(row))))  # each e^x is cut
        if kind.whole
        else logarithm(sum(map(mp.exp, row)))
    ),
}


def _reduction(name: str) -> Any:
    def f(inputs: list[Any], a: Attributes) -> Tensor:
        x = inputs[0]
        listed = given(inputs, 1)
        axes = [] if listed is None else [front(k, x.rank) for k in integers(listed)]
        if not axes and not a.get("noop_with_empty_axes", 0):
            axes = list(range(x.rank))
        combine = REDUCTIONS[name]
        return reduced(
            x, set(axes), bool(a.get("keepdims", 1)), lambda row: combine(x.kind, row)
        )

    return f


for _name in REDUCTIONS:
    operator(_name)(_reduction(_name))


def quotient(a: Any, b: Any) -> Any:
    """a / b. Raises Undefined for b = 0."""
    if b == 0:
        raise Undefined("a division by 0")
    return a / b


@operator("CumSum")
def _cumsum(inputs: list[Any], a: Attributes) -> Tensor:
    x, axis = inputs[0], front(integers(inputs[1])[0], inputs[0].rank)
    own, size = 0 if a.get("exclusive") else 1, x.shape[axis]

    def compute(at: Places) -> np.ndarray:
        found = []
        for row in zip(*at, strict=True):
            here = int(row[axis])
            inside = (
                range(here + 1 - own, size) if a.get("reverse") else range(here + own)
            )
            places = [np.full(len(inside), k) for k in row]
            places[axis] = np.array(inside, np.int64)
            found.append(sum(x.at(places)) if len(inside) else 0)
        return objects(found)

    return Tensor(x.kind, x.shape, compute)


@operator("ArgMax")
def _argmax(inputs: list[Any], a: Attributes, best: Any = max) -> Tensor:
    x = inputs[0]

    def place(row: list[Any]) -> int:
        top = extreme(best, row)
        last = len(row) - 1 - row[::-1].index(top)
        return last if a.get("select_last_index") else row.index(top)

    axis = front(a.get("axis", 0), x.rank)
    found = reduced(x, {axis}, bool(a.get("keepdims", 1)), place)
    return Tensor(INT64, found.shape, found.at)


@operator("ArgMin")
def _argmin(inputs: list[Any], a: Attributes) -> Tensor:
    found: Tensor = _argmax(inputs, a, min)
    return found


# ---- products


def product(x: Tensor, y: Tensor) -> Tensor:
    """MatMul."""
    if x.rank == 1:
        row = reshaped(x, (1, *x.shape))
        return _without(product(row, y), -2 if y.rank > 1 else -1)
    if y.rank == 1:
        return _without(product(x, reshaped(y, (*y.shape, 1))), -1)
    if x.shape[-1] != y.shape[-2]:
        raise Unknown("sizes of a product that differ")
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    count = x.shape[-1]

    def compute(at: Places) -> np.ndarray:
        inner = np.arange(count)
        wide = [np.repeat(k[:, None], count, 1) for k in at]
        along = np.broadcast_to(inner, (len(at[0]), count))
        left = x.at(aligned([*wide[:-1], along], x))
        right = y.at(aligned([*wide[:-2], along, wide[-1]], y))
        rows = zip(left, right, strict=True)
        return objects([dot(x.kind, a, b) for a, b in rows])

    return Tensor(x.kind, (*batch, x.shape[-2], y.shape[-1]), compute)


def dot(kind: Kind, a: Any, b: Any) -> Any:
    """The sum of products of elements."""
    if kind.name == "float":
        return mp.fdot(zip(a, b, strict=True))
    return sum(p * q for p, q in zip(a, b, strict=True))


def _without(x: Tensor, axis: int) -> Tensor:
    shape = list(x.shape)
    del shape[axis]
    return reshaped(x, shape)


@operator("MatMul")
def _matmul(inputs: list[Any], a: Attributes) -> Tensor:
    return product(*inputs)


def turned(x: Tensor) -> Tensor:
    """The last two axes swapped."""
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    found: list[Tensor] = OPERATORS["Transpose"]([x], {"perm": perm})
    return found[0]


def scaled(x: Tensor, by: float) -> Tensor:
    """A multiple."""
    number = mp.mpf(by) if x.kind.name == "float" else int(by)
    return pointwise(lambda a: a * number, [x], x.kind)


def added(x: Tensor, y: Tensor) -> Tensor:
    """The sum of tensors that broadcast."""
    return pointwise(lambda a, b: a + b, [x, y], x.kind)


@operator("Gemm")
def _gemm(inputs: list[Any], a: Attributes) -> Tensor:
    x, w = inputs[:2]
    x = turned(x) if a.get("transA") else x
    w = turned(w) if a.get("transB") else w
    found = scaled(product(x, w), a.get("alpha", 1.0))
    bias = given(inputs, 2)
    return found if bias is None else added(found, scaled(bias, a.get("beta", 1.0)))


@operator("Einsum")
def _einsum(inputs: list[Any], a: Attributes) -> Tensor:
    text = "".join(a["equation"].split())
    terms, arrow, result = text.partition("->")
    if not arrow or "." in text:
        raise Unknown(f"Einsum {text}")
    parts = terms.split(",")
    sizes: dict[str, int] = {}
    for part, x in zip(parts, inputs, strict=True):
        for c, size in zip(part, x.shape, strict=True):  # one of 1 is broadcast
            sizes[c] = size if sizes.get(c, 1) == 1 else sizes[c]
    inner = [c for c in sizes if c not in result]
    lengths = [sizes[c] for c in inner]
    count = int(np.prod(lengths, dtype=object))
    steps = np.unravel_index(np.arange(count), lengths) if inner else ()

    def compute(at: Places) -> np.ndarray:
        n = len(at[0]) if at else 1
        wide = {
            c: np.broadcast_to(k[:, None], (n, count))
            for c, k in zip(result, at, strict=True)
        }
        wide |= {
            c: np.broadcast_to(k, (n, count)) for c, k in zip(inner, steps, strict=True)
        }
        factors = [
            x.at(
                [wide[c] * (m != 1) for c, m in zip(part, x.shape, strict=True)],
                (n, count),
            )
            for part, x in zip(parts, inputs, strict=True)
        ]
        rows = zip(*factors, strict=True)
        return objects([sum(prod(xs) for xs in zip(*row, strict=True)) for row in rows])

    return Tensor(inputs[0].kind, [sizes[c] for c in result], compute)
