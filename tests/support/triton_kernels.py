"""A kernel for all of a small model, loaded as a module beside its twin."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
import triton.language as tl
from support.checked_memory import check_memory
from triton.runtime import interpreter

from fairhand.analysis import ops  # noqa: F401  # fills the table
from fairhand.analysis.cost.typical_sizes import Sizes
from fairhand.analysis.shapes.infer import infer
from fairhand.analysis.spelling.expr import Ref
from fairhand.codegen.emit import render
from fairhand.codegen.kernels.launch.kernels_page import (
    Entry,
    Page,
    Traffic,
    write_kernels,
)
from fairhand.codegen.kernels.launch.launcher import KernelSource
from fairhand.codegen.kernels.launch.tuning import _filled
from fairhand.codegen.kernels.program.build import make_program
from fairhand.codegen.kernels.program.program import KernelProgram, Surroundings
from fairhand.codegen.kernels.select_regions import kernel_text
from fairhand.codegen.statements.from_graph import make_steps
from fairhand.rewrites.lowering import load_all

load_all()
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"  # with TRITON_INTERPRET=0 a GPU runs them
if INTERPRETED:
    check_memory()


@dataclass
class Compiled:
    """`arguments` are the values that the functions take, by name, then `numbers`."""

    module: ModuleType
    arguments: list[str]
    constants: dict[str, torch.Tensor]
    numbers: list[Any]
    launches: list[int]
    program: KernelProgram

    def run(self, which: str, feed: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        given = [feed.get(n, self.constants.get(n)) for n in self.arguments]
        given = [x if x is None else x.to(DEVICE) for x in given]
        function = getattr(self.module, f"fused{which}")
        made = function(*given, *self.numbers)
        return [x.cpu() for x in (made if isinstance(made, tuple) else (made,))]

    def kernel(self, feed: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        return self.run("", feed)

    def reference(self, feed: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        return self.run("_reference", feed)


def compiled(proto: onnx.ModelProto, folder: Path, laid_out: bool = False) -> Compiled:
    """All nodes of a model as one kernel; NoKernel if there is none for them."""
    found = another(proto, folder, set(), laid_out=laid_out)
    assert found is not None
    return found


def another(
    proto: onnx.ModelProto,
    folder: Path,
    seen: set[KernelSource],
    autotune: bool = False,
    laid_out: bool = False,
) -> Compiled | None:
    """The same; None for a kernel that was `seen` before.

    Black takes more time than all else, and changes nothing of what a kernel computes:
    pages are `laid_out` where a test reads one, and one of each kind of kernel.
    """
    model = ir.from_proto(proto)
    shapes = infer(model)
    steps = make_steps(model, shapes, kernels=True)
    made = {v for step in steps for v in step.outputs if v is not None}
    around = Surroundings(shapes, made)
    program = make_program(steps, set(model.graph.outputs), around)
    text, numbers = kernel_text(program)
    if text in seen:
        return None
    if seen:  # Python takes a file of the same second and size for one it has compiled
        folder = folder / f"kernel_{len(seen)}"
        folder.mkdir()
    seen.add(text)
    entry = Entry(text, "fused", 1.0, [("node",)], Traffic("[N]", 1, 1, 2), True)
    with nullcontext() if laid_out else patch.object(render, "formatted", _as_it_is):
        write_kernels(folder, Page([entry], autotune=autotune), "Case", "case.onnx")
    page = (folder / "kernels.py").read_text("utf-8")
    assert not laid_out or max(map(len, page.splitlines())) <= 88
    given = [*(n for _, n in numbers), *(value for _, value in program.options)]
    arguments = [str(v.name) for v in program.arguments]
    stored = {w.value: w for s in steps if s.form for w in s.form.weights.values()}
    constants = {
        str(v.name): tensor(stored[v].array() if v in stored else v.const_value.numpy())
        for v in program.arguments
        if v.const_value is not None
    }
    assert all(isinstance(a.expr, Ref) or constants for a in program.arguments.values())
    module = load(folder / "kernels.py")
    counter = [0]
    count_launches(module, "fused_kernel", counter)
    return Compiled(module, arguments, constants, given, counter, program)


def _as_it_is(text: str, template: str) -> str:
    return text


def calls_of(kernel: Compiled) -> list[dict[str, Any]]:
    """With what its launcher is called: on few numbers, and on many."""
    sizes = (7, 2048, 16384)
    calls = [call_of(kernel.program, kernel.numbers, size) for size in sizes]
    return [call for call in calls if call["elements"] < 2**36]


def call_of(program: KernelProgram, numbers: list[Any], size: int) -> dict[str, Any]:
    """Types and sizes of what the launcher is called with, where all axes whose size is
    known at run time alone have one size."""
    dims = [d for a in program.arguments.values() for d in a.dims]
    names = {str(s) for d in dims if not isinstance(d, int) for s in d.free_symbols}
    sizes = Sizes(program.shapes, dict.fromkeys(names, size))
    tensors = [_filled(a, program, sizes, "meta") for a in program.arguments.values()]
    shown = [(str(x.dtype).removeprefix("torch."), list(x.shape)) for x in tensors]
    counts = [x.numel() for x in tensors] + [prod(map(sizes.number, program.space))]
    return {"tensors": shown, "numbers": numbers, "elements": max(counts)}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"kernels_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def count_launches(module: ModuleType, name: str, counter: list[int]) -> None:
    """Adds one to the counter whenever a kernel is launched."""
    kernel = getattr(module, name)

    class Counted:
        plain = kernel

        def __getitem__(self, grid: Any) -> Any:
            counter[0] += 1
            return kernel[grid]

    setattr(module, name, Counted())


def examples(count: int) -> int:
    """Of a property: so many, or as many as FAIRHAND_FUZZ says."""
    return int(os.environ.get("FAIRHAND_FUZZ", count))


def tensor(x: object) -> torch.Tensor:
    array = np.asarray(x)
    if array.dtype.name == "bfloat16":
        return torch.tensor(array.astype(np.float32)).bfloat16()
    return torch.tensor(array)


def random_feed(
    shapes: Mapping[str, Sequence[object]], sizes: Iterable[int]
) -> dict[str, np.ndarray]:
    """Of these shapes, whose axes `a`, `b` and `n` have the sizes."""
    numbers: dict[object, int] = dict(zip("abn", sizes, strict=True))
    random = np.random.default_rng(sum(numbers.values()))
    feed = {}
    for name, shape in shapes.items():
        dims = [numbers.get(d, d) for d in shape]
        feed[name] = random.normal(0, 2, dims).astype(np.float32)  # type: ignore[arg-type]
    return feed


def named(build: Callable[..., object]) -> str:
    return build.__name__


def oracle(proto: onnx.ModelProto, feed: Mapping[str, np.ndarray]) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, dict(feed))


def close(got: torch.Tensor, wanted: torch.Tensor, ulps: float = 8) -> bool:
    """Equal but for some units in the last place of the largest number."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    if not got.dtype.is_floating_point:
        return bool((got == wanted).all())
    finite = wanted[wanted.isfinite()].abs()
    scale = max(1.0, float(finite.max())) if finite.numel() else 1.0
    unit = torch.finfo(got.dtype).eps * scale
    return torch.allclose(
        got.double(), wanted.double(), rtol=0, atol=ulps * unit, equal_nan=True
    )


def check_sizes(
    proto: onnx.ModelProto,
    feeds: Iterable[Mapping[str, np.ndarray]],
    folder: Path,
    ulps: float = 8,
    laid_out: bool = False,
) -> None:
    """A kernel is launched once for each feed that isn't empty, and agrees with its
    twin and with ONNX Runtime."""
    kernel = compiled(proto, folder, laid_out)
    for feed in feeds:
        sizes = {name: x.shape for name, x in feed.items()}
        tensors = {name: torch.tensor(x) for name, x in feed.items()}
        before = kernel.launches[0]
        got = kernel.kernel(tensors)
        empty = any(x.size == 0 for x in feed.values())
        assert kernel.launches[0] == before + (not empty), sizes
        pairs = list(zip(got, kernel.reference(tensors), strict=True))
        if not empty:
            wanted = map(torch.tensor, oracle(proto, feed))
            pairs += zip(got, wanted, strict=True)
        assert all(close(a, b, ulps) for a, b in pairs), sizes


def products_of_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter has bfloat16 as bits, and would multiply those."""
    builder = interpreter.InterpreterBuilder
    plain = builder.create_dot

    def widened(handle: Any) -> Any:
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        bits = handle.data.astype(np.uint32) << 16
        return interpreter.TensorHandle(bits.view(np.float32), tl.float32)

    def dot(self: Any, a: Any, b: Any, *others: Any) -> Any:
        return plain(self, widened(a), widened(b), *others)

    monkeypatch.setattr(builder, "create_dot", dot)


def compile_for_gpus(models: Mapping[str, onnx.ModelProto], folder: Path) -> None:
    """In a process of its own, which has no GPU either: to machine code for one that
    has little shared memory; for all of them by compile_kernels.py alone."""
    for name, model in models.items():
        (folder / name).mkdir()
        kernel = compiled(model, folder / name, laid_out=True)
        (folder / name / "kernels.py").rename(folder / f"{name}.py")
        (folder / f"{name}.json").write_text(json.dumps(calls_of(kernel)))
    script = Path(__file__).parents[1] / "tools" / "compile_kernels.py"
    done = subprocess.run(
        [sys.executable, script, "--targets=sm_86", "--types=float32", folder],
        env={**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = re.search(r"\| sm_86 \| (\d+) \|", done.stdout)
    assert found is not None and int(found[1]) >= len(models)
