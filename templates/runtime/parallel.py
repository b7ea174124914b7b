"""Stands for the parallel.py of a package: a plan as plain data, and what runs it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.utils._pytree import tree_leaves

from . import devices, model, slices

NETWORK = "Network"
MESH: devices.Sizes = {"tp": 2}
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
    """The devices that share a stage, of all that torchrun started. Raises ValueError
    for another number."""
    return devices.mesh_of(MESH, device)


def load(mesh: DeviceMesh, weights: str | Path = model.WEIGHTS) -> nn.Module:
    """What this device runs, a devices.Stage where there are several; it reads its
    slices of `weights` and no more. Raises ValueError for those of another network."""
    number = devices.stage_of(MESH)
    absent = devices.absent_modules(STAGES, number)
    with torch.device("meta"):
        network: nn.Module = getattr(model, NETWORK)()
    if mesh["tp"].size() > 1:
        names = tree_leaves(devices.arranged(model.INPUTS, model))
        axes = {name: devices.axis_of(PARTS, name) for name in names}
        devices.cut_layers(network, mesh["tp"], WAYS, axes)
    with slices.Weights(weights, model.MODEL_SHA256) as file:
        slices.read(network, file, mesh.device_type, WAYS, TIES, absent)
    network.eval().requires_grad_(False)
    if "pp" in MESH:
        names = tree_leaves(devices.arranged(model.OUTPUTS, model))
        return devices.Stage(network, number, STAGES, CROSSING, RESULTS, names)
    return network


def pipeline(
    stage: devices.Stage, mesh: DeviceMesh, batches: int = BATCHES
) -> devices.Pipeline:
    """Runs `batches` parts of a batch in turn: step(x0=..., x1=...) on every device
    returns the results; those of other stages (RESULTS) are on the meta device. Caches
    of other stages may be, too, as they are returned. generate.py takes it, too."""
    return devices.Pipeline(stage, devices.Links(mesh, MESH), batches)


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
    slices.save(network, path, model.MODEL_SHA256, WAYS, TIES)


def check() -> None:
    """Compare with the whole network. Raises ValueError where a result is another, and
    where bytes or exchanges are not those of the plan."""
    mesh = make_mesh()
    report = json.loads(Path(__file__).with_name("report.json").read_text("utf-8"))
    inputs = devices.make_inputs(model.INPUTS, report, SIZES)
    feeds = dict(zip(model.INPUTS, inputs, strict=True))
    network = load(mesh)
    tolerance = max(report["tolerance"].values(), default=1e-4)
    run: devices.Run = network
    if isinstance(network, devices.Stage):
        run = pipeline(network, mesh).step
    given = network, run, model, feeds, mesh, PARTS, BATCHES, tolerance
    devices.report_check(devices.compare(*given, (HELD, EXCHANGES)))
