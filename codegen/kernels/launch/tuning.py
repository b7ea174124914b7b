"""`compile --target triton --profile` on a GPU: how each kernel is launched best there,
and whether it is faster than PyTorch at all.

A kernel is measured at the sizes of its first place, since equal groups have one kernel
together. What takes the time of a call is given to the tuner: a GPU's clock, or a
stand-in of the tests.
"""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from ....analysis.cost.typical_sizes import Sizes
from ....analysis.lazy import lazy
from ....analysis.ops.triton.elementwise import FLOATS
from ....analysis.spelling.expr import TORCH_DTYPES
from ..program.program import Argument, KernelProgram
from .kernels_page import Entry, Options, Page, candidates, write_kernels

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

errors, testing = lazy("triton.errors"), lazy("triton.testing")

Timer = Callable[[Callable[[], object]], float]

WORTH = 1.05  # how much faster than the heuristic another launch has to be
TOLERANCE = 2e-2  # of the largest number: tf32, and half precision


@dataclass(frozen=True)
class _Tuned:
    """What was measured of a kernel, in seconds; `options` beside the heuristic's."""

    seconds: float
    pytorch: float
    options: Options

    def reason(self, gpu: str) -> str:
        """Both times, for the report."""
        kernel, twin = self.seconds * 1e6, self.pytorch * 1e6
        shown = "failed" if kernel == float("inf") else f"{kernel:.1f} us"
        return f"kernel {shown}, PyTorch {twin:.1f} us, measured on {gpu}"


@dataclass(frozen=True)
class Tuner:
    """Measures kernels on this machine's card, `gpu`."""

    gpu: str
    timer: Timer
    device: str = "cuda"

    def tune(self, entry: Entry, sizes: Sizes) -> _Tuned | None:
        """The twin's time, and the kernel's at its best; None if PyTorch refuses."""
        module = _module(entry)
        assert entry.program is not None
        tensors = [
            _filled(a, entry.program, sizes, self.device)
            for a in entry.program.arguments.values()
        ]
        given = (*tensors, *entry.numbers)
        reference = getattr(module, f"{entry.name}_reference")
        with torch.inference_mode():
            try:
                wanted = reference(*given)
            except (RuntimeError, ValueError):  # there are too few, or too many
                return None
            pytorch = self.timer(partial(reference, *given))
            best = _Tuned(float("inf"), pytorch, {})
            for options in candidates(entry.text):
                module.TUNED[entry.name] = options
                seconds = self._seconds(getattr(module, entry.name), given, wanted)
                if seconds * (WORTH if best.options != options else 1) < best.seconds:
                    best = _Tuned(seconds, pytorch, options)
        return best

    def _seconds(self, kernel: Callable[..., Any], given: Any, wanted: Any) -> float:
        """Infinite where a tile doesn't fit on chip, or a result is another one."""
        try:
            if not _agree(kernel(*given), wanted):
                return _NEVER
            return self.timer(partial(kernel, *given))
        except (RuntimeError, errors.TritonError):
            return _NEVER


_NEVER = float("inf")


def _agree(got: Any, wanted: Any) -> bool:
    """Whether results are equal within the bounds of `_close`."""
    pairs = zip(_flat(got), _flat(wanted), strict=True)
    return all(_close(a, b) for a, b in pairs)


def _flat(results: Any) -> Sequence[Tensor]:
    return results if isinstance(results, tuple) else (results,)


def _close(a: Tensor, b: Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.dtype.is_floating_point:
        return bool((a == b).float().mean() > 1 - TOLERANCE)
    finite = b[b.isfinite()].abs()
    scale = float(finite.max()) if finite.numel() else 0.0
    allowed = TOLERANCE * max(scale, 1e-3)
    return torch.allclose(a, b, rtol=0, atol=allowed, equal_nan=True)


def _module(entry: Entry) -> ModuleType:
    """kernels.py with one kernel alone."""
    with tempfile.TemporaryDirectory() as folder:
        write_kernels(Path(folder), Page([entry], "?"), "a kernel", "its model")
        path = Path(folder) / "kernels.py"
        spec = importlib.util.spec_from_file_location("fairhand_tuned", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    module.__dict__["launched_here"] = lambda: True  # whatever the GPU is called
    return module


def _filled(
    argument: Argument, program: KernelProgram, sizes: Sizes, device: str
) -> Tensor:
    """Random numbers; rows of the tables of a lookup."""
    value, own = argument.value, argument.dims
    if argument.role and any(op.taps for op in program.operations):
        own = program.shapes.dims(value) or own  # of a convolution's weight
    dims = list(map(sizes.number, own))
    dtype = getattr(torch, TORCH_DTYPES[value.dtype])  # type: ignore[index]
    rows = [_rows(program, sizes)] if argument.role in ("table", "indices") else []
    if argument.role == "table":
        dims = [*rows, *dims]
    if argument.role == "indices":
        return torch.randint(0, rows[0], dims[:-1], dtype=dtype, device=device)
    if value.dtype in FLOATS:
        return torch.randn(dims, device=device).mul(0.5).to(dtype)
    high = 2 if dtype == torch.bool else _places(program, sizes)
    return torch.randint(0, high, dims, device=device).to(dtype)


def _rows(program: KernelProgram, sizes: Sizes) -> int:
    """Of the smallest table, so that every index is one of a row."""
    tables = [v for v, a in program.arguments.items() if a.role == "table"]
    return min(sizes.number((program.shapes.dims(v) or (1,))[0]) for v in tables)


def _places(program: KernelProgram, sizes: Sizes) -> int:
    """How many there are wherever elements are taken: on a GPU, a place outside ends
    the process."""
    found = [100]
    for op in (op for op in program.operations if op.gathers):
        x = op.operands[0]
        assert isinstance(x, ir.Value)
        found.append(sizes.number(program.dims(x)[op.view.attr("axis", 0)]))
    return min(found)


def settle(entry: Entry, tuner: Tuner, sizes: Sizes, least: float) -> None:
    """Takes a kernel that measurably saves `least` seconds in all its places."""
    made = tuner.tune(entry, sizes)
    if made is None:  # nothing is known but what the cost model says
        return
    entry.options, entry.measured = made.options, made.reason(tuner.gpu)
    entry.saved = (made.pytorch - made.seconds) * len(entry.sites)
    entry.taken = entry.saved >= least


def tuner_here() -> Tuner | None:
    """With the clock of the GPU that is here; None without one, or without Triton."""
    if not torch.cuda.is_available() or importlib.util.find_spec("triton") is None:
        return None
    return Tuner(
        torch.cuda.get_device_name(),
        # Of a graph of many calls, as a Session replays them: without their launches.
        lambda call: testing.do_bench_cudagraph(call, return_mode="median") / 1e3,
    )
