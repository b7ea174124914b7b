"""What opsets before 7 meant, which ONNX Runtime does not run: stated in NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.adapter_cases import Case, normalised, run
from support.oldest_models import CASES, REFUSED, Expected

from fairhand.analysis.errors import Unsupported
from fairhand.codegen.load.read_model import load
from fairhand.rewrites.normalise import ADAPTERS, normalise


@pytest.mark.parametrize(
    "case, expected", CASES, ids=lambda x: str(x)[:60] if isinstance(x, Case) else ""
)
def test_old_nodes_mean_what_they_did(
    case: Case, expected: Expected, tmp_path: Path
) -> None:
    _, after = normalised(case, tmp_path)
    feed = {f"x{i}": x for i, x in enumerate(case.inputs) if i not in case.constant}
    wanted = np.asarray(expected(*case.inputs))
    found = run(after, feed)[0]
    assert found.shape == wanted.shape and (found.dtype.kind == wanted.dtype.kind)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case, message", REFUSED, ids=lambda x: str(x)[:60])
def test_refused_nodes(case: Case, message: str, tmp_path: Path) -> None:
    path = tmp_path / "old.onnx"
    onnx.save(case.model(), path)
    with pytest.raises(Unsupported) as caught:
        normalise(load(path).model)
    assert message in caught.value.what


def test_every_old_adapter_has_a_case() -> None:
    used = set()
    for case, _ in CASES:
        fitting = [a for a in ADAPTERS if a.op == case.op and case.opset <= a.until]
        used.add(min(fitting, key=lambda a: a.until))
    assert {a for a in ADAPTERS if a.until < 7} == used
