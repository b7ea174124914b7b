"""The original's state_dict in the module at -O0: what the file holds is loaded."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch
from onnx import numpy_helper
from support.golden_images import faithful_cnn
from tools.round_trips import measure

FOLDER = Path(os.environ.get("FAIRHAND_ZOO", "")).expanduser()
FOUND = [p for p in sorted(FOLDER.glob("*.onnx")) if "FAIRHAND_ZOO" in os.environ]
TRIPS = [p for p in FOUND if p.with_name(f"{p.name.partition('.')[0]}.pt").exists()]
# The exported forward computes no pooled output, so no exporter writes its weights.
ABSENT = {
    "albert": ["model.pooler.weight", "model.pooler.bias"],
    "mobilebert": ["model.pooler.dense.weight", "model.pooler.dense.bias"],
}


@pytest.mark.zoo
@pytest.mark.parametrize("path", TRIPS, ids=lambda path: path.stem)
def test_state_dicts_of_a_zoo(path: Path) -> None:
    trip = measure(path)
    assert not trip.lost
    assert list(trip.absent) == ABSENT.get(path.name.partition(".")[0], [])
    assert trip.error < max(2e-5, 4 * (trip.noise or 0))


def test_what_is_absent_is_told_from_what_is_lost(tmp_path: Path) -> None:
    model = faithful_cnn()
    state = {
        t.name: torch.tensor(numpy_helper.to_array(t))
        for t in model.graph.initializer
        if "." in t.name
    }
    counts = [n.replace("running_mean", "num_batches_tracked") for n in state]
    state.update({n: torch.tensor(0) for n in counts if n.endswith("tracked")})
    image = np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)
    onnx.save(model, tmp_path / "net.onnx")
    session = ort.InferenceSession(tmp_path / "net.onnx")
    (given,) = session.get_inputs()
    outputs = {
        f"out:{i}": y for i, y in enumerate(session.run(None, {given.name: image}))
    }
    np.savez(tmp_path / "net.npz", **{f"in:{given.name}": image}, **outputs)
    unused = torch.ones(7)
    torch.save({**state, "pooler.weight": unused}, tmp_path / "net.pt")
    trip = measure(tmp_path / "net.onnx")
    assert trip.absent == ("pooler.weight",) and not trip.lost and trip.error < 1e-5
    assert trip.row.startswith(f"| net | {len(state) + 1} | {len(state)} | pooler.w")

    moved = "classifier.weight"
    renamed = {f"{k}_of_old" if k == moved else k: v for k, v in state.items()}
    torch.save(renamed, tmp_path / "net.pt")
    assert set(measure(tmp_path / "net.onnx").lost) == {moved, f"{moved}_of_old"}
