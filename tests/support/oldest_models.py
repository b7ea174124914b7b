"""Models in the first opsets, and what they compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from support.adapter_cases import Case, normal

X = normal(2, 3, 4)


POSITIVE = np.abs(X) + 0.5


CHANNEL = normal(3)


IMAGE = normal(1, 2, 3, 4)


BN = (normal(2), normal(2), normal(2), np.abs(normal(2)) + 0.5)


TRUE, MASK = X > 0, CHANNEL > 0


IN_PLACE = {"consumed_inputs": [0, 1]}


ALIGNED = {"broadcast": 1, "axis": 1}


Expected = Callable[..., np.ndarray]


def per_channel(function: Expected) -> Expected:
    return lambda x, y: function(x, y[:, None])


def shifted(x: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
    scale, bias, mean, var = (p[:, None, None] for p in parameters)
    return (x - mean) / np.sqrt(var + np.float32(1e-5)) * scale + bias


def unit(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    mean, var = (f(x, (2, 3), keepdims=True) for f in (np.mean, np.var))
    return (x - mean) / np.sqrt(var + np.float32(1e-5)) * scale[0] + bias[0]


def recurrent(gates: int) -> tuple[np.ndarray, ...]:
    """Zero weights: the state stays zero."""
    weights = [np.zeros((1, gates * 5, size), np.float32) for size in (4, 5)]
    return (normal(3, 2, 4), *weights)


UNARY: dict[str, Expected] = {
    "Abs": np.abs,
    "Ceil": np.ceil,
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Exp": np.exp,
    "Floor": np.floor,
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "Max": lambda x: x,
    "Mean": lambda x: x,
    "Min": lambda x: x,
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Selu": lambda x: 1.0507 * np.where(x > 0, x, 1.6732 * np.expm1(x)),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sum": lambda x: x,
    "Tanh": np.tanh,
}


ROOTS: dict[str, Expected] = {"Log": np.log, "Reciprocal": np.reciprocal}


ROOTS["Sqrt"] = np.sqrt


BINARY: dict[str, Expected] = {
    "Add": np.add,
    "Div": np.divide,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
    "Mul": np.multiply,
    "Sub": np.subtract,
}


LOGIC: dict[str, Expected] = {"And": np.logical_and, "Or": np.logical_or}


LOGIC["Xor"] = np.logical_xor


WHOLE = np.rint(3 * X).astype(np.int32)


CASES: list[tuple[Case, Expected]] = [
    *((Case(op, 1, (X,), IN_PLACE), f) for op, f in UNARY.items()),
    *((Case(op, 1, (POSITIVE,), IN_PLACE), f) for op, f in ROOTS.items()),
    *(
        (Case(op, 6, (data, other), ALIGNED), per_channel(f))
        for op, f in BINARY.items()
        for data, other in [(WHOLE, WHOLE[0, :, 0]) if op == "Equal" else (X, CHANNEL)]
    ),
    *((Case(op, 1, (TRUE, MASK), ALIGNED), per_channel(f)) for op, f in LOGIC.items()),
    (Case("Pow", 1, (POSITIVE, CHANNEL), ALIGNED), per_channel(np.power)),
    (Case("Add", 1, (X, X[0, 0]), {**IN_PLACE, "broadcast": 1}), np.add),
    (
        Case("Add", 6, (X, X[0, :, 0]), {"broadcast": 1, "axis": -2}),
        per_channel(np.add),
    ),
    (Case("Sub", 6, (X, X)), np.subtract),
    (
        Case("PRelu", 6, (X, CHANNEL)),
        lambda x, slope: np.where(x > 0, x, x * slope[:, None]),
    ),
    (Case("PRelu", 1, (X, X[0, 0, :1])), lambda x, s: np.where(x > 0, x, x * s)),
    (
        Case("Gemm", 6, (X[0], X[1].T.copy(), CHANNEL), {"broadcast": 1}),
        lambda a, b, c: a @ b + c,
    ),
    (Case("InstanceNormalization", 1, (IMAGE[:, :1], BN[0][:1], BN[1][:1])), unit),
    (Case("BatchNormalization", 6, (IMAGE, *BN), {"is_test": 1}), shifted),
    (
        Case(
            "BatchNormalization",
            1,
            (IMAGE, *BN),
            {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]},
        ),
        shifted,
    ),
    (Case("Dropout", 6, (X,), {"is_test": 1, "ratio": 0.3}), lambda x: x),
    (Case("Cast", 1, (X,), {"to": "INT32"}), lambda x: x.astype(np.int32)),
    (
        Case("Clip", 1, (X,), {**IN_PLACE, "min": -0.5, "max": 0.5}),
        lambda x: np.clip(x, -0.5, 0.5),
    ),
    (Case("Concat", 1, (X, X)), lambda x, y: np.concatenate([x, y], 1)),
    *(
        (
            Case(op, 6, recurrent(gates), {"hidden_size": 5, "output_sequence": 1}),
            lambda x, w, r: np.zeros((3, 1, 2, 5), np.float32),
        )
        for op, gates in (("GRU", 3), ("LSTM", 4), ("RNN", 1))
    ),
    (
        Case("GlobalLpPool", 1, (IMAGE,), {"p": 2.0}),
        lambda x: np.sqrt((x**2).sum((2, 3), keepdims=True)),
    ),
    (
        Case("LpPool", 1, (IMAGE,), {"p": 1.0, "kernel_shape": [3, 4]}),
        lambda x: np.abs(x).sum((2, 3), keepdims=True),
    ),
    (
        Case("Pad", 1, (X,), {"paddings": [0, 1, 0, 0, 0, 2], "value": 1.5}),
        lambda x: np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=1.5),
    ),
    (Case("Reshape", 1, (X,), {"shape": [6, -1]}), lambda x: x.reshape(6, 4)),
    (Case("Split", 1, (X,), {"axis": 2, "split": [1, 3]}, 2), lambda x: x[..., :1]),
    (
        Case("Tile", 1, (X, np.float32(2), np.float32(1)), constant=(1, 2)),
        lambda x, *_: np.tile(x, (1, 2, 1)),
    ),
    (
        Case("Upsample", 1, (IMAGE,), {"height_scale": 2.0, "width_scale": 3.0}),
        lambda x: x.repeat(2, axis=2).repeat(3, axis=3),
    ),
]


REFUSED: list[tuple[Case, str]] = [
    (Case("Dropout", 6, (X,)), "Dropout: training mode is not supported before"),
    (Case("Cast", 1, (X,), {"to": "DATE"}), "Cast: its type has no known name"),
    (Case("LpPool", 1, (IMAGE,), {"p": 1.5, "kernel_shape": [3, 4]}), "order 1.5"),
    (Case("Split", 1, (X, X[0, 0, :2])), "Split: sizes given as an input"),
    (Case("Tile", 1, (X, np.float32(2), np.float32(1))), "must be constants"),
    (Case("Add", 6, (X, CHANNEL), ALIGNED, rankless=True), "must be known before"),
]
