"""Cases of analysis/ops/contrib/speech.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases, f32, i64

from fairhand.analysis.ops.registry import (
    DOMAIN,
)

cases(
    "UnfoldTensor",
    case([2, 8], size=3),
    case([2, 8, 3], dim=1, size=4, step=2),
    case(i64(range(24)).reshape(6, 4), dim=0, size=2, step=3),
    domain=DOMAIN,
)

cases(
    "DynamicTimeWarping",
    case([5, 8]),
    case([1, 9, 4]),
    case([1, 1]),
    case(np.zeros((3, 4), np.float32)),
    case(f32([[1, 2, 1], [2, 1, 2], [2, 2, 1]])),
    domain=DOMAIN,
)

for _name in ("ComplexMul", "ComplexMulConj"):
    cases(_name, case([2, 3, 2], [2, 3, 2]), case([2, 3, 2], [3, 2]), domain=DOMAIN)
