"""Cases of analysis/ops/onnx/roi.py."""

from __future__ import annotations

import numpy as np
from support.operator_cases import case, cases

_ROIS = np.array([[0, 0, 9, 9], [0, 5, 4, 9], [5.3, 5, 9.7, 11]], np.float32)
_BATCH = np.array([0, 1, 0])
cases(
    "RoiAlign",
    case([2, 3, 10, 12], _ROIS, _BATCH, output_height=3, output_width=2),
    case([2, 3, 10, 12], _ROIS - 2, _BATCH, sampling_ratio=2, output_height=4),
    case(
        [2, 3, 5, 6],
        _ROIS,
        _BATCH,
        coordinate_transformation_mode="output_half_pixel",
        spatial_scale=0.4,
        output_height=4,
        output_width=4,
    ),
    case([2, 3, 10, 12], _ROIS, _BATCH, mode="max", sampling_ratio=3),
    case([2, 3, 10, 12], _ROIS[:0], _BATCH[:0], output_height=2),
)

_INDEXED_ROIS = np.array(
    [[0, 0, 0, 9, 9], [1, 0, 5, 4, 9], [0, 5, 5, 20, 11], [1, 3, 3, 2, 2]], np.float32
)
cases(
    "MaxRoiPool",
    case([2, 3, 10, 12], _INDEXED_ROIS, pooled_shape=[3, 2]),
    case([2, 3, 10, 12], _INDEXED_ROIS, pooled_shape=[2, 4], spatial_scale=0.5),
)

cases(
    "MaxUnpool",
    case(
        [1, 1, 2, 2],
        np.array([[[[5, 7], [13, 15]]]]),
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    case(
        [1, 2, 3],
        np.array([[[1, 2, 5], [6, 9, 10]]]),
        np.array([1, 2, 6]),
        kernel_shape=[2],
        strides=[2],
        constants=(2,),
    ),
    case(
        [1, 1, 2, 2],
        np.array([[[[5, 7], [13, 15]]]]),
        np.array([1, 1, 4, 4]),
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
)
