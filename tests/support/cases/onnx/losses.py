"""Cases of analysis/ops/onnx/losses.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import Case, case, cases, f16, f32, f64, i32, i64


def _cases(outputs: int) -> list[Case]:
    labels, places = i64([2, 0, 4]), i64([[[0, 4], [2, 1]], [[3, 3], [1, 0]]])
    ignoring = i64([2, -1, 4])
    weight = f32([0.9, 0.7, 0.8, 0.9, 0.2])
    scores = np.linspace(-2, 2, 15).reshape(3, 5)
    return [
        *[case([3, 5], labels, reduction=r) for r in ("none", "sum", "mean")],
        case([3, 5], labels, weight, outputs=outputs),
        case([3, 5], i32([2, 0, 4]), outputs=outputs),
        case([3, 5], ignoring, ignore_index=-1),
        case([3, 5], ignoring, weight, ignore_index=-1, reduction="none"),
        case([3, 5], i64([2, 7, 4]), ignore_index=7, reduction="sum"),
        case([2, 5, 2, 2], places, outputs=outputs),
        case([2, 5, 2, 2], places, weight, ignore_index=0, reduction="none"),
        case([2, 5, 2, 2], places, weight, constants=(2,), reduction="sum"),
        case(f64(scores), labels),
        case(f16(scores), labels),
    ]


cases("NegativeLogLikelihoodLoss", *_cases(1))

cases("SoftmaxCrossEntropyLoss", *_cases(2))
