"""Cases of analysis/ops/onnx/activations.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import (
    FLOATS,
    INTS,
    Case,
    case,
    cases,
    f16,
    f32,
    f64,
    i32,
    i64,
    spread,
    u32,
)

_GRID = np.linspace(-6, 6, 24, dtype=np.float32).reshape(2, 3, 4)


def _with(**attrs: Any) -> list[Case]:
    """The grid in float32 and float64 with these attributes."""
    return [case(_GRID, **attrs), case(_GRID.astype(np.float64), **attrs)]


# Without a float64 case: no ONNX Runtime kernel, and onnx's own evaluator computes the
# constants of the function's body, or all of it, in float32.
for _name in ("Sigmoid", "Tanh", "Mish", "Softsign"):
    cases(_name, *spread(-8, 8, *FLOATS))
cases("HardSwish", *spread(-8, 8, "float16"))


cases("Relu", *spread(-3, 3, *FLOATS, *INTS))

cases("Softplus", *spread(-30, 30, *FLOATS))

cases("Gelu", *spread(-4, 4, "float16"), case(_GRID, approximate="tanh"))

for _name, _attrs in (
    ("Elu", [{"alpha": 0.3}, {"alpha": 2.0}]),
    ("LeakyRelu", [{"alpha": 0.2}, {"alpha": 0.0}, {"alpha": 2.0}]),
    ("Selu", [{"alpha": 0.3, "gamma": 2.0}, {"gamma": 0.3}]),
    ("HardSigmoid", [{"alpha": 1 / 6}, {"alpha": 0.3, "beta": 0.1}, {"alpha": 1.0}]),
    ("Swish", [{"alpha": 0.3}, {"alpha": 1.702}]),
    ("ThresholdedRelu", [{"alpha": 0.3}, {"alpha": 2.0}]),
):
    cases(
        _name,
        *spread(-6, 6, *FLOATS),
        *[made for attrs in _attrs for made in _with(**attrs)],
    )
cases("ThresholdedRelu", case(np.array([np.nan, 2, 1], np.float32)))


cases("Celu", *spread(-6, 6), *_with(alpha=0.3), *_with(alpha=2.0))

cases(
    "Shrink",
    *spread(-4, 4, "float16", *INTS),
    case(_GRID, lambd=1.5),
    case(_GRID, bias=0.5),
    case(_GRID, lambd=1.5, bias=1.5),
    case(_GRID, lambd=1.5, bias=0.7),
    case(np.arange(-4, 5, dtype=np.int32), lambd=1.5, bias=0.7),
    case(np.arange(0, 5, dtype=np.uint8), lambd=1.5, bias=1.0),
)


def _bounds(low: Any, high: Any, dtype: str, constants: tuple[int, ...]) -> Case:
    grid = np.arange(0, 12) if dtype.startswith("u") else np.arange(-6, 7)
    low, high = (None if b is None else np.array(b, dtype) for b in (low, high))
    return case(grid.astype(dtype), low, high, constants=constants)


cases(
    "Clip",
    *[
        _bounds(low, high, "float32", constants)
        for low, high in ((0, 6), (0, None), (None, 1.5), (-0.1, 2), (2, -2))
        for constants in ((), (1,), (2,), (1, 2))
        if not (low is None and 1 in constants)
        and not (high is None and 2 in constants)
    ],
    case(_GRID),
    case(f32([np.nan, np.inf, -np.inf]), f32(-1), f32(1)),
    *[
        _bounds(1, 4, dtype, constants)
        for dtype in (*FLOATS, *INTS, "uint8", "uint32", "uint64")
        for constants in ((), (1, 2))
    ],
)

cases(
    "SwiGLU",
    case([2, 3], [2, 3]),
    case([2, 3], [2, 3], alpha=1.702),
    case(f16([-1, 0.5, 3]), f16([2, 3, -1])),
)

_CHANNELS = f32([0.1, 0.2, 0.3])
cases(
    "PRelu",
    case([2, 3, 4], [2, 3, 4]),
    case([2, 3, 4], [4]),
    case([2, 3, 4], f32(0.25)),
    case([2, 3, 4], f32([0.25]), constants=(1,)),
    case([2, 3, 4, 4], _CHANNELS.reshape(3, 1, 1), constants=(1,)),
    case([2, 3], _CHANNELS, constants=(1,)),
    case([2, 4, 3], _CHANNELS, constants=(1,)),
    case([3], _CHANNELS, constants=(1,)),
    case([], f32(0.25), constants=(1,)),
    case(f64([[-1, 2, -3]]), f64([0.5]), constants=(1,)),
    case(f16([[-1, 2, -3]]), f16([0.5]), constants=(1,)),
    case(i32([-4, 2]), i32([3])),
    case(i64([-4, 2]), i64([3]), constants=(1,)),
    case(u32([4, 2]), u32([3])),
)

for _name in ("Softmax", "LogSoftmax", "Hardmax"):
    cases(
        _name,
        case([2, 3, 4]),
        *[case([2, 3, 4], axis=axis) for axis in (0, 1, 2, -2)],
        case(f32([[1, 3, 3, 2], [1e5, -1e5, 0, 1e5]])),
        case(_GRID.astype(np.float64)),
        case(_GRID.astype(np.float16)),
        case([0, 3]),
    )
