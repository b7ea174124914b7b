"""Cases of analysis/ops/onnx/recurrent.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases


def _shapes(kind: str, directions: int = 1, hidden: int = 4, width: int = 3) -> Any:
    """Input, weights and biases of a case: 5 steps of a batch of 2."""
    rows = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * hidden
    return (
        [5, 2, width],
        [directions, rows, width],
        [directions, rows, hidden],
        [directions, 2 * rows],
    )


def _cases(kind: str) -> list[Any]:
    own: dict[str, Any] = {"hidden_size": 4}
    if kind == "GRU":
        own["linear_before_reset"] = 1
    count = 3 if kind == "LSTM" else 2
    x, w, r, b = _shapes(kind)
    both, two = _shapes(kind, 2), {**own, "direction": "bidirectional"}
    back, lengths = {**own, "direction": "reverse"}, np.array([3, 5], np.int32)
    full, const = np.array([5, 5], np.int32), (1, 2, 3)
    h: list[Any] = [[1, 2, 4]] * (count - 1)
    return [
        case(x, w, r, b, constants=const, **own),
        case(x, w, r, b, constants=const, outputs=count, **own),
        case(x, w, r, constants=(1, 2), outputs=count, **own),
        case(x, w, r, b, full, *h, constants=(1, 2, 3, 4), outputs=count, **own),
        case(x, w, r, b, None, h[0], constants=const, outputs=2, **own),
        case(x, w, r, b, constants=const, outputs=count, **back),
        case(x, w, r, b, constants=const, **back),
        case(*both, constants=const, outputs=count, **two),
        case(*both, constants=const, **two),
        case(x, w, r, b, outputs=count, **own),
        case(*both, lengths, constants=const, outputs=count, **two),
        case(x, w, r, b, lengths, *h, outputs=count, **back),
        case(x, w, r, b, outputs=count, clip=0.3, **own),
        case([2, 5, 3], w, r, b, constants=const, layout=1, **own),
        case([2, 5, 3], w, r, b, constants=const, layout=1, outputs=count, **own),
        case([2, 5, 3], *both[1:], constants=const, layout=1, **two),
    ]


_VALUED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("Affine", "ScaledTanh", "ThresholdedRelu")),
    ("Affine", {"activation_alpha": [0.5], "activation_beta": [0.25]}),
    ("Elu", {"activation_alpha": [0.5]}),
    ("HardSigmoid", {}),
    ("HardSigmoid", {"activation_alpha": [0.3]}),
    ("LeakyRelu", {}),
    ("LeakyRelu", {"activation_alpha": [0.1]}),
    ("ScaledTanh", {"activation_alpha": [1.5], "activation_beta": [0.5]}),
    ("ThresholdedRelu", {"activation_alpha": [0.5]}),
]
_LSTM, _GRU, _RNN = _shapes("LSTM"), _shapes("GRU"), _shapes("RNN")
cases(
    "LSTM",
    *_cases("LSTM"),
    case(*_LSTM, None, [1, 2, 4], [1, 2, 4], [1, 12], hidden_size=4, outputs=3),
    case(*_LSTM, hidden_size=4, input_forget=1, outputs=3),
    case(
        *_LSTM,
        hidden_size=4,
        activations=["HardSigmoid", "LeakyRelu", "Elu"],
        activation_alpha=[0.3, 0.1],
        activation_beta=[0.4],
        outputs=3,
    ),
    case(
        *_LSTM,
        hidden_size=4,
        activations=["Softsign", "Relu", "Tanh"],
        outputs=3,
    ),
)

cases(
    "GRU",
    *_cases("GRU"),
    case(*_GRU, hidden_size=4, outputs=2),
    case(*_GRU, None, [1, 2, 4], hidden_size=4, outputs=2, clip=0.2),
    case(*_GRU, hidden_size=4, activations=["Tanh", "Softplus"], outputs=2),
)

cases(
    "RNN",
    *_cases("RNN"),
    case(*_RNN, constants=(1, 2, 3), hidden_size=4, activations=["Relu"]),
    *(
        case(*_RNN, hidden_size=4, activations=[name], outputs=2, **numbers)
        for name, numbers in _VALUED
    ),
    case(*_RNN, hidden_size=4, activations=["Sigmoid"], outputs=2),
)
