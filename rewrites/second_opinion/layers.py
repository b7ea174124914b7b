"""Convolutions, pooling, normalisations, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .elementwise import root
from .movements import per_axis, reshaped, within
from .operators import Attributes, front, given, moved, operator, pointwise
from .places import BOOL, FLOAT, Places, Tensor, Unknown, mp, objects
from .sums import (
    added,
    dot,
    extreme,
    mean,
    product,
    quotient,
    reduced,
    scaled,
    softmax,
    turned,
)


@operator("Conv")
def _conv(inputs: list[Any], a: Attributes) -> Tensor:
    x, w, bias = inputs[0], inputs[1], given(inputs, 2)
    window = Window(x, w.shape[2:], a)
    group, own = a.get("group", 1), w.shape[1]
    each = w.shape[0] // group
    inner = (own, *w.shape[2:])
    steps = np.unravel_index(np.arange(int(np.prod(inner))), inner)

    def compute(at: Places) -> np.ndarray:
        found = []
        for row in zip(*at, strict=True):
            channel = steps[0] + int(row[1]) // each * own
            places = [np.full(len(channel), row[0]), channel]
            places += window.places(row[2:], steps[1:])
            elements = within(x, places, mp.mpf(0))
            weights = w.at([np.full(len(channel), row[1]), *steps])
            found.append(dot(x.kind, elements, weights))
        return objects(found)

    made = Tensor(x.kind, (x.shape[0], w.shape[0], *window.sizes), compute)
    return made if bias is None else added(made, per_axis(bias, 1, x.rank))


class Window:
    """Where the elements under a window stand, and how many windows there are."""

    def __init__(self, x: Tensor, kernel: Sequence[int], a: Attributes) -> None:
        n = len(kernel)
        self.stride = a.get("strides") or [1] * n
        self.dilation = a.get("dilations") or [1] * n
        if a.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or a.get("ceil_mode"):
            raise Unknown("windows whose number is rounded up")
        pads = a.get("pads") or [0] * (2 * n)
        self.low, high = pads[:n], pads[n:]
        self.sizes = [
            (s + p + q - d * (k - 1) - 1) // t + 1
            for s, p, q, k, d, t in zip(
                x.shape[2:],
                self.low,
                high,
                kernel,
                self.dilation,
                self.stride,
                strict=True,
            )
        ]

    def places(self, at: Sequence[Any], steps: Sequence[np.ndarray]) -> Places:
        """The places under the window at `at`, for steps inside the window."""
        return [
            int(k) * t - p + s * d
            for k, t, p, s, d in zip(
                at, self.stride, self.low, steps, self.dilation, strict=True
            )
        ]


@operator("MaxPool")
def _max_pool(inputs: list[Any], a: Attributes) -> Tensor:
    return _pool(inputs[0], a, lambda row: extreme(max, row), False)


@operator("AveragePool")
def _average_pool(inputs: list[Any], a: Attributes) -> Tensor:
    return _pool(inputs[0], a, lambda row: mean(FLOAT, row), True)


def _pool(x: Tensor, a: Attributes, f: Any, averages: bool) -> Tensor:
    kernel = a["kernel_shape"]
    window = Window(x, kernel, a)
    steps = np.unravel_index(np.arange(int(np.prod(kernel))), tuple(kernel))
    pads_count = averages and a.get("count_include_pad", 0)

    def compute(at: Places) -> np.ndarray:
        found = []
        for row in zip(*at, strict=True):
            places = [np.full(len(steps[0]), k) for k in row[:2]]
            places += window.places(row[2:], steps)
            elements = list(within(x, places, None))
            if pads_count:
                elements = [mp.mpf(0) if e is None else e for e in elements]
            found.append(f([e for e in elements if e is not None]))
        return objects(found)

    return Tensor(x.kind, (*x.shape[:2], *window.sizes), compute)


@operator("GlobalAveragePool")
def _global_average(inputs: list[Any], a: Attributes) -> Tensor:
    x = inputs[0]
    return reduced(x, set(range(2, x.rank)), True, lambda row: mean(FLOAT, row))


@operator("GlobalMaxPool")
def _global_max(inputs: list[Any], a: Attributes) -> Tensor:
    x = inputs[0]
    return reduced(x, set(range(2, x.rank)), True, lambda row: extreme(max, row))


# ---- normalisations and attention


def centred(x: Tensor, axes: set[int], epsilon: float, centre: bool = True) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) over axes."""

    def average(t: Tensor) -> Tensor:
        return reduced(t, axes, True, lambda row: mean(FLOAT, row))

    if centre:
        x = pointwise(lambda a, m: a - m, [x, average(x)], FLOAT)
    square = average(pointwise(lambda a: a * a, [x], FLOAT))
    small = mp.mpf(float(np.float32(epsilon)))
    return pointwise(lambda a, v: quotient(a, root(v + small)), [x, square], FLOAT)


def affine(x: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    """x * scale + bias."""
    if scale is not None:
        x = pointwise(lambda a, s: a * s, [x, scale], FLOAT)
    return x if bias is None else added(x, bias)


@operator("LayerNormalization")
def _layer_norm(inputs: list[Any], a: Attributes) -> Tensor:
    x = inputs[0]
    axes = set(range(front(a.get("axis", -1), x.rank), x.rank))
    found = centred(x, axes, a.get("epsilon", 1e-5))
    return affine(found, given(inputs, 1), given(inputs, 2))


@operator("RMSNormalization")
def _rms_norm(inputs: list[Any], a: Attributes) -> Tensor:
    x = inputs[0]
    axes = set(range(front(a.get("axis", -1), x.rank), x.rank))
    found = centred(x, axes, a.get("epsilon", 1e-5), centre=False)
    return affine(found, given(inputs, 1), None)


@operator("InstanceNormalization")
def _instance_norm(inputs: list[Any], a: Attributes) -> Tensor:
    x, scale, bias = inputs
    found = centred(x, set(range(2, x.rank)), a.get("epsilon", 1e-5))
    return affine(found, per_axis(scale, 1, x.rank), per_axis(bias, 1, x.rank))


@operator("GroupNormalization")
def _group_norm(inputs: list[Any], a: Attributes) -> Tensor:
    x, scale, bias = inputs
    groups = a["num_groups"]
    split = reshaped(x, (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:]))
    axes = set(range(2, split.rank))
    found = reshaped(centred(split, axes, a.get("epsilon", 1e-5)), x.shape)
    return affine(found, per_axis(scale, 1, x.rank), per_axis(bias, 1, x.rank))


@operator("BatchNormalization")
def _batch_norm(inputs: list[Any], a: Attributes) -> Tensor:
    if a.get("training_mode", 0):
        raise Unknown("BatchNormalization that takes means of its input")
    x, *rest = inputs
    scale, bias, mean, variance = (per_axis(t, 1, x.rank) for t in rest)
    small = mp.mpf(float(np.float32(a.get("epsilon", 1e-5))))

    def f(n: Any, s: Any, b: Any, m: Any, v: Any) -> Any:
        return quotient((n - m) * s, root(v + small)) + b

    return pointwise(f, [x, scale, bias, mean, variance], FLOAT)


@operator("Attention")
def _attention(inputs: list[Any], a: Attributes) -> Tensor:
    q, k, v, mask = *inputs[:3], given(inputs, 3)
    if any(x is not None for x in inputs[4:]) or a.get("softcap"):
        raise Unknown("Attention of this form")
    if q.rank != 4 and {a.get("q_num_heads"), a.get("kv_num_heads")} != {1}:
        raise Unknown("Attention of packed heads")
    heads = q.shape[1] // k.shape[1] if q.rank == 4 else 1
    if heads > 1:
        k, v = (
            moved(t, (t.shape[0], q.shape[1], *t.shape[2:]), _heads(heads))
            for t in (k, v)
        )
    scale = a.get("scale")
    if scale is None:
        scores = product(q, turned(k))
        size = root(mp.mpf(q.shape[-1]))
        scores = pointwise(lambda s: quotient(s, size), [scores], FLOAT)
    else:
        scores = scaled(product(q, turned(k)), float(np.float32(scale)))
    if mask is not None:
        if mask.kind == BOOL:
            raise Unknown("Attention with a mask of truth values")
        if q.rank < mask.rank == 4:
            mask = reshaped(mask, (mask.shape[0], *mask.shape[2:]))
        scores = added(scores, mask)
    if a.get("is_causal"):
        scores = Tensor(FLOAT, scores.shape, _causal(scores))
    weights = softmax(scores, q.rank - 1)
    return product(weights, v)


def _heads(group: int) -> Callable[[Places], Places]:
    return lambda at: [at[0], at[1] // group, *at[2:]]


def _causal(scores: Tensor) -> Callable[[Places], np.ndarray]:
    def compute(at: Places) -> np.ndarray:
        return np.where(at[-1] <= at[-2], scores.at(at), float("-inf"))

    return compute
