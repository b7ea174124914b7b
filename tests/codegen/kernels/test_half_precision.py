"""Packages with kernels that compute in halves: `--precision bf16` and `fp16`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support.emitted import imported
from support.emitter_models import run_here
from support.golden_images import IMAGES
from support.golden_sequences import SEQUENCES

import fairhand
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.verify import parity

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.triton_kernels import count_launches, products_of_bfloat16

NETWORKS = {**IMAGES, **SEQUENCES}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
WORST = {"bf16": 2e-2, "fp16": 2.5e-3}  # some units in the last place, added up


@pytest.fixture(autouse=True)
def all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)
    monkeypatch.setattr(kernel_set, "MIN_SAVED", 0.0)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    products_of_bfloat16(monkeypatch)


@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize(
    "name", ["senet", "cached_decoder", "llama_layers", "odd_ends"]
)
def test_a_network_in_halves(precision: str, name: str, tmp_path: Path) -> None:
    """Verified against ONNX Runtime in float32: results have the types of ONNX."""
    folder = tmp_path / f"{name}_{precision}"
    options = {"target": "triton", "precision": precision}
    package = fairhand.compile(NETWORKS[name](), folder, **options)
    assert package.report["engine"]["precision"] == precision
    worst = package.report["verification"]["worst_relative_error"]
    assert WORST[precision] > worst > 1e-5


@pytest.mark.parametrize("precision", TYPES)
def test_kernels_are_launched_on_halves(precision: str, tmp_path: Path) -> None:
    folder = tmp_path / "masked_pool"
    options = {"target": "triton", "precision": precision}
    fairhand.compile(SEQUENCES["masked_pool"](), folder, **options)
    module = imported(folder)
    kernels = sys.modules[f"{module.__name__}.kernels"]
    launches = [0]
    for name in [n for n in vars(kernels) if n.endswith("_kernel")]:
        count_launches(kernels, name, launches)
    session = module.Session()
    weights = session.model.state_dict().values()
    assert {w.dtype for w in weights if w.is_floating_point()} == {TYPES[precision]}
    kinds = {"tensor(float)": np.float32, "tensor(bool)": bool}
    feed = {
        x.name: np.ones(
            [d if isinstance(d, int) else 3 for d in x.shape], kinds[x.type]
        )
        for x in session.get_inputs()
    }
    results = session.run(None, feed)
    assert {x.dtype.name for x in results} == {"float32"}
    assert launches[0] > 0


def test_fp16_is_for_kernels(tmp_path: Path) -> None:
    why = "precision fp16 isn't offered for this network: it has no kernels"
    with pytest.raises(fairhand.FairhandError, match=why):
        fairhand.compile(IMAGES["plain_cnn"](), tmp_path / "n", precision="fp16")
