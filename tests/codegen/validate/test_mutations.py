"""Changes of emitted source that matter are caught."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from support.networks import residual, transformer

from tests.tools.mutations import Judge, mutants, table


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (residual(), 5),
        pytest.param(residual(), 100, marks=pytest.mark.slow),
        pytest.param(transformer(layers=2), 150, marks=pytest.mark.slow),
    ],
    ids=["residual", "residual, many", "transformer, many"],
)
def test_no_mutant_that_changes_the_function_escapes(
    model: onnx.ModelProto, count: int, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    judge = Judge(path, tmp_path / tmp_path.name)
    found = [judge.judge(kind, text) for kind, text in mutants(judge.text, count, 0)]
    assert len(found) == count
    assert [one.text for one in found if one.changed and not one.validation] == []
    assert any(one.changed for one in found), table(found)
