"""Cases of analysis/ops/onnx/pooling.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases

_BYTES = np.arange(-60, 60, 3).astype(np.int8).reshape(1, 2, 5, 4)[..., ::-1].copy()
cases(
    "MaxPool",
    case([1, 2, 8], kernel_shape=[2]),
    case([1, 2, 8, 7], kernel_shape=[2, 2], strides=[2, 2]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case([1, 2, 8, 7], kernel_shape=[3, 2], dilations=[2, 1], strides=[1, 2]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case([1, 2, 5, 6, 4], kernel_shape=[2, 3, 2], pads=[1, 1, 0, 1, 1, 0]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], pads=[2, 2, 2, 2]),
    case(
        [1, 2, 8, 7],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[0, 0, 1, 1],
        ceil_mode=1,
    ),
    case([1, 2, 8], kernel_shape=[3], strides=[3], pads=[1, 2], ceil_mode=1),
    case([1, 2, 8, 7], kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
    case([1, 2, 8, 7], kernel_shape=[2, 2], auto_pad="SAME_LOWER"),
    case(
        [1, 2, 8, 7],
        kernel_shape=[3, 3],
        strides=[2, 2],
        auto_pad="SAME_LOWER",
    ),
    case([1, 2, 8, 7], kernel_shape=[3, 3], auto_pad="VALID"),
    case(_BYTES, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    case(_BYTES.view(np.uint8), kernel_shape=[2, 2], pads=[0, 0, 1, 1]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], outputs=2),
    case([2, 3, 8], kernel_shape=[3], strides=[2], pads=[1, 1], outputs=2),
    case(
        [2, 3, 8, 7],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[0, 1, 1, 2],
        dilations=[2, 1],
        storage_order=1,
        outputs=2,
    ),
    case(
        [2, 2, 4, 5, 6],
        kernel_shape=[2, 2, 3],
        strides=[2, 2, 2],
        ceil_mode=1,
        storage_order=1,
        outputs=2,
    ),
    case(np.arange(8.0).reshape(1, 1, 8), kernel_shape=[3]),
    case(np.ones((1, 1, 4, 4), np.float16), kernel_shape=[3, 3]),
)

cases(
    "AveragePool",
    case([1, 2, 8], kernel_shape=[2]),
    case([1, 2, 8, 7], kernel_shape=[2, 2], strides=[2, 2]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    case(
        [1, 2, 8, 7],
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        count_include_pad=1,
    ),
    case([1, 2, 8, 7], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case([1, 2, 5, 6, 4], kernel_shape=[2, 3, 2], pads=[1, 1, 0, 1, 1, 0]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], pads=[0, 0, 1, 1]),
    case([1, 2, 8, 7], kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
    case(
        [1, 2, 8, 7],
        kernel_shape=[3, 3],
        strides=[2, 2],
        auto_pad="SAME_LOWER",
        count_include_pad=1,
    ),
    case(
        [1, 2, 8, 7],
        kernel_shape=[3, 3],
        strides=[2, 2],
        pads=[0, 0, 1, 1],
        count_include_pad=1,
        ceil_mode=1,
    ),
    case([1, 2, 8], kernel_shape=[3], strides=[3], pads=[1, 2], ceil_mode=1),
    case([1, 2, 8, 7], kernel_shape=[3, 2], dilations=[2, 1], strides=[1, 2]),
    case(
        [1, 2, 8, 7],
        kernel_shape=[3, 3],
        dilations=[2, 2],
        pads=[2, 1, 2, 1],
        strides=[2, 2],
        ceil_mode=1,
        count_include_pad=1,
    ),
    case([1, 2, 8, 7], kernel_shape=[3, 3], auto_pad="VALID"),
    case(np.arange(8.0).reshape(1, 1, 8), kernel_shape=[3]),
    case(np.ones((1, 1, 4, 4, 4), np.float16), kernel_shape=[3, 3, 2]),
)

cases(
    "LpPool",
    case([1, 2, 8], kernel_shape=[2]),
    case([1, 2, 8, 7], kernel_shape=[3, 3], strides=[2, 2], p=1),
    case([1, 2, 8, 7], kernel_shape=[3, 3], pads=[1, 1, 1, 1], p=3),
    case([1, 2, 8, 7], kernel_shape=[2, 2], auto_pad="SAME_UPPER"),
    case([1, 2, 8, 7], kernel_shape=[3, 2], dilations=[2, 1], p=3),
    case([1, 2, 8, 7], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    case([1, 2, 5, 6, 4], kernel_shape=[2, 3, 2], pads=[1, 1, 0, 0, 0, 0]),
)

_GLOBAL = [case([2, 3, 5]), case([2, 3, 4, 5]), case([1, 2, 3, 2, 4])]
cases(
    "GlobalAveragePool",
    *_GLOBAL,
    case(np.ones((1, 2, 3, 4))),
    case(np.ones((1, 1, 3), np.half)),
)

cases("GlobalMaxPool", *_GLOBAL)

cases("GlobalLpPool", *_GLOBAL, case([2, 3, 4, 5], p=1), case([2, 3, 4, 5], p=3))
