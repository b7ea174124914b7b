"""Cases of analysis/ops/training/optimizers.py."""

from __future__ import annotations

from typing import Any

from support.operator_cases import case, cases, f32, i64

DOMAIN = "ai.onnx.preview.training"
_ONE = (f32(0.1), i64(0), f32([1.2, 2.8]), f32([-0.94, -2.5]), f32([1.7, 3.6]))
_TWO = (
    *(f32(0.1), i64(3), f32([1.2]), f32([0.5, 2])),
    *(f32([-0.9]), f32([1, 3]), f32([2]), f32([4, 1])),
)
_STEEP: dict[str, Any] = {"norm_coefficient": 0.001, "alpha": 0.95, "beta": 0.85}
cases(
    "Adagrad",
    case(*_ONE, outputs=2),
    case(*_TWO, outputs=4, norm_coefficient=0.001, decay_factor=0.1),
    domain=DOMAIN,
)

cases(
    "Momentum",
    case(*_ONE, outputs=2, mode="standard", **_STEEP),
    case(*_TWO, outputs=4, mode="standard", **_STEEP),
    case(*_TWO, outputs=4, mode="nesterov", **_STEEP),
    domain=DOMAIN,
)

cases(
    "Adam",
    case(*_ONE, f32([0.4, 0.6]), outputs=3),
    case(*_TWO, f32([1]), f32([2, 3]), outputs=6, **_STEEP),
    case(*_TWO, f32([1]), f32([2, 3]), outputs=6, norm_coefficient_post=0.1),
    domain=DOMAIN,
)
