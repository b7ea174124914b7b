"""`fairhand bench --mesh`: rates of devices and of the links between them, measured."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ...analysis.errors import FairhandError
from ...analysis.lazy import lazy
from ...analysis.partition.machine import Machine

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

_SIDE = 1024  # of the matrices that are multiplied
_BYTES = 2**26  # that are copied, and added up over all devices
_CALLS = 8  # of which the least time counts
_TIMEOUT = timedelta(seconds=120)


def bench_mesh(path: Path, out: Console) -> None:
    """Measure the devices that torchrun started, and write what `--devices` reads.

    Each is a GPU where there is one, else a process. Raises FairhandError where
    torchrun started none.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world < 2:
        what = "--mesh measures several devices, and there is one"
        hint = f"torchrun --nproc-per-node 2 -m fairhand bench --mesh {path}"
        raise FairhandError(what, hint=hint)
    here = int(os.environ.get("LOCAL_RANK", "0"))
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", here) if gpu else torch.device("cpu")
    dist = torch.distributed
    dist.init_process_group("nccl" if gpu else "gloo", timeout=_TIMEOUT)
    try:
        found = asdict(_measured(path.stem, world, device))
        if dist.get_rank() == 0:
            name = found.pop("name")
            path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            told = ", ".join(f"{key} {number:.3g}" for key, number in found.items())
            out.print(f"{name}: {world} devices, {told}")
        dist.barrier()
    finally:
        dist.destroy_process_group()


def _measured(name: str, world: int, device: torch.device) -> Machine:
    """What the slowest device does; an exchange of n bytes takes alpha + n beta for
    each of its steps, as `Machine.sum` has it."""
    square = torch.ones(_SIDE, _SIDE, device=device)
    many = torch.ones(_BYTES // 4, device=device)
    few, reduce = many[:1].clone(), torch.distributed.all_reduce
    product = _seconds(lambda: square @ square, device)
    copy = _seconds(many.clone, device)
    one = _seconds(lambda: reduce(few), device)
    whole = _seconds(lambda: reduce(many), device)
    steps = 2 * (world - 1)
    times = torch.tensor([product, copy, one, whole], device=device)
    reduce(times, torch.distributed.ReduceOp.MAX)
    product, copy, one, whole = times.tolist()
    alpha = one / steps
    beta = max(whole - one, 0.0) / steps / (_BYTES / world)
    room = _memory(device) / int(os.environ.get("LOCAL_WORLD_SIZE", world))
    return Machine(name, 2 * _SIDE**3 / product, 2 * _BYTES / copy, alpha, beta, room)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    """The least of some calls, which all devices begin together."""
    taken = []
    for _ in range(_CALLS):
        torch.distributed.barrier()
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - start)
    return min(taken)


def _memory(device: torch.device) -> float:
    """Bytes of all devices of this machine."""
    if device.type == "cuda":
        each: int = torch.cuda.get_device_properties(device).total_memory
        return float(each * torch.cuda.device_count())
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
