"""Kernels at the sizes of networks, in Triton's interpreter; no GPU is needed.

    python tests/tools/full_size_kernels.py MODELS [--types float32 float16 bfloat16]

A package with kernels is made of each model and run once at batch 1, on its twins. Each
kernel then takes what its twin was given at its first place, in each type: in float32
beside the twin, in halves beside the twin in float32 on the same rounded numbers.
Differences are relative to the largest number of a result; BOUNDS are what they may be.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from support.triton_kernels import products_of_bfloat16

import fairhand
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify.input_sizes import first_sizes
from fairhand.codegen.verify.inputs import make_inputs

# In halves one and a half units in the last place: a sum that is stored is rounded, and
# then what is made of it.
BOUNDS = {"float32": 2e-6, "float16": 1.5e-3, "bfloat16": 1.2e-2}


def feed_of(path: Path) -> Mapping[str, np.ndarray]:
    """What is saved beside a model, or random numbers."""
    model = load(path).model
    made = dict(make_inputs(model, 0, first_sizes(model)))
    beside = path.with_suffix(".npz")
    if not beside.exists():
        return made
    with np.load(beside) as file:
        return {name: file[f"in:{name}"] for name in made}


def given_to_twins(folder: Path, feed: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """What the kernels of a package are called with at their first places."""
    sys.path.insert(0, str(folder.parent))
    session = importlib.import_module(folder.name).Session()
    model, kernels = (
        importlib.import_module(f"{folder.name}.{part}")
        for part in ("model", "kernels")
    )
    found: dict[str, Any] = {}

    def recording(name: str, twin: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any, **numbers: Any) -> Any:
            found.setdefault(name, (given, numbers))
            return twin(*given, **numbers)

        return recorded

    for end in [n for n in vars(kernels) if n.endswith("_reference")]:
        name = end.removesuffix("_reference")
        if hasattr(model, name):
            setattr(model, name, recording(name, getattr(kernels, end)))
    session.run(None, dict(feed))
    return found


def in_type(value: Any, dtype: torch.dtype) -> Any:
    is_float = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return value.to(dtype) if is_float else value


def error(kernels: ModuleType, name: str, given: Any, dtype: torch.dtype) -> float:
    places, numbers = given
    rounded = [in_type(x, dtype) for x in places]
    back = [
        x.float() if isinstance(x, torch.Tensor) and x.dtype == dtype else x
        for x in rounded
    ]
    with torch.inference_mode():
        got = getattr(kernels, name)(*rounded, **numbers)
        wanted = getattr(kernels, f"{name}_reference")(*back, **numbers)
    results = [x if isinstance(x, tuple) else (x,) for x in (got, wanted)]
    return max(difference(a, b) for a, b in zip(*results, strict=True))


def difference(got: torch.Tensor, wanted: torch.Tensor) -> float:
    got, wanted = got.double(), wanted.double()
    same = (got == wanted) | (got.isnan() & wanted.isnan())
    finite = wanted[wanted.isfinite()].abs()
    largest = float(finite.max()) if finite.numel() else 1.0
    apart = torch.where(same, 0.0, got - wanted).abs()
    return float(apart.nan_to_num(torch.inf).max()) / max(largest, 1e-30)


def rows(path: Path, types: list[str]) -> Iterator[tuple[str, str, float, float]]:
    """Kernel, type, difference, seconds."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / f"full_{path.stem.replace('.', '_')}"
        fairhand.compile(path, package, target="triton", verify=False, cache=False)
        if not (package / "kernels.py").exists():
            return
        found = given_to_twins(package, feed_of(path))
        kernels = importlib.import_module(f"{package.name}.kernels")
        for name, given in found.items():
            for dtype in types:
                start = time.perf_counter()
                off = error(kernels, name, given, getattr(torch, dtype))
                yield name, dtype, off, time.perf_counter() - start


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path, help=".onnx files")
    parser.add_argument("--types", nargs="+", choices=BOUNDS, default=list(BOUNDS))
    options = parser.parse_args(arguments)
    worst = dict.fromkeys(options.types, 0.0)
    with pytest.MonkeyPatch.context() as patch:
        products_of_bfloat16(patch)
        for path in options.models:
            for name, dtype, off, seconds in rows(path.resolve(), options.types):
                note = "" if off <= BOUNDS[dtype] else "TOO FAR"
                which = f"{path.stem:18} {name:30} {dtype:9}"
                print(f"{which} {off:.1e} {seconds:5.1f} s {note}".rstrip())
                worst[dtype] = max(worst[dtype], off)
    print("largest:", ", ".join(f"{t} {off:.1e}" for t, off in worst.items()))
    return any(worst[dtype] > BOUNDS[dtype] for dtype in worst)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
