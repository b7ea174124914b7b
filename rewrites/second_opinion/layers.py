"""Convolutions, pooling, normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .elementwise import root
from .movements import per_axis, within
from .operators import Attributes, apply, given, operator, pointwise
from .places import FLOAT, Places, Tensor, Unknown, mp, objects
from .sums import added, dot, extreme, mean, quotient, reduced


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


# ---- normalisations


@operator("InstanceNormalization")
def _instance_norm(inputs: list[Any], a: Attributes) -> list[Tensor]:
    groups = {"num_groups": inputs[0].shape[1]}  # of one channel each
    return apply("GroupNormalization", inputs, a | groups, 1)


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
