"""Cases of analysis/ops/contrib/stateful.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.operator_cases import case, cases

from fairhand.analysis.ops.registry import DOMAIN


def _numbers(directions: int, channels: int | None, signed: bool) -> tuple[Any, ...]:
    """Scales and zero points of both weights."""
    shape = (directions,) if channels is None else (directions, channels)
    scale = np.linspace(0.01, 0.03, int(np.prod(shape)), dtype=np.float32)
    zero = np.zeros(shape, np.int8) if signed else np.full(shape, 130, np.uint8)
    return (scale.reshape(shape), zero) * 2


def _quantized_case(
    directions: int = 1,
    channels: int | None = None,
    signed: bool = True,
    more: tuple[Any, ...] = (None, None, None, None),
    bias: bool = True,
    outputs: int = 3,
    **attrs: Any,
) -> Any:
    random = np.random.default_rng(5)
    low, dtype = (-128, np.int8) if signed else (0, np.uint8)
    w, r = (
        random.integers(low, low + 256, (directions, rows, 16)).astype(dtype)
        for rows in (3, 4)
    )
    b = [directions, 32] if bias else None
    numbers = _numbers(directions, channels, signed)
    known = (1, 2, 8, 9, 10, 11)
    return case(
        [5, 2, 3],
        *(w, r, b, *more),
        *numbers,
        constants=known,
        outputs=outputs,
        hidden_size=4,
        **attrs,
    )


_LENGTHS, _SHORT = np.array([3, 5], np.int32), np.array([4, 2], np.int32)
cases(
    "DynamicQuantizeLSTM",
    _quantized_case(),
    _quantized_case(outputs=1, bias=False),
    _quantized_case(channels=16),
    _quantized_case(channels=16, signed=False),
    _quantized_case(signed=False),
    _quantized_case(direction="reverse", more=(_LENGTHS, None, None, None)),
    _quantized_case(more=(_SHORT, None, None, None)),
    _quantized_case(2, 16, direction="bidirectional"),
    _quantized_case(2, direction="bidirectional", more=(_SHORT, None, None, None)),
    _quantized_case(more=(None, [1, 2, 4], [1, 2, 4], [1, 12])),
    _quantized_case(clip=0.3, input_forget=1),
    _quantized_case(
        activations=["HardSigmoid", "LeakyRelu", "Tanh"],
        activation_alpha=[0.3, 0.1],
        activation_beta=[0.4],
    ),
    domain=DOMAIN,
)
