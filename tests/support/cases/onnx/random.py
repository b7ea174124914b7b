"""Cases of analysis/ops/onnx/random.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from support.operator_cases import case, cases, f16, f32, f64

_SHAPE: dict[str, Any] = {"shape": [2, 3]}
_FIXED: dict[str, dict[str, Any]] = {
    "RandomNormal": {"mean": 1.5, "scale": 0.0},
    "RandomUniform": {"low": 0.3, "high": 0.3},
}
for _name, _fixed in _FIXED.items():
    cases(
        _name,
        case(**_SHAPE, **_fixed),
        case(**_SHAPE, **_fixed, seed=3.0),
        case(**_SHAPE, **_fixed, dtype=ir.DataType.DOUBLE.value),
    )
    cases(
        f"{_name}Like",
        case([2, 3], **_fixed),
        case([2, 3], **_fixed, seed=0.5),
        case(f64([1, 2]), **_fixed),
        case([2], **_fixed, dtype=ir.DataType.DOUBLE.value),
        case([2], **_fixed, seed=1.0, dtype=ir.DataType.DOUBLE.value),
    )


_SURE = [[0, 1, 1], [1, 0, 0]]
cases(
    "Bernoulli",
    case(f32(_SURE)),
    case(f64(_SURE), seed=2.0),
    case(f16(_SURE)),
    case(f32(_SURE), dtype=ir.DataType.INT32.value),
    case(f32(_SURE), dtype=ir.DataType.BOOL.value, seed=7.0),
)

_ONE_CLASS = f32([[-900, 0, -900], [0, -900, -900]])
cases(
    "Multinomial",
    case(_ONE_CLASS),
    case(_ONE_CLASS, sample_size=4, seed=3.0),
    case(_ONE_CLASS, sample_size=4, dtype=ir.DataType.INT64.value),
)

_YES, _NO = np.array(True), np.array(False)
cases(
    "Dropout",
    case([2, 3]),
    case([2, 3], f32(0.3)),
    case([2, 3], f32(0.3), _NO, constants=(2,), outputs=2),
    case([2, 3], outputs=2),
    case([2, 3], f32(0), _YES, constants=(1, 2)),
    case([2, 3], f32(0), _YES, constants=(1, 2), seed=7),
    case([2, 3], f32(0), _YES, outputs=2),
    case([2, 3], f32(0.3), _NO, outputs=2, seed=7),
    case(f16([2, 3]), f32(0), _YES, outputs=2),
)
