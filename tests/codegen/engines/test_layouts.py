"""How `packed` lays a weight out, by the processor and the rows that come."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch
from support.emitted import imported
from support.emitter_models import Graph
from torch import nn

import fairhand


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize(("size", "rows"), [(8, 1), (8, 3), (513, 1), (513, 3)])
def test_small_weights_and_single_rows_are_no_matter_for_onednn(
    wide: bool, size: int, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = Graph(x=["n", 4])
    fairhand.compile(
        g.model(y=g("MatMul", "x", g.weight("w", 4, 4))),
        tmp_path / "a",
        engine="packed",
        verify=False,
    )
    name = imported(tmp_path / "a").__name__
    engines = importlib.import_module(f"{name}.engines")
    monkeypatch.setattr(engines, "WIDE", wide)
    monkeypatch.setattr(engines, "ROWS", 2 if wide else 1)
    linear, x = nn.Linear(size, 512), torch.ones(rows, size)
    layer = engines.LaidOutLinear(linear)
    with torch.inference_mode():
        torch.testing.assert_close(layer(x), linear(x))
    few = rows == 1 or size * 512 <= 2**18
    assert layer.laid_out.is_mkldnn == (wide or not few)
