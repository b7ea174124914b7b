"""Models in older opsets, each with what the newest one's are called."""

from __future__ import annotations

import numpy as np
from support.adapter_cases import Case, normal, scalar

X = normal(2, 3, 4)


SQUARE = normal(1, 2, 6, 6)


SHRINK, GROW = np.array([1, 1, 0.5, 0.6], "f"), np.array([1, 1, 2, 1.5], "f")


ONE = np.ones(1, np.float32)


MIXED = np.array([1, 1, 0.5, 2.5], "f")


EMPTY = np.zeros(0, np.float32)


REDUCTIONS = """ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare""".split()


CASES: list[Case] = [
    Case("LayerNormalization", 13, (normal(2, 3), normal(3), normal(3)), {"axis": -1}),
    Case("Squeeze", 11, (normal(1, 3, 1),), {"axes": [0]}),
    Case("Squeeze", 7, (normal(1, 3, 1),)),
    Case("Unsqueeze", 11, (X,), {"axes": [0, -1]}),
    Case("Unsqueeze", 7, (X,), {"axes": [1, 2]}),
    Case("Slice", 9, (X,), {"starts": [1, -3], "ends": [9, -1], "axes": [1, 2]}),
    Case("Slice", 7, (X,), {"starts": [0, 1], "ends": [1, 3]}),
    Case("Split", 11, (X,), {"axis": 2, "split": [1, 3]}, outputs=2),
    Case("Split", 7, (X,), {"axis": 2}, outputs=2),
    Case("Split", 13, (X,), {"axis": 1}, outputs=3),
    Case("Split", 13, (X, np.array([1, 2])), {"axis": 1}, outputs=2),
    Case("TopK", 9, (X,), {"k": 2}, outputs=2),
    Case("TopK", 7, (X,), {"k": 1, "axis": 0}, outputs=2),
    Case("Clip", 7, (np.array([-2, 0.5, np.inf, np.nan], "f"),), {"min": -1.0}),
    Case("Clip", 10, (np.array([-np.inf, 0.5, 9], "f"),), {"min": 0.0, "max": 6.0}),
    Case("Clip", 7, (X,)),
    Case("Pad", 7, (X,), {"pads": [0, 1, 0, 0, 2, 0]}),
    Case("Pad", 10, (X,), {"pads": [0, 1, 0, 0, 2, -1], "value": 1.5}),
    Case("Pad", 10, (X,), {"pads": [0, 1, 1, 0, 0, 2], "mode": "reflect"}),
    Case("Pad", 10, (X,), {"pads": [0, 0, 1, 0, 0, 2], "mode": "edge"}),
    Case("Pad", 10, (X.astype("d"),), {"pads": [1] * 6, "value": 0.1}),
    *(Case(op, 7, (normal(2, 3, 0),)) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    Case("BatchNormalization", 8, (normal(2, 3, 0), *normal(4, 3, 0)), {"spatial": 0}),
    Case("Dropout", 7, (X,), {"ratio": 0.4}),
    Case("Dropout", 10, (X,)),
    Case("Scatter", 9, (X, np.zeros((2, 1, 4), int), normal(2, 1, 4)), {"axis": 1}),
    Case("Scatter", 10, (X, np.ones((1, 1, 1), int), normal(1, 1, 1))),
    Case("DFT", 17, (normal(2, 8, 1),)),
    Case("DFT", 17, (normal(2, 4, 8, 2),), {"axis": 2, "inverse": 1}),
    Case("DFT", 17, (normal(2, 8, 1), scalar(4)), {"axis": 1, "onesided": 1}),
    *(
        Case("GridSample", 16, (SQUARE, normal(1, 3, 4, 2)), attributes)
        for attributes in (
            {},
            {"mode": "bicubic", "padding_mode": "border"},
            {"mode": "nearest", "align_corners": 1},
        )
    ),
    *(
        Case(
            "RoiAlign",
            10,
            (SQUARE, np.array([[0, 0, 4, 5], [1.5, 1, 3, 3]], "f"), np.array([0, 0])),
            {"output_height": 2, "output_width": 3, "mode": mode},
        )
        for mode in ("avg", "max")
    ),
    *(
        Case(op, opset, (x,), {"axis": axis} if axis != 1 else {}, symbolic=hidden)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for opset in (7, 11)
        for x in (X, normal(2, 5, 1, 1))
        for axis in (0, 1, x.ndim - 1, *((-1, -2) if opset == 11 else ()))
        for hidden in (False, True)
    ),
    *(Case(op, 11, (X,), rankless=True) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    *(
        Case(
            "BatchNormalization", opset, (X, *normal(3, 3), abs(normal(3))), attributes
        )
        for opset, attributes in (
            (7, {"epsilon": 0.1}),
            (8, {"spatial": 1}),
            (9, {}),
        )
    ),
    Case(
        "BatchNormalization",
        8,
        (X, *normal(3, 3, 4), abs(normal(3, 4))),
        {"spatial": 0},
        symbolic=True,
    ),
    *(
        Case("GroupNormalization", 18, inputs, {"num_groups": 2}, symbolic=hidden)
        for inputs in [(normal(2, 6, 4), *normal(2, 2))]
        for hidden in (False, True)
    ),
    Case("Upsample", 7, (SQUARE,), {"scales": [1.0, 1.0, 2.0, 3.0]}),
    Case("Upsample", 8, (SQUARE,), {"scales": [1.0, 1.0, 2.0, 2.0], "mode": "linear"}),
    Case("Upsample", 9, (SQUARE, GROW), {"mode": "linear"}),
    Case("Upsample", 9, (SQUARE, GROW), constant=(1,)),
    *(
        Case("Resize", 10, (SQUARE, scales), {"mode": mode}, constant=(1,))
        for mode in ("nearest", "linear")
        for scales in (GROW, SHRINK, *((MIXED,) if mode == "nearest" else ()))
    ),
    Case("Resize", 10, (SQUARE, MIXED), {"mode": "linear"}),
    *(
        Case("Resize", opset, (SQUARE, EMPTY, GROW), {"mode": mode}, constant=(1, 2))
        for opset in (11, 13)
        for mode in ("nearest", "linear", "cubic")
    ),
    Case(
        "Resize",
        11,
        (SQUARE, EMPTY, EMPTY, np.array([1, 2, 9, 7])),
        {"coordinate_transformation_mode": "align_corners"},
        constant=(1, 2, 3),
    ),
    Case("Resize", 18, (SQUARE, None, GROW), {"antialias": 1, "mode": "linear"}),
    *(
        Case(
            "Resize",
            11,
            (SQUARE, EMPTY, scales),
            {
                "coordinate_transformation_mode": "tf_half_pixel_for_nn",
                "nearest_mode": "floor",
            },
            constant=(1, 2),
        )
        for scales in (GROW, SHRINK)
    ),
    Case(
        "Resize",
        11,
        (SQUARE, np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9], "f"), GROW),
        {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"},
        constant=(1, 2),
    ),
    *(
        Case(op, opset, (abs(X) + 1,), attributes)
        for op in REDUCTIONS
        for opset in ((7, 11) if op == "ReduceSum" else (7, 11, 13, 17))
        for attributes in ({}, {"axes": [1], "keepdims": 0}, {"axes": [0, 2]})
    ),
]


REFUSED: list[tuple[Case, str]] = [
    (Case("Softmax", 7, (X,), {"axis": 4}), "axis 4 is outside a tensor of rank 3"),
    (
        Case(
            "Resize",
            11,
            (SQUARE, EMPTY, GROW),
            {
                "coordinate_transformation_mode": "tf_half_pixel_for_nn",
                "mode": "linear",
                "nearest_mode": "floor",
            },
        ),
        "'tf_half_pixel_for_nn' is supported for nearest neighbours only",
    ),
    (
        Case("Dropout", 10, (X,), {"ratio": 0.5}, outputs=2),
        "Dropout: the mask has no defined value before opset 12",
    ),
    (
        Case("BatchNormalization", 9, (X, *normal(3, 3), abs(normal(3))), outputs=5),
        "BatchNormalization: training mode is not supported",
    ),
    (
        Case("ReduceSum", 7, (normal(2, 0, 1),), {"axes": [0, 3], "keepdims": 0}),
        "ReduceSum: axes [3] are outside a tensor of rank 3",
    ),
    (
        Case("GroupNormalization", 18, (X, ONE, ONE), {"num_groups": 3}),
        "GroupNormalization: scale and bias need 3 numbers, one per group",
    ),
    (
        Case("Resize", 10, (SQUARE, np.array([1, 1, 0.5, 1.1], "f")), constant=(1,)),
        "Resize: to the nearest pixel by factors of which some shrink",
    ),
    (
        Case("Resize", 10, (SQUARE, GROW)),
        "Resize: to the nearest pixel by computed factors is not supported",
    ),
    (
        Case(
            "Resize",
            11,
            (SQUARE, EMPTY, GROW),
            {"coordinate_transformation_mode": "tf_half_pixel_for_nn"},
        ),
        "Resize: mode 'tf_half_pixel_for_nn' is supported with nearest_mode 'floor'",
    ),
]
