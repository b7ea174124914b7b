"""benchmarks/gpu.py with the CPU for a GPU: all of it but what a GPU does."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.emitted import EXAMPLES

from fairhand.codegen.kernels import kernel_set

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_gpu", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in(gpu: ModuleType) -> Any:
    class StandIn(gpu.Card):  # type: ignore[misc,name-defined]
        device = "cpu"

        def seconds(self, call: Callable[[], object]) -> float:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start

        def graphed(self, call: Callable[[], object]) -> Callable[[], object]:
            raise RuntimeError("a CPU has no graphs")

        def launches(self, call: Callable[[], object]) -> int:
            return 7

        def copy_rate(self) -> float:
            return 1e10

        def name(self) -> str:
            return "The CPU of tests"

    return StandIn()


def test_it_measures_resumes_and_writes_the_page(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_set, "MIN_SAVED", 0.0)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    monkeypatch.setattr(torch, "compile", lambda network, **options: network)
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    card, runs = stand_in(gpu), []

    def run(model: Path, packages: Path, batch: int) -> Any:
        runs.append((model.stem, batch))
        return gpu.measure(model, packages, batch, card)

    results, page = tmp_path / "gpu.json", tmp_path / "performance_gpu.md"
    command = [EXAMPLES / "digits_transformer.onnx", tmp_path, "--batches", "2"]
    command += ["--packages", tmp_path / "p", "--results", results, "--page", page]
    for _ in range(2):
        assert gpu.main([*map(str, command), "--no-verify"], card, run) == 0
    assert runs == [("digits_transformer", 2)]
    rows = json.loads(results.read_text("utf-8"))["batches"]["2"]
    row = rows["digits_transformer"]
    assert {"eager", "compile", "autotune", "kernels"} == row["seconds"].keys()
    assert "a CPU has no graphs" in row["failed"]["kernels graphed"]
    assert row["launches"]["kernels"] == 7
    assert row["errors"]["kernels"] < 1e-5 < row["errors"]["float16"] < 0.1
    bounds = {kernel["name"]: kernel["bound"] for kernel in row["kernels"]}
    assert bounds["add_layer_norm"] == "copy"
    assert "product" in bounds.values()
    assert all(kernel["share"] > 0 for kernel in row["kernels"])
    text = page.read_text("utf-8")
    assert "The CPU of tests" in text and "moves 10 GB/s" in text
    assert "| digits_transformer |" in text and "| add_layer_norm |" in text


def test_without_a_gpu_it_says_so(
    gpu: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([str(EXAMPLES)]) == 1
    assert "no GPU that PyTorch can use here" in capsys.readouterr().err
