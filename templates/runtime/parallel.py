"""Stands for the parallel.py of a package: a plan as plain data, and what runs it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import ScheduleGPipe
from torch.utils._pytree import tree_leaves

from . import devices, model

NETWORK = "Network"
MESH: dict[str, int] = {"tp": 2}
HELD: list[int] = []
EXCHANGES: dict[str, int] = {}
WAYS: devices.Ways = {}
PARTS: dict[str, int] = {}
STAGES: list[list[str]] = []
CROSSING: list[list[int]] = []
RESULTS: list[list[str]] = []
BLOCKS: list[str] = []
TIES: dict[str, str] = {}
BATCHES = 1
SIZES: dict[str, int] = {}


def make_mesh(device: str = "cpu") -> DeviceMesh:
    """All devices that torchrun started. Raises ValueError for another number."""
    return devices.mesh_of(MESH, device)


def load(mesh: DeviceMesh, weights: str | Path = model.WEIGHTS) -> nn.Module:
    """What this device runs, a devices.Stage where there are several; it reads its
    slices of `weights` and no more. Raises ValueError for those of another network."""
    number = mesh["pp"].get_local_rank() if "pp" in MESH else 0
    absent = devices.absent_modules(STAGES, number)
    with torch.device("meta"):
        network: nn.Module = getattr(model, NETWORK)()
    if "tp" in MESH:
        names = tree_leaves(devices.arranged(model.INPUTS, model))
        axes = {name: devices.axis_of(PARTS, name) for name in names}
        devices.cut_layers(network, mesh["tp"], WAYS, axes, absent)
    with devices.Weights(weights, model.MODEL_SHA256) as file:
        devices.read(network, file, mesh.device_type, WAYS, TIES, absent)
    network.eval().requires_grad_(False)
    if "pp" in MESH:
        names = tree_leaves(devices.arranged(model.OUTPUTS, model))
        own = [name in RESULTS[number] for name in names]
        return devices.Stage(network, number, STAGES, CROSSING, own)
    return network


def pipeline(
    stage: devices.Stage, mesh: DeviceMesh, batches: int = BATCHES
) -> ScheduleGPipe:
    """Runs `batches` parts of a batch in turn: step(x0=..., x1=...) on every device
    returns the results; those of other stages (RESULTS) are on the meta device. Caches
    of other stages may be, too, as they are returned."""
    return devices.pipeline_of(stage, mesh, batches)


def fully_sharded(network: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """For training: what each device holds is cut over `dp`, block by block. Its
    parameters need `requires_grad_()`."""
    for path in BLOCKS:
        fully_shard(network.get_submodule(path), mesh=mesh["dp"])
    fully_shard(network, mesh=mesh["dp"])
    return network


def save(network: nn.Module, path: str | Path) -> None:
    """Write what all devices hold as the one file that every plan reads; of several
    stages, files with `path` as their index. All devices have to call it."""
    devices.save(network, path, model.MODEL_SHA256, WAYS, TIES)


def check() -> None:
    """Compare with the whole network. Raises ValueError where a result is another, and
    where bytes or exchanges are not those of the plan."""
    mesh = make_mesh()
    report = json.loads(Path(__file__).with_name("report.json").read_text("utf-8"))
    inputs = devices.make_inputs(model.INPUTS, report, SIZES)
    feeds = dict(zip(model.INPUTS, inputs, strict=True))
    network = load(mesh)
    tolerance = max(report["tolerance"].values(), default=1e-4)
    planned = HELD[mesh["pp"].get_local_rank() if "pp" in MESH else 0], EXCHANGES
    given = network, model, feeds, mesh, PARTS, BATCHES, tolerance, planned
    devices.report_check(devices.compare(*given))
