"""Cases of analysis/ops/onnx/signal.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from support.operator_cases import case, cases, f32, f64, i32, i64

_DOUBLE = case(i64(10), constants=(0,), output_datatype=ir.DataType.DOUBLE.value)
for _name in ("BlackmanWindow", "HannWindow", "HammingWindow"):
    cases(
        _name,
        case(i64(10), constants=(0,)),
        case(i32(10), constants=(0,), periodic=0),
        case(i64(7), periodic=1),
        case(i64(9), output_datatype=ir.DataType.FLOAT16.value),
        *([_DOUBLE] if _name != "BlackmanWindow" else []),
    )


_AXIS: dict[str, Any] = {"constants": (2,)}
_HALF = np.linspace(-1, 1, 16).reshape(2, 8, 1)
_MEL = (i64(8), i64(32), i64(8192), f32(0), f32(4096))
cases(
    "DFT",
    case([1, 10, 10, 1]),
    case([1, 10, 8, 1], None, i64(1), **_AXIS),
    case([1, 10, 8, 2], None, i64(1), **_AXIS),
    case([1, 10, 8, 2], None, i64(-3), inverse=1, **_AXIS),
    case([1, 10, 8, 1], None, i64(1), onesided=1, **_AXIS),
    case([2, 5, 1], None, i64(1), inverse=1, **_AXIS),
    case([2, 5, 2], None, i64(1), inverse=1, onesided=1, **_AXIS),
    case([2, 5, 2], i64(9), i64(1), inverse=1, onesided=1, **_AXIS),
    case([2, 10, 1], i64(16), i64(1), constants=(1, 2)),
    case([2, 10, 1], i64(4), i64(1), onesided=1, **_AXIS),
    case([1, 10, 8, 2], None, i64(-3)),
    case(f64(_HALF)),
)

cases(
    "STFT",
    case([2, 32, 1], i64(8), None, i64(16), constants=(1, 3)),
    case([2, 32, 1], i64(8), [16], i64(16), constants=(1, 3)),
    case([2, 32, 1], i64(5), [16], constants=(1, 2)),
    case([1, 32, 1], i64(8), None, i64(16), onesided=0),
    case([1, 32, 2], i64(8), [16], constants=(1,), onesided=0),
)

cases(
    "MelWeightMatrix",
    case(*_MEL, constants=(0, 1, 2, 3, 4)),
    case(*_MEL),
    case(i64(20), i64(64), i64(16000), f32(20), f32(7600)),
    case(*_MEL, output_datatype=ir.DataType.FLOAT16.value),
)
