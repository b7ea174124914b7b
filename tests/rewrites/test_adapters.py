"""Every operator means the same before and after it is brought to the newest opset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.adapter_cases import Case, normalised, run
from support.handmade import save
from support.older_models import CASES, REFUSED

import fairhand
from fairhand.analysis.errors import Unsupported
from fairhand.analysis.ops.type_rules import EARLY
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import ADAPTERS, normalise


@pytest.mark.parametrize("case", CASES, ids=str)
def test_adapted_nodes_compute_the_same(case: Case, tmp_path: Path) -> None:
    before, after = normalised(case, tmp_path)
    feed = {
        f"x{i}": array
        for i, array in enumerate(case.inputs)
        if array is not None and i not in case.constant
    }
    expected, found = run(before, feed), run(after, feed)
    for one, other in zip(expected, found, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert np.array_equal(one, other, equal_nan=True)


# test_adapters_old.py and test_experimental.py have the others.
RECENT = [a for a in ADAPTERS if a.until >= 7 and a.op not in EARLY[1:]]


@pytest.mark.parametrize("adapter", RECENT, ids=lambda a: f"{a.op} until {a.until}")
def test_every_adapter_has_a_case(adapter: object) -> None:
    def uses(case: Case) -> bool:
        fitting = [a for a in ADAPTERS if a.op == case.op and case.opset <= a.until]
        return min(fitting, key=lambda a: a.until, default=None) is adapter

    cases = [*CASES, *(case for case, _ in REFUSED), SCAN]
    assert any(uses(case) for case in cases)


SCAN = Case("Scan", 8, ())
SCAN_TEXT = """<ir_version: 4, opset_import: ["" : 8]>
scanner (float[2, 5, 2] x, int64[2] n, float[2, 2] s)
    => (float[2, 2] y, float[2, 5, 2] z)
{
    y, z = Scan <num_scan_inputs = 1, directions = [1],
                 body = add (float[2] a, float[2] b) =>
                 (float[2] c, float[2] d) { c = Add(a, b)  d = Tanh(c) }> ("", s, x)
}"""


def test_batched_scan(tmp_path: Path) -> None:
    """One Scan of the batch, and in it one of each sequence."""
    model = onnx.parser.parse_model(SCAN_TEXT)
    found = fairhand.compile(model, tmp_path / "net").report["verification"]
    assert len(found["cases"]) >= 2


def test_refused_scan(tmp_path: Path) -> None:
    text = SCAN_TEXT.replace('("", s, x)', "(n, s, x)")
    model = load(save(text.encode(), tmp_path, "scan.onnxtxt")).model
    with pytest.raises(Unsupported, match="lengths of sequences") as caught:
        normalise(model)
    assert "node 'Scan_0' (Scan, opset 8)" in str(caught.value)


@pytest.mark.parametrize("case, message", REFUSED, ids=str)
def test_refused_nodes(case: Case, message: str, tmp_path: Path) -> None:
    model = load(save(case.model(), tmp_path)).model
    with pytest.raises(Unsupported) as caught:
        normalise(model)
    assert message in caught.value.what
    assert caught.value.where == f"node 'one' ({case.op}, opset {case.opset})"
