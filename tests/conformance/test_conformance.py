"""The official backend tests by way of pytest, and the judgement that they rest on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from tools import conformance
from tools.conformance import Outcome, mismatch, page, reasons_of

import fairhand


@pytest.mark.conformance
def test_nothing_is_wrong_or_broken_and_the_page_is_current() -> None:
    cases = conformance.collect(conformance.KINDS)
    jobs = min(os.cpu_count() or 1, 4)
    outcomes = conformance.run_all(conformance.KINDS, list(range(len(cases))), jobs)
    assert [o for o in outcomes if o.result in ("wrong", "broken")] == []
    if f"onnx {onnx.__version__}." in conformance.PAGE.read_text("utf-8"):
        written, _, _ = conformance.PAGE.read_text("utf-8").partition(conformance.OLDER)
        assert page(outcomes) == written


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("test_relu", "pass"),
        ("test_add_bcast", "pass"),
        ("test_softmax_example_expanded", "pass"),
        ("test_scan_sum", "pass"),
        ("test_affine_grid_3d_align_corners_expanded", "refuse"),
    ],
)
def test_one_case(name: str, result: str, tmp_path: Path) -> None:
    cases = [c for c in conformance.collect(("node",)) if c.name == name]
    assert conformance.run_case(cases[0], tmp_path).result == result


@pytest.mark.parametrize(
    ("found", "expected", "reason"),
    [
        (np.float32([1, np.nan, np.inf]), np.float32([1, np.nan, np.inf]), ""),
        (np.float32([1.0005]), np.float32([1]), ""),
        (
            np.float32([1, 2]),
            np.float32([1, 3]),
            "1 of 2, first at [1]: 2.0, expected 3.0",
        ),
        (np.float32([np.inf]), np.float32([-np.inf]), "differs in 1 of 1"),
        (np.float32([1]), np.float64([1]), "float32 (1,), expected float64 (1,)"),
        (np.float32(1), np.float32([1]), "float32 (), expected float32 (1,)"),
        (np.float32([]), np.float32([]), ""),
        (np.int8([3]), onnx.numpy_helper.from_array(np.int8([3])), ""),
        (np.int8([3]), [np.int8([3])], "ndarray, expected list"),
    ],
)
def test_mismatch(found: np.ndarray, expected: object, reason: str) -> None:
    text = mismatch([found], [expected], 1e-3, 1e-7)
    assert reason in text and bool(reason) == bool(text)
    assert mismatch([], [expected], 1e-3, 1e-7) == "0 outputs, expected 1"


def test_reasons_leave_out_where() -> None:
    lines = [
        "2 operators can't be compiled; nothing was written",
        "  Foo (opset 20) x2, first at node 'a' (Foo), inputs x [2]",
        "  Bar with tails is not supported",
        "    at node 'b' (Bar), inputs x [2]",
        "    hint: cut them",
    ]
    found = reasons_of(fairhand.Unsupported("\n".join(lines)))
    assert found == ("Foo is not supported", "Bar with tails is not supported")


def test_page_counts_groups_and_escapes() -> None:
    text = page(
        [
            Outcome("test_a", "node", "A", "pass", (), 13, ("float", "int8")),
            Outcome("test_a_2", "node", "A", "refuse", ("no | b_c",)),
            Outcome("test_b", "node", "B", "wrong", ("off",)),
            Outcome("test_s", "simple", "(simple)", "refuse", ("no | b_c",)),
        ]
    )
    assert "| A | 13 | float int8 | 2 | 1 | 1 |  |  |" in text
    assert "| all | 4 | 1 | 2 | 1 |  |" in text
    assert "| no \\| b\\_c | 2 | (simple), A |" in text
    assert "- `test_b` wrong: off" in text
