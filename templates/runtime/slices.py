"""What each device reads of the weights, by the plan in parallel.py, and how what all
hold is written as one file; the same in every package.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard

from . import devices


class Weights:
    """The tensors of one safetensors file, or of several with an index
    (model.safetensors.index.json). Raises ValueError for those of another model."""

    def __init__(self, path: str | Path, sha256: str) -> None:
        path = Path(path)
        self.stack, self.files = ExitStack(), {}
        names = {path.name}
        self.places: Mapping[str, str] | None = None
        if path.suffix == ".json":
            index = json.loads(path.read_text(encoding="utf-8"))
            self.places = {str(k): str(v) for k, v in index["weight_map"].items()}
            names = set(self.places.values())
        for name in sorted(names):
            if Path(name).name != name:
                raise ValueError(f"{path}: {name!r} is not in its folder")
            opened = safe_open(path.parent / name, framework="pt")
            self.files[name] = file = self.stack.enter_context(opened)
            found = (file.metadata() or {}).get("model_sha256")
            if found != sha256:
                raise ValueError(f"{name} holds the weights of another model: {found}")
        self.only = min(names)

    def __enter__(self) -> Weights:
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()

    def part(self, key: str, old: Tensor, shares: Sequence[int]) -> Tensor:
        """What this device holds of a tensor like `old`; nothing else is read."""
        file = self.files[self.only if self.places is None else self.places[key]]
        placed = old.placements[0] if isinstance(old, DTensor) else None
        if not isinstance(old, DTensor) or not isinstance(placed, Shard):
            whole = file.get_tensor(key).expand(old.shape).contiguous()
            return devices.like(old, whole) if isinstance(old, DTensor) else whole
        stored = file.get_slice(key)
        if tuple(stored.get_shape()) != tuple(old.shape):  # one value throughout
            stored = file.get_tensor(key).expand(old.shape)
        dim, mesh = placed.dim, old.device_mesh
        ahead, found, start = (slice(None),) * dim, [], 0
        for share in shares:
            size = old.shape[dim] // sum(shares) * share
            step = size // mesh.size()
            first = start + step * mesh.get_local_rank()
            place = (*ahead, slice(first, first + step))
            found.append(stored[place])
            start += size
        return devices.like(old, torch.cat(found, dim))


def read(
    model: nn.Module,
    weights: Weights,
    device: str,
    ways: devices.Ways,
    ties: Mapping[str, str],
    absent: Collection[str] = (),
) -> None:
    """Give a network on the meta device its tensors, but for absent modules."""
    for module in model.modules():  # no file has how many training steps there were
        if hasattr(module, "num_batches_tracked"):
            module.register_buffer("num_batches_tracked", None)
    state: dict[str, Tensor] = {}
    for name, old in model.state_dict().items():
        if not devices.within(name, absent):
            cut = devices.way(ways, name.rpartition(".")[0])
            part = weights.part(ties.get(name, name), old, devices.shares_of(cut))
            state[name] = part.to(device)
    model.load_state_dict(state, strict=False, assign=True)
    shared: dict[str, nn.Parameter] = {}
    for name in [*ties.values(), *ties]:
        if name in state:
            owner, _, leaf = name.rpartition(".")
            own = model.get_parameter(name)
            parameter = shared.setdefault(ties.get(name, name), own)
            setattr(model.get_submodule(owner), leaf, parameter)


def save(
    network: nn.Module,
    path: str | Path,
    sha256: str,
    ways: devices.Ways,
    ties: Mapping[str, str],
) -> None:
    """Write what all devices hold as the one file that every plan reads.

    Each stage of a pipeline writes a file of its own; `path` is then their index
    (model.safetensors.index.json). All devices have to call it.
    """
    path, found = Path(path), {}
    number = network.number if isinstance(network, devices.Stage) else None
    model = network.model if isinstance(network, devices.Stage) else network
    for name, value in model.state_dict().items():
        if value.device.type != "meta" and ties.get(name, name) not in found:
            cut = devices.way(ways, name.rpartition(".")[0])
            found[ties.get(name, name)] = _in_order(value, devices.shares_of(cut))
    file = path.name if number is None else f"model-{number + 1:05}.safetensors"
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, (file, list(found)))
    if [name for name, _ in every].index(file) == dist.get_rank():
        save_file(found, path.parent / file, {"model_sha256": sha256})
    if number is not None and dist.get_rank() == 0:
        places = {key: name for name, keys in every for key in keys}
        path.write_text(json.dumps({"metadata": {}, "weight_map": places}, indent=1))
    dist.barrier()


def _in_order(value: Tensor, shares: Sequence[int]) -> Tensor:
    """All of a tensor; products that lie side by side are put together again."""
    value = value.detach()
    if not isinstance(value, DTensor):
        return value.cpu().contiguous()
    names, whole = value.device_mesh.mesh_dim_names or (), value.full_tensor().cpu()
    for i, place in enumerate(value.placements):
        if len(shares) == 1 or names[i] != "tp" or not isinstance(place, Shard):
            continue
        count, dim = value.device_mesh.size(i), place.dim
        unit = whole.shape[dim] // count // sum(shares)
        sizes = [unit * share for share in shares]
        parts = [part.split(sizes, dim) for part in whole.chunk(count, dim)]
        whole = torch.cat([x for same in zip(*parts, strict=True) for x in same], dim)
    return whole.contiguous()
