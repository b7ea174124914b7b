"""A step of one token, beside ONNX Runtime's on the same file, by the length before it.

    python benchmarks/generation.py [--width 1024] [--layers 8] [--threads 1]

The decoder is that of examples/train_characters.py, wider and not trained. The two take
turns, from one place on, a step each; medians. ONNX Runtime is fed what it gave last,
not a copy (IOBinding); `joined` is the package's network as it stands, whose caches are
joined anew in each step.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

import fairhand

ROOT = Path(__file__).parents[1]


def exported(width: int, layers: int, folder: Path) -> Path:
    """The example's network of another size, as ONNX."""
    sys.path.insert(0, str(ROOT / "examples"))
    example: Any = importlib.import_module("train_characters")
    example.WIDTH, example.LAYERS, example.HEADS = width, layers, width // 64
    torch.manual_seed(0)
    example.export(example.Characters().eval(), folder / "model.onnx")
    return folder / "model.onnx"


def onnx_runtime(model: Path, length: int, threads: int) -> Callable[[], None]:
    """A step behind so many tokens, again and again; each has one more before it."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(str(model), options)
    inputs, outputs = session.get_inputs(), [o.name for o in session.get_outputs()]
    draw = np.random.default_rng(0)
    pasts = [i for i in inputs if i.name.startswith("past")]
    held = {
        i.name: ort.OrtValue.ortvalue_from_numpy(
            draw.normal(size=(1, i.shape[1], length, i.shape[3])).astype(np.float32)
        )
        for i in pasts
    }

    def step() -> None:
        nonlocal length
        binding = session.io_binding()
        binding.bind_cpu_input("input_ids", np.array([[5]]))
        binding.bind_cpu_input("attention_mask", np.ones((1, length + 1), np.int64))
        binding.bind_cpu_input("position_ids", np.array([[length]]))
        for name, value in held.items():
            binding.bind_ortvalue_input(name, value)
        for name in outputs:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        found = dict(zip(outputs, binding.get_outputs(), strict=True))
        held.update({i.name: found[f"present{i.name[4:]}"] for i in pasts})
        length += 1

    return step


def package_steps(
    package: Path, length: int, steps: int
) -> tuple[Callable[[], None], Callable[[], None]]:
    """The same with buffers written in place, and with caches that are joined."""
    sys.path.insert(0, str(package.parent))
    caches: Any = importlib.import_module(f"{package.name}.caches")
    model = importlib.import_module(f"{package.name}.model").load()
    network = caches.flat(model)
    memory = caches.Caches([length], length + steps, torch.device("cpu"))
    for tensor in memory.tensors.values():
        tensor.normal_()
    memory.lengths = [length]
    held = caches.buffers(1, length, torch.device("cpu"))

    def step() -> None:
        memory.step(network, [[5]], slice(0, 1), {})

    def joined() -> None:
        before = next(iter(held.values())).shape[2]
        places = torch.tensor([[before]])
        mask = torch.ones((1, before + 1), dtype=torch.int64)
        results = network(torch.tensor([[5]]), mask, places, *held.values())
        found = dict(zip(caches.OUTPUTS, results, strict=True))
        held.update({name: found[out] for name, (out, _) in caches.CACHES.items()})

    return step, joined


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, value in {"width": 1024, "layers": 8, "threads": 1, "steps": 30}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        with torch.inference_mode(False):
            model = exported(given.width, given.layers, Path(folder))
        package = fairhand.compile(model, Path(folder) / "package").path
        for length in (64, 1000, 4000):
            ours, joined = package_steps(package, length, given.steps + 3)
            theirs = onnx_runtime(model, length, given.threads)
            runs = {"in place": ours, "joined": joined, "ONNX Runtime": theirs}
            taken: dict[str, list[float]] = {name: [] for name in runs}
            for i in range(given.steps + 3):
                for name, run in runs.items():
                    start = time.perf_counter()
                    run()
                    if i >= 3:
                        taken[name].append(time.perf_counter() - start)
            rates = {n: 1 / statistics.median(t) for n, t in taken.items()}
            ratio = rates["in place"] / rates["ONNX Runtime"]
            text = ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
            print(f"{length} before: tokens/s {text}; ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
