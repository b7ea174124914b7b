"""Emitted modules are ordinary PyTorch: torch's own tools take them unchanged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from onnx.parser import parse_model
from safetensors import safe_open
from safetensors.torch import save_file
from support.emitted import EXAMPLES, imported
from support.networks import transformer
from torch import Tensor, nn

import fairhand

torch.set_num_threads(1)
GENERATED = Path(__file__).parents[2] / "generated"
Loss = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Case:
    """A package, inputs of two sizes, and what it is to learn that it doesn't know."""

    package: ModuleType
    inputs: Tensor
    others: Tensor
    dynamic: dict[int, object]
    loss: Loss
    rate: float

    @property
    def file(self) -> Path:
        return Path(str(self.package.__file__)).with_name("weights.safetensors")


@pytest.fixture(scope="module", params=["digits_cnn", "digits_transformer", "encoder"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Case:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch")
    if request.param == "encoder":
        folder = tmp_path_factory.mktemp("encoder") / "net"
        fairhand.compile(transformer(2), folder, verify=False)
        inputs = torch.randn(8, 5, 8)
        target = F.layer_norm(inputs.flip(-1), (8,))
        dynamic = {0: batch, 1: torch.export.Dim("seq")}
        return Case(
            imported(folder),
            inputs,
            torch.randn(3, 7, 8),
            dynamic,
            lambda y: F.mse_loss(y, target),
            3e-2,
        )
    sample = np.load(EXAMPLES / "digits_sample.npz")
    images = torch.from_numpy(sample["image"]).repeat(8, 1, 1, 1)
    images = images + 0.05 * torch.randn_like(images)
    labels = (torch.from_numpy(sample["labels"]).repeat(8) + 1) % 10  # another task
    return Case(
        imported(GENERATED / request.param),
        images,
        images[:5],
        {0: batch},
        lambda y: F.cross_entropy(y, labels),
        3e-3,
    )


def assert_close(got: Tensor, want: Tensor, tolerance: float) -> None:
    assert got.shape == want.shape and got.dtype == want.dtype
    assert float((got - want).abs().max()) <= tolerance * float(want.abs().max())


def test_fine_tuning(case: Case, tmp_path: Path) -> None:
    before = case.file.read_bytes()
    model = case.package.load()
    assert not any(p.requires_grad for p in model.parameters()) and not model.training
    untrained = model(case.inputs)
    model.train().requires_grad_()
    optimizer = torch.optim.Adam(model.parameters(), lr=case.rate)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = case.loss(model(case.inputs))
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0] / 2

    saved = tmp_path / "tuned.safetensors"
    digest = sys.modules[case.package.Model.__module__].MODEL_SHA256
    save_file(model.state_dict(), saved, metadata={"model_sha256": digest})
    with safe_open(case.file, "pt") as old, safe_open(saved, "pt") as new:
        assert set(old.keys()) == set(new.keys())
        assert old.metadata() == new.metadata()
    tuned = case.package.load(saved)
    with torch.no_grad():
        torch.testing.assert_close(tuned(case.inputs), model.eval()(case.inputs))
    assert not torch.allclose(tuned(case.inputs), untrained, atol=0.1)
    # Neither the package nor what it loads has changed.
    assert case.file.read_bytes() == before
    assert torch.equal(case.package.load()(case.inputs), untrained)


def test_export(case: Case) -> None:
    """With the dynamic sizes of the ONNX file, none of them made a number."""
    model = case.package.load()
    program = torch.export.export(
        model, (case.inputs,), dynamic_shapes=(case.dynamic,), strict=False
    )
    for inputs in (case.inputs, case.others):
        assert_close(program.module()(inputs), model(inputs), 1e-5)
    assert set(program.state_dict) == set(model.state_dict())


def test_antialiased_image_of_any_size(tmp_path: Path) -> None:
    """As many pixels as a size asks for are joined by one call, not by one for each."""
    net = parse_model("""<ir_version: 9, opset_import: ["": 18]>
        resized (float[1, 3, H, W] x) => (float[1, 3, 4, 5] y) {
            sizes = Constant<value_ints = [1, 3, 4, 5]>()
            y = Resize<antialias = 1, mode = "linear">(x, "", "", sizes)
        }""")
    fairhand.compile(net, tmp_path / "net", verify=False)
    network = imported(tmp_path / "net").load()
    size = torch.export.Dim.DYNAMIC
    program = torch.export.export(
        network, (torch.randn(1, 3, 19, 23),), dynamic_shapes=({2: size, 3: size},)
    )
    image = torch.randn(1, 3, 31, 45)
    assert_close(program.module()(image), network(image), 1e-5)


def compiled_agrees(case: Case, backend: str) -> None:
    torch._dynamo.reset()
    model = case.package.load()
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    for inputs in (case.inputs, case.others):
        assert_close(compiled(inputs), model(inputs), 1e-5)


def test_compile(case: Case) -> None:
    """Traced whole, without a graph break; inductor itself is in the slow test."""
    compiled_agrees(case, "aot_eager")


@pytest.mark.slow  # half a minute each, in a C++ compiler
def test_compile_with_inductor(case: Case) -> None:
    compiled_agrees(case, "inductor")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_dynamic_quantisation(case: Case) -> None:
    model = case.package.load()
    linear = {name for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    kinds = torch.ao.nn.quantized.dynamic.Linear
    assert linear == {n for n, m in small.named_modules() if isinstance(m, kinds)}
    assert linear
    assert_close(small(case.inputs), model(case.inputs), 0.05)
    assert not torch.equal(small(case.inputs), model(case.inputs))
