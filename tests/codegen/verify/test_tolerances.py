"""The comparison that every check of a result goes through."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from fairhand.codegen.verify.tolerances import (
    OPERATOR_TOLERANCES,
    TOLERANCES,
    compare,
    tolerance,
)

NAN, INF = np.nan, np.inf


def array(values: object, dtype: object = np.float32) -> np.ndarray:
    return np.array(values, dtype)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (array([1, 2]), array([1, 2])),
        (array([1, NAN, INF, -INF]), array([1, NAN, INF, -INF])),
        (array([NAN]), array([NAN])),
        (array([]), array([])),
        (array(3.0), array(3.0)),
        (array([1e-9, 0.0]), array([0.0, -1e-9])),  # zero but for rounding
        (array([1000.001, 0.0005]), array([1000, 0])),  # small beside its neighbour
        (array([True, False], bool), array([True, False], bool)),
        (array(["a"], object), array(["a"], object)),
        (array([1 + 1j], np.complex64), array([1 + 1j], np.complex64)),
        (array([1.5], ml_dtypes.bfloat16), array([1.5], ml_dtypes.bfloat16)),
        (array([448], ml_dtypes.float8_e4m3fn), array([448], ml_dtypes.float8_e4m3fn)),
    ],
)
def test_agrees(actual: np.ndarray, expected: np.ndarray) -> None:
    found = compare(actual, expected)
    assert found
    assert found.reason == ""
    assert found.error <= tolerance(expected.dtype)


@pytest.mark.parametrize(
    ("actual", "expected", "reason"),
    [
        (array([1, 2]), array([1, 2], np.float64), "type float32, expected float64"),
        (array([1, 2]), array([[1, 2]]), "shape [2], expected [1, 2]"),
        (
            array([[1, 2, 3]], np.int64),
            array([[1, 0, 0]], np.int64),
            "different elements (2 of 3), first at [0, 1]: 2, expected 0",
        ),
        (
            array([1, NAN]),
            array([1, 2]),
            "NaN or infinity misplaced (1 of 2), first at [1]: nan, expected 2.0",
        ),
        (
            array([INF, 1]),
            array([-INF, 1]),
            "NaN or infinity misplaced (1 of 2), first at [0]: inf, expected -inf",
        ),
        (
            array([1e38, 1]),
            array([INF, 1]),
            "NaN or infinity misplaced (1 of 2),"
            " first at [0]: 9.999999680285692e+37, expected inf",
        ),
        (
            array([1.001, 2]),
            array([1, 2]),
            "error 5.0e-04, allowed 5.0e-05 (1 of 2),"
            " first at [0]: 1.0010000467300415, expected 1.0",
        ),
        # A softmax over many classes that came out as zeros is not right.
        (
            array([0, 0]),
            array([0.001, 0.001]),
            "error 1.0e+00, allowed 5.0e-05 (2 of 2),"
            " first at [0]: 0.0, expected 0.0010000000474974513",
        ),
        (
            array([416], ml_dtypes.float8_e4m3fn),
            array([448], ml_dtypes.float8_e4m3fn),
            "error 7.1e-02, allowed 0.0e+00 (1 of 1),"
            " first at [0]: 416.0, expected 448.0",
        ),
    ],
)
def test_says_why_not(actual: np.ndarray, expected: np.ndarray, reason: str) -> None:
    found = compare(actual, expected)
    assert not found
    assert found.reason == reason


def test_one_operator_is_allowed_less() -> None:
    actual, expected = array([1.00001, 2]), array([1, 2])
    assert compare(actual, expected)
    assert not compare(actual, expected, whole_model=False)
    assert TOLERANCES.keys() == OPERATOR_TOLERANCES.keys()
    assert all(TOLERANCES[name] > OPERATOR_TOLERANCES[name] for name in TOLERANCES)


def test_tolerance_of_a_type() -> None:
    assert tolerance(ir.DataType.FLOAT) == TOLERANCES["float32"]
    assert tolerance(np.dtype(np.float16)) == TOLERANCES["float16"]
    for exact in (ir.DataType.INT64, ir.DataType.STRING, ir.DataType.BOOL, None):
        assert tolerance(exact) == 0
