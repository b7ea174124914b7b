"""benchmarks/gpu.py with the CPU for a GPU: all of it but what a GPU does."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.emitted import EXAMPLES

from fairhand.codegen import cli
from fairhand.codegen.kernels import kernel_set

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu.py"


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_gpu", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclass looks its types up
    spec.loader.exec_module(module)
    return module


def stand_in(gpu: ModuleType) -> Any:
    class StandIn(gpu.Card):  # type: ignore[misc,name-defined]
        device = "cpu"

        def seconds(self, call: Callable[[], object]) -> float:
            start = time.perf_counter()
            call()
            return time.perf_counter() - start

        replayed = seconds

        def graphed(self, call: Callable[[], object]) -> Callable[[], object]:
            raise RuntimeError("a CPU has no graphs")

        def launches(self, call: Callable[[], object]) -> int:
            return 7

        copy_rate = 1e10

        def name(self) -> str:
            return "The CPU of tests"

    return StandIn()


@pytest.mark.slow
def test_it_measures_resumes_and_writes_the_page(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_set, "MIN_SAVED", 0.0)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    monkeypatch.setattr(torch, "compile", lambda network, **options: network)
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    card, runs = stand_in(gpu), []

    def run(jobs: Any) -> Any:
        runs.extend((job.name, job.table) for job in jobs)
        return [list(gpu.measure(job, card))[-1] for job in jobs]

    def make(arguments: Any) -> str:
        return "" if cli.main(arguments) == 0 else "refused"

    results, page = tmp_path / "gpu.json", tmp_path / "performance_gpu.md"
    command = [EXAMPLES / "digits_transformer.onnx", tmp_path, "--batches", "2"]
    command += ["--packages", tmp_path / "p", "--results", results, "--page", page]
    command += ["--types", "float32", "float16", "--modes", *gpu.MODES]
    for _ in range(2):
        assert gpu.main([*map(str, command), "--no-verify"], card, run, make) == 0
    tables = ["float32, batch 2", "float16, batch 2"]
    assert runs == [("digits_transformer", table) for table in tables]
    found = json.loads(results.read_text("utf-8"))["tables"]
    assert "broken" in found["float32, batch 1"]["broken"]
    row, half = (found[table]["digits_transformer"] for table in tables)
    assert {*gpu.MODES, "eager", "kernels"} == row["seconds"].keys()
    assert "a CPU has no graphs" in row["failed"]["kernels graphed"]
    assert row["launches"]["kernels"] == 7
    assert row["errors"]["kernels"] < 1e-5 < half["errors"]["kernels"] < 0.1
    assert all(kernel["error"] < 1e-5 for kernel in row["kernels"])
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
