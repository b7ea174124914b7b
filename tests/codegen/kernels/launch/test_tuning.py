"""Kernels chosen and launched by measurement, with a clock of the tests' own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
from support.emitted import imported
from support.emitter_models import run_here
from support.golden_sequences import SEQUENCES

import fairhand
from fairhand.codegen.plan import body_styles
from fairhand.codegen.verify import parity

pytest.importorskip("triton", reason="kernels are tested in Triton's interpreter")
from support.kernel_models import attention, columns, elements, products, rows
from support.kernel_models.attention import KINDS as ATTENTION
from support.kernel_models.attention import New, decoded, plain, rotary
from support.kernel_models.columns import GROUPS as COLUMN_GROUPS
from support.kernel_models.columns import norm_of_channels
from support.kernel_models.elements import (
    GROUPS,
    convolved,
    embedded,
    gated,
    group_model,
    heads,
    taken,
)
from support.kernel_models.products import GROUPS as PRODUCTS
from support.kernel_models.products import gated_pixels, linear_gelu
from support.kernel_models.rows import KINDS as ROW_KINDS
from support.kernel_models.rows import group_norm, instance_norm, routed
from support.triton_kernels import another, close

from fairhand.analysis.cost.typical_sizes import Sizes
from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.kernels import kernel_set
from fairhand.codegen.kernels.launch import tuning
from fairhand.codegen.kernels.launch.kernels_page import Entry, Traffic
from fairhand.codegen.kernels.launch.tuning import Tuner, tuner_here
from fairhand.codegen.kernels.program.build import make_program
from fairhand.codegen.kernels.program.program import Surroundings
from fairhand.codegen.kernels.select_regions import kernel_text
from fairhand.codegen.statements.from_graph import make_steps


class Clock:
    """Tells what it was told: `times(kernel, options)`, and 20 us for the twins."""

    def __init__(self, times: Callable[[str, Mapping[str, int]], float]) -> None:
        self.times, self.asked = times, list[tuple[str, dict[str, int]]]()

    def __call__(self, call: partial[object]) -> float:
        name = call.func.__name__
        if name.endswith("_reference"):
            return 2e-5
        options = dict(call.func.__globals__["TUNED"][name])
        self.asked.append((name, options))
        return self.times(name, options)


def package_with(
    clock: Clock, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> fairhand.Package:
    monkeypatch.setattr(parity, "run_package", run_here)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    tuner = Tuner("GPU of tests", clock, "cpu")  # type: ignore[arg-type]
    monkeypatch.setattr(body_styles, "tuner_here", lambda: tuner)
    options = {"target": "triton", "profile": True, "engine": "eager"}
    return fairhand.compile(SEQUENCES["cached_decoder"](), folder / "net", **options)


def tuned_of(package: fairhand.Package) -> dict[str, dict[str, int]]:
    text = (package.path / "kernels.py").read_text("utf-8")
    found = re.findall(r'^    "(\w+)": (\{.*\}),$', text, re.MULTILINE)
    return {name: json.loads(options) for name, options in found}


def reasons(package: fairhand.Package) -> dict[str, str]:
    groups = package.report["target"]["groups"]
    return {c["choice"]: c["reason"] for group in groups for c in group["choices"]}


def test_the_fastest_launch_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kernel's own, under the name of the GPU, and only what is clearly faster."""

    def times(kernel: str, options: Mapping[str, int]) -> float:
        best = {"num_warps": 8} if "norm" in kernel else {}
        return 5e-6 if options == best else 4.9e-6 if "norm" not in kernel else 1e-5

    clock = Clock(times)
    package = package_with(clock, tmp_path, monkeypatch)
    assert tuned_of(package) == {"add_layer_norm": {"num_warps": 8}}
    text = (package.path / "kernels.py").read_text("utf-8")
    assert 'GPU = "GPU of tests"\n' in text
    assert '**tuned(\n                "add_layer_norm",' in text
    assert 'tile = tuned("linear_gelu", **tiles(n_rows, n_cols, ' in text
    reason = reasons(package)["kernel add_layer_norm"]
    assert reason == "kernel 5.0 us, PyTorch 20.0 us, measured on GPU of tests"
    tried = [options for name, options in clock.asked if name == "linear_gelu"]
    assert tried[0] == {} and len({str(o) for o in tried}) == len(tried) == 8
    kernels = sys.modules[f"{imported(package.path).__name__}.kernels"]
    assert kernels.tuned("add_layer_norm", num_warps=1) == {"num_warps": 1}  # no GPU
    kernels.launched_here = lambda: True
    assert kernels.tuned("add_layer_norm", num_warps=1) == {"num_warps": 8}
    assert kernels.tuned("linear_add", BLOCK_M=16) == {"BLOCK_M": 16}


def test_a_kernel_that_is_slower_than_pytorch_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package_with(
        Clock(lambda kernel, options: 3e-5 if "norm" in kernel else 1e-6),
        tmp_path,
        monkeypatch,
    )
    text = (package.path / "kernels.py").read_text("utf-8")
    assert "add_layer_norm" not in text and "def linear_gelu(" in text
    why = "kernel 30.0 us, PyTorch 20.0 us, measured on GPU of tests"
    assert why in reasons(package)["PyTorch"] or why in json.dumps(package.report)


def test_a_launch_that_fails_or_errs_is_never_the_fastest() -> None:
    x = torch.ones(3)
    tuner = Tuner("gpu", lambda call: 1e-6, "cpu")

    def fails(x: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of shared memory")

    assert tuner._seconds(fails, (x,), x) == float("inf")
    assert tuner._seconds(lambda x: x + 1, (x,), x) == float("inf")
    assert tuner._seconds(lambda x: x.half(), (x,), x) == float("inf")
    assert tuner._seconds(lambda x: x + 1e-3, (x,), x) == 1e-6
    small = x / 100  # as a softmax of long rows
    assert tuner._seconds(lambda x: x * 1.5, (small,), small) == float("inf")
    special = torch.tensor([float("nan"), float("inf"), 1.0])
    assert tuner._seconds(lambda x: x + 1e-3, (special,), special) == 1e-6
    assert tuner._seconds(lambda x: x * 0, (special,), special) == float("inf")


def entry_of(build: Any) -> tuple[Entry, Sizes]:
    """A kernel that is a whole model, as a module's would be collected."""
    builds = {**GROUPS, **ATTENTION, **ROW_KINDS, **COLUMN_GROUPS, **PRODUCTS}
    builds[taken] = {"cells": ["a", 7, "n"], "ids": ["b", 4], "line": ["n"]}
    model = ir.from_proto(group_model(build, builds, New))
    shapes = infer(model)
    steps = make_steps(model, shapes, kernels=True)
    made = {v for step in steps for v in step.outputs if v is not None}
    program = make_program(steps, set(model.graph.outputs), Surroundings(shapes, made))
    text, numbers = kernel_text(program)
    given = (*(n for _, n in numbers), *(v for _, v in program.options))
    traffic = Traffic("[N]", 1, 1, 2)
    entry = Entry(text, "fused", 1.0, [("node",)], traffic, True, program, given)
    return entry, Sizes(shapes)


MEASURED = [convolved, embedded, heads, decoded, group_norm, norm_of_channels, routed]
MEASURED += [gated_pixels, rotary, taken]


@pytest.mark.parametrize("build", MEASURED, ids=lambda build: build.__name__)
def test_every_kind_of_kernel_is_measured(
    build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On tensors of the sizes that its first place has: none fails, all agree."""
    monkeypatch.setattr(tuning, "candidates", lambda text: [{}])
    entry, sizes = entry_of(build)
    sizes.taken["a"] = 3  # the interpreter runs one program after the other
    made = Tuner("gpu", lambda call: 1e-6, "cpu").tune(entry, sizes)
    assert made is not None and made.seconds == 1e-6


def test_what_pytorch_refuses_is_not_measured() -> None:
    """A norm of one pixel, where sizes are but assumed: the estimate stands."""
    entry, sizes = entry_of(instance_norm)
    sizes.taken["n"] = 1
    tuner = Tuner("gpu", lambda call: 1e-6, "cpu")
    tuning.settle(entry, tuner, sizes, 1e-5)
    assert entry.taken and not entry.measured and entry.saved == 1.0


def test_without_a_gpu_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert tuner_here() is None


# A group of each kind, and where its feed comes from.
AUTOTUNED = {
    gated: elements,
    convolved: elements,
    embedded: elements,
    plain: attention,
    decoded: attention,
    norm_of_channels: columns,
    routed: rows,
    linear_gelu: products,
}


@pytest.mark.parametrize("build", AUTOTUNED, ids=lambda build: build.__name__)
def test_every_launch_that_is_tried_computes_the_same(
    build: Any, tmp_path: Path
) -> None:
    """Triton's autotuner tries each, with a clock that calls the second the fastest."""
    module = AUTOTUNED[build]
    model = getattr(module, "model_of", group_model)(build)
    kernel = another(model, tmp_path, set(), autotune=True)
    assert kernel is not None
    feed = {n: torch.tensor(x) for n, x in module.feed_for(build, (2, 3, 7)).items()}
    wanted = kernel.reference(feed)
    tuner = kernel.module.fused_kernel.plain
    assert len(tuner.configs) == 1  # in the interpreter, where time says nothing
    names = {"TILES", "WARPS", "KEYS_AND_WARPS"} & vars(kernel.module).keys()
    (launches,) = (getattr(kernel.module, name) for name in names)
    for launch in launches:
        tuner.configs = [launch]
        got = kernel.kernel(feed)
        assert all(close(a, b, 16) for a, b in zip(got, wanted, strict=True)), launch
    times = iter([2.0, 1.0, *[3.0] * 9])
    tuner.configs = launches
    tuner._do_bench = lambda call, quantiles: (call(), [next(times)] * 3)[1]
    got = kernel.kernel(feed)
    assert all(close(a, b, 16) for a, b in zip(got, wanted, strict=True))
    assert tuner.best_config is launches[1]


def test_an_autotuned_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It verifies, says so in its report, and has no launch of its own choice."""
    monkeypatch.setattr(parity, "run_package", run_here)
    monkeypatch.setattr(kernel_set, "SMALL_PRODUCT", 0.0)
    monkeypatch.setattr(kernel_set, "SAVED_BYTES", 0.0)
    options = {"target": "triton", "autotune": True}
    package = fairhand.compile(SEQUENCES["cached_decoder"](), tmp_path / "n", **options)
    assert package.report["target"]["autotune"] is True
    text = (package.path / "kernels.py").read_text("utf-8")
    kernels = len(re.findall(r"def \w+_kernel\(", text))
    assert text.count("@autotuned(") == kernels and kernels > 1
    assert '@autotuned(TILES, ["n_rows", "n_cols", "depth"])' in text
    assert "num_warps=warps" not in text and "def tiles(" not in text


def test_autotune_is_for_kernels_that_nobody_measured(tmp_path: Path) -> None:
    for options, why in (
        ({}, "--autotune needs --target triton"),
        ({"target": "triton", "profile": True}, "don't go together"),
    ):
        with pytest.raises(fairhand.FairhandError, match=why):
            model = SEQUENCES["cached_decoder"]()
            fairhand.compile(model, tmp_path / "net", autotune=True, **options)
