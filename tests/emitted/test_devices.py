"""Forwards where memory is not the CPU's, with PyTorch's device "meta" for a GPU.

A constant that is made on the CPU in each call, a tensor that is copied there or back,
and a number that the CPU waits for are errors; so they would be in a CUDA graph.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.emitted import imported
from support.goldens import GOLDENS, MODELS
from support.meta_device import Apart, run
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

GENERATED = Path(__file__).parents[2] / "generated"
# Their loops go on until a value says so.
WAIT = {"beam_search"}


class Launch:
    """In place of a kernel: takes what it is launched with, and computes nothing."""

    def __init__(self) -> None:
        self.calls = 0

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*given: Any, **constants: Any) -> None:
            self.calls += 1
            assert all(type(n) is int and n > 0 for n in grid)
            for x in given:
                plain = x is None or type(x) in (int, float)  # None: it is left out
                assert x.is_meta if isinstance(x, Tensor) else plain

        return launch


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"on_meta_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    sys.modules[spec.name] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", MODELS)
def test_forward_stays_on_its_device(name: str) -> None:
    model = module(GOLDENS / f"{name}.py")
    if name in WAIT:
        with pytest.raises(RuntimeError, match="item"):
            run(model)
        return
    results = [x for x in tree_leaves(run(model)) if isinstance(x, Tensor)]
    assert len(results) == len(model.OUTPUTS)
    assert all(x.is_meta for x in results)


@pytest.mark.parametrize(
    "name", [path.parent.name for path in sorted(GENERATED.glob("*/kernels.py"))]
)
def test_kernels_are_launched_on_their_device(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton", reason="launches take its arithmetic")
    folder = tmp_path / name
    shutil.copytree(GENERATED / name, folder)
    package = imported(folder)
    model, kernels = (
        sys.modules[f"{package.__name__}.{part}"] for part in ("model", "kernels")
    )
    with monkeypatch.context() as without:
        without.setattr(kernels, "triton", None)
        shapes = [x.shape for x in tree_leaves(run(model))]
    launches = {n: Launch() for n in vars(kernels) if n.endswith("_kernel")}
    for kernel, launch in launches.items():
        monkeypatch.setattr(kernels, kernel, launch)
    monkeypatch.setattr(kernels, "runs_triton", lambda *given: True)
    monkeypatch.setattr(torch.cuda, "device_of", lambda x: nullcontext())
    assert [x.shape for x in tree_leaves(run(model))] == shapes
    assert all(launch.calls for launch in launches.values())


class Constant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tensor([1.0, 2.0])


class Copied(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.tensor([1.0, 2.0]).to(x.device)


class Waiting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[: int(x.sum())]


@pytest.mark.parametrize("network", [Constant, Copied, Waiting])
def test_what_a_gpu_would_wait_for_is_noticed(network: type[nn.Module]) -> None:
    x = torch.empty(3, 2, device="meta")
    with torch.inference_mode(), Apart(), pytest.raises(RuntimeError):
        network()(x)
