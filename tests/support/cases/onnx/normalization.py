"""Cases of analysis/ops/onnx/normalization.py."""

from __future__ import annotations

from functools import partial

import numpy as np
from support.operator_cases import case, cases

_float16 = partial(np.array, dtype=np.float16)
_FOUR = ([3], [3], [3], np.array([0.5, 2, 1], np.float32))
_HALVES = tuple(np.array([0.5, 2, 1], np.float16) for _ in range(4))
_DOUBLES = tuple(np.array([0.5, 2, 1]) for _ in range(4))
cases(
    "BatchNormalization",
    case([2, 3, 4, 5], *_FOUR),
    case([2, 3, 4, 5], *_FOUR, constants=(1, 2, 3, 4), epsilon=1e-3),
    case([2, 3], *_FOUR, constants=(1, 2, 3, 4)),
    case([2, 3, 4], *_FOUR, constants=(1, 2, 3, 4)),
    case([2, 3, 2, 2, 2], *_FOUR, constants=(1, 2, 3, 4)),
    case([2, 3, 1, 2, 1, 2], *_FOUR, constants=(1, 2, 3, 4)),
    case([2, 3, 4], *_FOUR, training_mode=1, momentum=0.8, outputs=3),
    case(np.ones((2, 3, 2), np.float16), *_HALVES, constants=(1, 2, 3, 4)),
    case(np.ones((2, 3, 2)), *_DOUBLES, constants=(1, 2, 3, 4)),
)

cases(
    "LayerNormalization",
    case([2, 3, 4], [4], [4]),
    case([2, 3, 4], [4], [4], constants=(1, 2)),
    case([2, 3, 4], [4], constants=(1,), epsilon=1e-12),
    case([2, 3, 4], [3, 4], [3, 4], constants=(1, 2), axis=1),
    case([2, 3, 4], [2, 3, 4], axis=0),
    case([2, 3, 4], [1], [4], constants=(1, 2)),
    case([2, 3, 4], [4], [1], constants=(1, 2)),
    case([2, 3, 4], [3, 1], [4], axis=-2),
    case([2, 3, 4], [4], [4], outputs=3),
    case([2, 3, 4], [3, 4], axis=1, outputs=3),
    case(np.arange(6.0).reshape(2, 3), np.ones(3), constants=(1,)),
    case(_float16([[1, 2, 4]]), _float16([3, 2, 1]), constants=(1,)),
)

cases(
    "RMSNormalization",
    case([2, 3, 4], [4]),
    case([2, 3, 4], [4], constants=(1,), epsilon=1e-6),
    case([2, 3, 4], [3, 4], constants=(1,), axis=1),
    case([2, 3, 4], [1], constants=(1,)),
    case(np.arange(6.0).reshape(2, 3), np.ones(3), constants=(1,)),
    case(_float16([[1, 2, 4]]), _float16([3, 2, 1]), constants=(1,)),
)

_H = _float16([0.5, 2])
cases(
    "GroupNormalization",
    case([2, 4, 3, 3], [4], [4], num_groups=2),
    case([2, 4, 3], [4], [4], constants=(1, 2), num_groups=4, epsilon=1e-3),
    case([2, 4], [4], [4], constants=(1, 2), num_groups=1),
    case([1, 4], [4], [4], num_groups=4),  # means of one element, as the next too
    case([1, 2, 1], [2], [2], constants=(1, 2), num_groups=2),
    case(_float16([[[1, 2], [4, 3]]]), _H, _H, constants=(1, 2), num_groups=1),
)

cases(
    "InstanceNormalization",
    case([2, 3, 4], [3], [3]),
    case([2, 3, 4], [3], [3], constants=(1, 2), epsilon=1e-3),
    case([2, 3, 4, 2], [3], [3], constants=(1, 2)),
    case([2, 3, 4, 2, 2], [3], [3], constants=(1, 2)),
    case([2, 3, 1], [3], [3], epsilon=1.0),
    case([2, 3, 1, 1], [3], [3], constants=(1, 2), epsilon=1.0),
)

cases(
    "LpNormalization",
    case([2, 3, 4]),
    case([2, 3, 4], axis=1, p=1),
    case([2, 3, 4], axis=0, p=2),
    case(np.array([[0, 0], [3, 4], [0, 1e-30]], np.float32)),
    case(np.array([[0, 0.0], [3, 4]])),
)

cases(
    "LRN",
    case([2, 5, 3, 3], size=3),
    case([2, 5, 3, 3], size=7, alpha=0.1, beta=0.5, bias=2.0),
    # onnx's evaluator runs over as many channels as the batch is large
    case([5, 5, 2, 2], size=4, alpha=0.5),
    case(np.ones((1, 3, 2, 2), np.float16), size=3),
)

cases(
    "MeanVarianceNormalization",
    case([2, 3, 4, 5]),
    case([2, 3, 4], axes=[1]),
    case([2, 3], axes=[0, 1]),
    case([2, 3], axes=[-1, 1]),
    case([4]),
    case([2, 3, 4]),
    case(np.array([[1e-9, 3e-9, -1e-9], [2e-9, 5e-9, 0]], np.float32), axes=[1]),
)
