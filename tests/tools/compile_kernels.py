"""Compile kernels for GPUs that needn't be there, as they would be launched there.

    python compile_kernels.py [--targets sm_80,gfx942] [--types float32,tf32] FOLDER...

Of a package all launches of one forward are compiled, of another folder one call of
`fused` in each *.py, with the tensors that the *.json beside it says. A launch that
would fail for want of shared memory, registers or threads is an error. Prints a row of
a table for each target.

In a process of its own, since Triton's interpreter and its compiler exclude each other.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

sys.path.insert(0, str(Path(__file__).parents[1]))  # it runs as a script
from support.emitted import imported
from support.meta_device import run

# KiB of shared memory that one program can have.
SHARED = {
    "sm_80": 163,
    "sm_86": 99,
    "sm_89": 99,
    "sm_90": 227,
    "sm_100": 227,
    "sm_120": 99,
    "gfx90a": 64,
    "gfx942": 64,
}
TYPES = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}
MOST_THREADS = 1024


@dataclass
class Target:
    """Where Triton asks for the driver of a GPU; and what was compiled for it."""

    name: str
    launches: int = 0
    shared: int = 0  # bytes, of the largest
    registers: int = 0
    spilled: dict[str, int] = field(default_factory=dict)  # kernel -> bytes

    def get_current_target(self) -> GPUTarget:
        if self.name.startswith("sm_"):
            return GPUTarget("cuda", int(self.name[3:]), 32)
        return GPUTarget("hip", self.name, 64)

    def get_current_device(self) -> int:
        return list(SHARED).index(self.name)  # kernels are kept by its number

    def get_current_stream(self, device: int) -> int:
        return 0


@dataclass(frozen=True)
class Launch:
    kernel: JITFunction
    grid: Any
    given: tuple[Any, ...]
    options: dict[str, Any]

    def key(self) -> str:
        """Equal ones have one machine code."""
        given = [x.dtype if isinstance(x, torch.Tensor) else x for x in self.given]
        return f"{self.kernel.__module__} {self.kernel.__name__} {given} {self.options}"


class Recorder:
    """In place of a kernel: keeps what it is launched with."""

    def __init__(self, kernel: Any, found: dict[str, Launch]) -> None:
        self.kernel, self.found = kernel, found

    def __getitem__(self, grid: Any) -> Any:
        return partial(self.launch, grid)

    def launch(self, grid: Any, *given: Any, **options: Any) -> None:
        kernel, tried = self.kernel, [{}]
        if isinstance(kernel, Autotuner):
            kernel, tried = kernel.fn, [c.all_kwargs() for c in kernel.configs]
        for more in tried:
            both = {**options, **more}
            made = Launch(kernel, grid(both) if callable(grid) else grid, given, both)
            self.found[made.key()] = made


def record(kernels: ModuleType) -> dict[str, Launch]:
    """All launches from now on, on tensors that have no memory."""
    found: dict[str, Launch] = {}
    for name, value in list(vars(kernels).items()):
        if isinstance(value, JITFunction | Autotuner) and is_launched(name):
            setattr(kernels, name, Recorder(value, found))
    kernels.__dict__["runs_triton"] = lambda *given: True
    torch.cuda.device_of = lambda x: nullcontext()  # type: ignore[assignment,misc]
    return found


def is_launched(name: str) -> bool:
    return name.endswith("_kernel") or name == "combine_parts"


def set_precision(kind: str) -> None:
    wanted = "tf32" if kind == "tf32" else "ieee"
    torch.backends.cuda.matmul.fp32_precision = wanted
    torch.backends.cudnn.conv.fp32_precision = wanted  # type: ignore[attr-defined]


# ---- what is launched


def launches_of_a_package(folder: Path, kind: str) -> Iterator[Launch]:
    package = imported(folder)
    model, kernels = (
        sys.modules[f"{package.__name__}.{part}"] for part in ("model", "kernels")
    )
    found = record(kernels)
    run(model, TYPES[kind])
    yield from found.values()


def launches_of_a_group(path: Path, kind: str, every_tile: bool) -> Iterator[Launch]:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = record(module)
    for call in json.loads(path.with_suffix(".json").read_text("utf-8")):
        tensors = []
        for name, dims in call["tensors"]:
            dtype = getattr(torch, name)
            dtype = TYPES[kind] if dtype == torch.float32 else dtype
            tensors.append(torch.empty(dims, dtype=dtype, device="meta"))
        for tiles in heuristics(module)[: None if every_tile else 1]:
            module.__dict__["tiles"] = tiles
            module.fused(*tensors, *call["numbers"])
    assert found, path
    yield from found.values()


def heuristics(module: ModuleType) -> list[Any]:
    """Of the tile of a product: what it says of few rows and columns, and of many."""
    plain = getattr(module, "tiles", None)
    if plain is None:
        return [None]

    def tiles(count: int, *given: Any, **left: int) -> dict[str, int]:
        made: dict[str, int] = plain(count, count, *given[2:4], **left)
        return made

    return [plain, *(partial(tiles, count) for count in (16, 256, 512, 4096))]


def launches(folder: Path, kind: str, every_tile: bool) -> Iterator[Launch]:
    set_precision(kind)
    if (folder / "model.py").exists():
        yield from launches_of_a_package(folder, kind)
        return
    for path in sorted(folder.glob("*.py")):
        yield from launches_of_a_group(path, kind, every_tile)


# ---- what a GPU needs for it


def compile_for(target: Target, launch: Launch) -> list[str]:
    """What is wrong with it."""
    driver.set_active(target)  # type: ignore[arg-type]
    made = launch.kernel.warmup(*launch.given, grid=launch.grid, **launch.options)
    name = f"{launch.kernel.__module__}.{launch.kernel.__name__}"
    where = f"{name} {launch.options} for {target.name}"
    registers, spilled = (amd if "amdgcn" in made.asm else cuda)(made)
    threads = made.metadata.num_warps * made.metadata.target.warp_size
    target.launches += 1
    target.shared = max(target.shared, made.metadata.shared)
    target.registers = max(target.registers, registers)
    if spilled:
        target.spilled[where] = spilled
        print(f"{where} spills {spilled} bytes", flush=True)
    wrong = []
    if made.metadata.shared > SHARED[target.name] << 10:
        wrong.append(f"{where}: {made.metadata.shared} bytes of shared memory")
    if threads > MOST_THREADS:
        wrong.append(f"{where}: {threads} threads")
    axes = [*launch.grid, 1, 1]
    if axes[0] >= 2**31 or max(axes[1:]) >= 2**16:
        wrong.append(f"{where}: {launch.grid} programs")
    return wrong


def cuda(made: Any) -> tuple[int, int]:
    """Registers of a thread, and bytes of its stack, where they are spilled to."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
    ((registers, stack),) = re.findall(r"REG:(\d+) STACK:(\d+)", said.stdout)
    return int(registers), int(stack)


def amd(made: Any) -> tuple[int, int]:
    def number(name: str) -> int:
        found = re.search(rf"\.{name}:\s+(\d+)", made.asm["amdgcn"])
        assert found is not None
        return int(found[1])

    return number("vgpr_count"), 4 * number("vgpr_spill_count")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--targets", default=",".join(SHARED))
    parser.add_argument("--types", default=",".join(TYPES))
    parser.add_argument("--every-tile", action="store_true", help="of products")
    given = parser.parse_args()
    wrong = []
    targets = [Target(name) for name in given.targets.split(",")]
    for folder in given.folders:
        for kind in given.types.split(","):
            for launch in list(launches(folder, kind, given.every_tile)):
                for target in targets:
                    if kind == "tf32" and target.name.startswith("gfx"):
                        continue  # never asked for there
                    wrong += compile_for(target, launch)
    for target in targets:
        print(
            f"| {target.name} | {target.launches} | {target.shared / 1024:.0f} of "
            f"{SHARED[target.name]} | {target.registers} | {len(target.spilled)} |"
        )
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
