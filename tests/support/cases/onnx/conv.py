"""Cases of analysis/ops/onnx/conv.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases

_HALF = np.linspace(-1, 1, 18).astype(np.float16).reshape(1, 2, 3, 3)
cases(
    "Conv",
    case([2, 3, 8, 7], [4, 3, 3, 3], constants=(1,)),
    case([2, 3, 8, 7], [4, 3, 3, 3], [4], constants=(1, 2)),
    case([2, 3, 8, 7], [4, 3, 3, 3], [4], pads=[1, 1, 1, 1]),
    case([2, 3, 8, 7], [4, 3, 3, 3], [4], constants=(1,)),
    case([2, 3, 9], [4, 3, 3], [4], constants=(1, 2), strides=[2]),
    case([1, 2, 5, 6, 4], [3, 2, 2, 3, 1], [3], constants=(1, 2)),
    case(
        [2, 4, 8, 7],
        [6, 2, 3, 2],
        constants=(1,),
        group=2,
        dilations=[2, 1],
        strides=[1, 2],
        pads=[2, 1, 2, 1],
        kernel_shape=[3, 2],
    ),
    case([1, 3, 8, 7], [4, 3, 3, 3], constants=(1,), pads=[0, 0, 1, 2]),
    case([1, 3, 8, 7], [4, 3, 3, 3], [4], pads=[0, 0, 1, 2]),
    case([1, 3, 8], [4, 3, 3], constants=(1,), auto_pad="SAME_UPPER"),
    case([1, 3, 8], [4, 3, 4], constants=(1,), auto_pad="SAME_UPPER"),
    case([1, 3, 8], [4, 3, 4], constants=(1,), auto_pad="SAME_LOWER"),
    case([1, 3, 8, 7], [4, 3, 3, 3], auto_pad="SAME_LOWER", strides=[2, 2]),
    case([1, 3, 8, 7], [4, 3, 1, 1], auto_pad="SAME_UPPER", strides=[2, 2]),
    case([1, 3, 8, 7], [4, 3, 3, 3], constants=(1,), auto_pad="VALID"),
    case([0, 3, 8, 7], [4, 3, 3, 3], constants=(1,)),
    case(np.ones((1, 2, 5)), np.full((3, 2, 2), 0.1), constants=(1,)),
    case(_HALF, _HALF[:, :, :2, :2], constants=(1,)),
)

cases(
    "ConvTranspose",
    case([1, 2, 4, 5], [2, 3, 3, 3]),
    case([1, 2, 4, 5], [2, 3, 3, 3], [3], constants=(1, 2)),
    case([1, 2, 4], [2, 3, 3], [3], constants=(1, 2), strides=[2]),
    case([1, 2, 3, 3, 2], [2, 3, 2, 2, 2], constants=(1,)),
    case(
        [1, 4, 4, 5],
        [4, 3, 3, 3],
        [6],
        constants=(1, 2),
        group=2,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    ),
    case([1, 2, 4, 5], [2, 3, 3, 3], dilations=[2, 1], pads=[1, 0, 1, 0]),
    case([1, 2, 4, 5], [2, 3, 3, 3], strides=[2, 2], pads=[0, 0, 1, 1]),
    case([1, 2, 4, 5], [2, 3, 3, 3], strides=[2, 2], pads=[1, 1, 0, 0]),
    case([1, 2, 4, 5], [2, 3, 3, 3], pads=[2, 0, 0, 1]),
    case([1, 2, 4, 5], [2, 3, 1, 2], auto_pad="SAME_UPPER", strides=[3, 3]),
    case([1, 2, 4, 5], [2, 3, 2, 1], auto_pad="SAME_LOWER", strides=[3, 2]),
    case(
        [1, 2, 4, 5],
        [2, 3, 3, 3],
        constants=(1,),
        auto_pad="SAME_UPPER",
        strides=[2, 2],
    ),
    case(
        [1, 2, 4, 5],
        [2, 3, 4, 4],
        constants=(1,),
        auto_pad="SAME_LOWER",
        strides=[2, 2],
    ),
    case(
        [1, 2, 4, 5],
        [2, 3, 3, 3],
        constants=(1,),
        output_shape=[8, 9],
        strides=[2, 2],
    ),
    case([1, 2, 3, 3], [2, 3, 3, 3], output_shape=[4, 3]),
    case([1, 2, 3, 3], [2, 3, 3, 3], output_shape=[10, 8], strides=[3, 2]),
)

cases(
    "DeformConv",
    case([2, 4, 6, 7], [3, 4, 2, 3], [2, 12, 5, 5]),
    case([1, 4, 6, 7], [6, 2, 3, 3], [1, 18, 4, 5], [6], group=2),
    case(
        [1, 4, 6, 7],
        [2, 4, 3, 3],
        [1, 36, 3, 4],
        None,
        [1, 18, 3, 4],
        offset_group=2,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    case([1, 1, 6, 7], [2, 1, 2, 2], [1, 8, 4, 5], dilations=[2, 2]),
    case([1, 1, 1, 5], [1, 1, 1, 1], [1, 2, 1, 5], [1]),
)
