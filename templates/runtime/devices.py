"""How a network runs on several devices, by the plan in parallel.py; the same in every
package. torch.distributed does the work: DTensor, fully_shard, sending.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import (
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_unflatten,
)

SENT = "bytes sent"  # from stage to stage
TIMEOUT = timedelta(seconds=120)  # until a device that doesn't answer is an error

# How a layer is cut, and how many products lie side by side in its columns, or their
# sizes in proportion; a tensor, and along which axis.
Way = tuple[str, int | tuple[int, ...]]
Ways = Mapping[str, Way]
Run = Callable[..., Any]
Sizes = Mapping[str, Any]  # devices along each dimension, "tp" by stage if they differ
STYLES = {
    "columns": ColwiseParallel(use_local_output=False),
    "rows": RowwiseParallel(),
    "gathered": ColwiseParallel(output_layouts=Replicate()),
    "vocabulary": RowwiseParallel(input_layouts=Replicate()),
}


def mesh_of(sizes: Sizes, device: str = "cpu") -> DeviceMesh:
    """The devices that share a stage with this one, of all that torchrun started.
    Raises ValueError for another number than the plan is for."""
    world, ranks = int(os.environ.get("WORLD_SIZE", "1")), ranks_of(sizes)
    need = sum(stage.numel() for stage in ranks)
    if world != need:
        raise ValueError(
            f"the plan is for {need} devices, {dict(sizes)}, and not for {world}"
        )
    if not dist.is_initialized():
        dist.init_process_group(timeout=TIMEOUT)
    # All devices make the groups of all stages, in the same order.
    made = [DeviceMesh(device, x, mesh_dim_names=("dp", "tp")) for x in ranks]
    return made[stage_of(sizes)]


def ranks_of(sizes: Sizes) -> list[Tensor]:
    """The devices of each stage, by rows of a batch and parts of the layers."""
    dp, tp, found, first = sizes.get("dp", 1), sizes.get("tp", 1), [], 0
    for count in tp if isinstance(tp, list) else [tp] * sizes.get("pp", 1):
        found.append(torch.arange(first, first + dp * count).view(dp, count))
        first += dp * count
    return found


def stage_of(sizes: Sizes) -> int:
    """The number of the stage that this device has."""
    ends = [int(stage.max()) for stage in ranks_of(sizes)]
    return sum(end < dist.get_rank() for end in ends)


def way(ways: Ways, path: str) -> Way | None:
    """How the layer at `path` is cut, as its copies in other blocks are."""
    return ways.get(path) or ways.get(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path))


def shares_of(cut: Way | None) -> Sequence[int]:
    """The sizes in proportion of the products that lie side by side in a layer."""
    pieces = cut[1] if cut else 1
    return (1,) * pieces if isinstance(pieces, int) else pieces


def within(name: str, paths: Collection[str]) -> bool:
    """Whether a tensor or module is in one of the modules."""
    parts = name.split(".")
    return any(".".join(parts[: i + 1]) in paths for i in range(len(parts)))


def arranged(names: Collection[str], model: Any) -> list[Any]:
    """Names of inputs or results as the network of model.py takes or gives them: in
    lists, where it does. It takes these behind all else."""
    nested = getattr(model, "NESTED", {}).values()
    lists = {tree_leaves(rows)[0]: rows for rows in nested}
    inner = set(tree_leaves(list(nested)))
    if names is model.INPUTS:
        plain: list[Any] = [name for name in names if name not in inner]
        return plain + [rows for first, rows in lists.items() if first in names]
    inner -= lists.keys()
    return [lists.get(name, name) for name in names if name not in inner]


def axis_of(parts: Mapping[str, int], name: str) -> int | None:
    """Along which axis a device has its part of an input or a result; None: all."""
    return parts.get(name, parts.get(re.sub(r"\d+", "*", name)))


def cut_layers(
    network: nn.Module, mesh: DeviceMesh, ways: Ways, axes: Mapping[str, int | None]
) -> nn.Module:
    """Cut the layers over `mesh`, which has one dimension; those of other stages too,
    for the sizes of what they give. `axes` are those along which its inputs are cut;
    generate.py asks for its `parts`.
    """
    found = {path: way(ways, path) for path, _ in network.named_modules()}
    styles = {path: STYLES[cut[0]] for path, cut in found.items() if cut is not None}
    for name, old in network.state_dict(keep_vars=True).items():
        cut = way(ways, name)
        if cut is not None and isinstance(cut[1], int):
            owner, _, leaf = name.rpartition(".")
            part = distribute_tensor(old, mesh, [Shard(cut[1])])
            module = network.get_submodule(owner)
            if isinstance(old, nn.Parameter):
                module.register_parameter(leaf, nn.Parameter(part))
            else:
                module.register_buffer(leaf, part)
    cut_inputs = {name: (a, mesh.size()) for name, a in axes.items() if a is not None}
    vars(network)["parts"] = cut_inputs
    network.forward = partial(_cut_forward, network.forward, mesh, [*axes.values()])
    parallelize_module(network, mesh, styles)
    for path in styles:
        shares = shares_of(found[path])
        if len(shares) > 1:
            network.get_submodule(path).register_forward_hook(partial(_joint, shares))
    return network


def _joint(shares: Sequence[int], module: nn.Module, args: Any, made: Any) -> None:
    """Note that products lie side by side in what a layer gives."""
    made.joint = len(shares)


def _cut_forward(
    forward: Callable[..., Any],
    mesh: DeviceMesh,
    axes: Sequence[int | None],
    *args: Any,
) -> Any:
    given, form = tree_flatten(args)
    given = [
        x if a is None else _shard(x, mesh, a) for x, a in zip(given, axes, strict=True)
    ]
    with implicit_replication(), OwnParts():
        made = forward(*tree_unflatten(given, form))
    return tree_map_only(DTensor, DTensor.to_local, made)


def _shard(own: Tensor, mesh: DeviceMesh, axis: int) -> DTensor:
    """A device's part as one of a whole; that of a cache as a plain tensor."""
    own = own.as_subclass(Tensor)
    return DTensor.from_local(own, mesh, [Shard(axis)], run_check=False)


class OwnParts(TorchFunctionMode):
    """Attention by heads, and the parts of products that lie side by side: each device
    computes its own, where DTensor would gather them. What experts give is added up at
    once, where DTensor would wait."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        joint = next((x for x in args if hasattr(x, "joint")), None)
        if joint is None:
            return self._made(func, args, kwargs or {})
        made = self._made(func, [_own_pieces(x, joint) for x in args], kwargs or {})
        if _cut(made) == _cut(joint):
            made.joint = joint.joint
        return made

    def _made(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        attends = func is F.scaled_dot_product_attention
        # Values may be cut alone: queries and keys of a norm over all heads aren't.
        first = next(filter(_cut, args), None) if attends else [*args, None][0]
        if isinstance(first, DTensor) and first.placements[0].is_shard():
            if attends:
                own = partial(_own_heads, first)
                given = {name: own(value) for name, value in kwargs.items()}
                return like(first, func(*map(own, args), **given))
            if func is Tensor.sum:
                made: Any = func(*args, **kwargs)
                return made.full_tensor() if made.placements[0].is_partial() else made
            if func in (Tensor.unflatten, Tensor.flatten, Tensor.reshape):
                alike = torch.empty(first.shape, device="meta")
                made = _own_view(first, func(alike, *args[1:], **kwargs).shape)
                return func(*args, **kwargs) if made is None else made
            dim = kwargs.get("dim", args[2] if len(args) > 2 else 0)
            apart = func in (Tensor.chunk, Tensor.split)
            if apart and first.placements[0].is_shard(dim % first.ndim):
                sizes, count = args[1], first.device_mesh.size()
                if not isinstance(sizes, int):
                    sizes = [size // count for size in sizes]
                parts = func(first.to_local(), sizes, *args[2:], **kwargs)
                return tuple(like(first, part) for part in parts)
        return func(*args, **kwargs)


def _cut(value: Any) -> int:
    """The size of the axis along which a tensor is cut; 0 of others."""
    placed = value.placements[0] if isinstance(value, DTensor) else None
    return int(value.shape[placed.dim]) if isinstance(placed, Shard) else 0


def _own_pieces(value: Any, joint: Any) -> Any:
    """A device's part of what goes with pieces side by side, as they are cut: DTensor
    would take all of the first ones."""
    axis = joint.placements[0].dim - joint.ndim
    plain = isinstance(value, Tensor) and not isinstance(value, DTensor)
    if not plain or value.ndim < -axis or value.shape[axis] != _cut(joint):
        return value
    mesh, axis = joint.device_mesh, axis + value.ndim
    pieces = value.unflatten(axis, (joint.joint, -1)).chunk(mesh.size(), axis + 1)
    return _shard(pieces[mesh.get_local_rank()].flatten(axis, axis + 1), mesh, axis)


def _own_view(value: Any, shape: Sequence[int]) -> DTensor | None:
    """A device's part of a tensor under other axes, where pieces lie side by side in
    the one that is cut, before or then; None where none do."""
    (placed,), mesh, axis = value.placements, value.device_mesh, 0
    before = getattr(value, "joint", 1)
    pieces = math.prod(value.shape[: placed.dim]) * before
    while pieces >= shape[axis] > 0:
        pieces, axis = pieces // shape[axis], axis + 1
    if before == 1 >= pieces:
        return None
    own = [*shape[:axis], shape[axis] // mesh.size(), *shape[axis + 1 :]]
    made = _shard(value.to_local().reshape(own), mesh, axis)
    if pieces > 1:
        vars(made)["joint"] = pieces
    return made


def like(other: DTensor, own: Tensor) -> DTensor:
    """A device's part of a tensor that lies on all as another does."""
    mesh, placed = other.device_mesh, other.placements
    return DTensor.from_local(own, mesh, placed, run_check=False)


def _own_heads(other: DTensor, value: Any) -> Any:
    """A device's part of what attention takes; a mask for all heads is whole."""
    if not isinstance(value, Tensor):
        return value
    mesh, (placed,) = other.device_mesh, other.placements
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [Replicate()], run_check=False)
    assert isinstance(placed, Shard)
    axis = placed.dim + value.ndim - other.ndim
    own = Shard(axis) if axis >= 0 and value.shape[axis] > 1 else Replicate()
    return value.redistribute(placements=[own]).to_local()


class _Reached(Exception):
    """The next stage begins here."""


class Links:
    """How a stage is given what crosses over, and hands it on: each byte goes from a
    stage to the next once, however many devices either has.

    Device i of the n that take a tensor gets the i-th of n slices, by device i % m of
    the m that have it; the n gather them.
    """

    def __init__(self, mesh: DeviceMesh, sizes: Sizes) -> None:
        number, row = stage_of(sizes), mesh["dp"].get_local_rank()
        ranks = [stage[row].tolist() for stage in ranks_of(sizes)]
        self.lanes: list[list[int]] = [[], *ranks, []]
        self.before, self.own, self.after = self.lanes[number : number + 3]
        self.mesh, self.place = mesh["tp"], mesh["tp"].get_local_rank()
        self.sent: list[Any] = []

    def take(self, like: Tensor) -> Tensor:
        """What crosses over in the place of a tensor of its sizes."""
        size, count = like.nbytes, len(self.own)
        part = torch.empty(-(-size // count), dtype=torch.uint8, device=like.device)
        if size:
            dist.recv(part, self.before[self.place % len(self.before)])
        if size and count > 1:
            whole = DTensor.from_local(part, self.mesh, [Shard(0)], run_check=False)
            part = whole.full_tensor()
        found = part[:size].view(like.dtype).view(like.shape)
        # In the order in memory that it had, with which sums are the same to the bit.
        return found.new_empty_strided(like.shape, like.stride()).copy_(found)

    def give(self, value: Tensor) -> None:
        """Hand a tensor on; `wait` for that before the next batch."""
        raw, count = value.contiguous().flatten().view(torch.uint8), len(self.after)
        parts = F.pad(raw, (0, -len(raw) % count)).chunk(count) if len(raw) else ()
        for i in range(self.place, len(parts), len(self.own)):
            self.sent.append((dist.isend(parts[i], self.after[i]), parts[i]))

    def share(self, value: Tensor, owner: int) -> Tensor:
        """A result of a stage, on the devices of all others too."""
        source, *_ = own = self.lanes[owner + 1]
        if dist.get_rank() == source:
            others = {rank for lane in self.lanes for rank in lane} - {*own}
            value = value.contiguous()
            self.sent += [(dist.isend(value, rank), value) for rank in sorted(others)]
        elif dist.get_rank() not in own:
            value = torch.empty_like(value, device=self.mesh.device_type)
            dist.recv(value, source)
        return value

    def wait(self) -> None:
        """Until all is sent."""
        while self.sent:
            self.sent.pop()[0].wait()


class Stage(nn.Module):
    """A network of which one stage computes.

    What other stages have gives zeros, which are exchanged for what crosses over where
    the stage begins. `crossing` are the arguments of the first module of each later
    stage that cross over to it, `results` the names of those that each stage makes, in
    `names` in their order: a stage that makes none ends where the next one begins.
    """

    links: Links

    def __init__(
        self,
        model: nn.Module,
        number: int,
        stages: Sequence[Sequence[str]],
        crossing: Sequence[Sequence[int]],
        results: Sequence[Collection[str]],
        names: Sequence[str],
    ) -> None:
        super().__init__()
        self.model, self.number = model, number
        self.takes: Sequence[int] = crossing[number - 1] if number else ()
        self.gives: Sequence[int] = crossing[number] if number + 1 < len(stages) else ()
        self.owners = [i for x in names for i, own in enumerate(results) if x in own]
        self.names, self.ends = names, number not in self.owners
        self.known: dict[int, tuple[Tensor, Tensor]] = {}
        here = {x.device for x in model.state_dict().values()} - {torch.device("meta")}
        device = min(here, key=str, default=torch.device("cpu"))
        part, later = model.get_submodule, stages[number + 1 :]
        # One module may have several paths, as a table that two parts share.
        absent = {*map(part, absent_modules(stages, number))}
        for module in absent - {*map(part, stages[number])}:
            held = [*module.parameters(), *module.buffers()]  # some by a part here
            away = deepcopy(module, {id(x): x.to("meta") for x in held})
            module.forward = partial(_zeros, away.forward, device)
        if number:
            part(stages[number][0]).register_forward_pre_hook(self._receive)
        for path in stages[number]:
            part(path).register_forward_pre_hook(self._exchange)
        if later:
            part(later[0][0]).register_forward_pre_hook(self._hand_on)

    def forward(self, *inputs: Any) -> Any:
        """The results, on the meta device those of other stages; None without any."""
        self.known = {}
        try:
            found, form = tree_flatten(self.model(*inputs))
        except _Reached:
            return None
        pairs = zip(map(self._real, found), self.owners, strict=True)
        found = [x if owner == self.number else x.to("meta") for x, owner in pairs]
        return tree_unflatten(found, form)

    def _real(self, value: Any) -> Any:
        return self.known[id(value)][1] if id(value) in self.known else value

    def _receive(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        for place in self.takes:
            self.known[id(args[place])] = args[place], self.links.take(args[place])

    def _exchange(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(map(self._real, args))

    def _hand_on(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        for place in self.gives:
            self.links.give(self._real(args[place]))
        if self.ends:
            raise _Reached


def absent_modules(stages: Sequence[Sequence[str]], number: int) -> set[str]:
    """The modules that other stages have, and this one has not."""
    own = set(stages[number]) if stages else set()
    return {path for stage in stages for path in stage} - own


def _zeros(forward: Callable[..., Any], device: torch.device, *args: Any) -> Any:
    """What a module that isn't here would give, in shape and type."""
    with torch.device("meta"):  # of what it makes of sizes alone, too
        made = forward(*tree_map_only(Tensor, lambda x: x.to("meta"), args))
    return tree_map_only(Tensor, partial(_zeros_like, device=device), made)


def _zeros_like(x: Tensor, device: torch.device) -> Tensor:
    if not isinstance(x, DTensor):
        return torch.zeros_like(x, device=device)
    return like(x, torch.zeros_like(x.to_local(), device=device))


def in_turn(run: Run, batches: int, given: Sequence[Any]) -> Any:
    """What parts of a batch give, one after another, put together."""
    found, form = tree_flatten(given)
    parts = [x.chunk(batches) if batches > 1 else (x,) for x in found]
    made = [run(*tree_unflatten(row, form)) for row in zip(*parts, strict=True)]
    if len(made) < 2 or made[0] is None:
        return made[0]
    return tree_map(lambda *parts: torch.cat(parts), *made)


class Pipeline:
    """Parts of a batch pass the stages in turn, as GPipe has it; those of
    torch.distributed.pipelining need as many devices in each stage."""

    def __init__(self, stage: Stage, links: Links, batches: int) -> None:
        self.stage, self.links, self.batches = stage, links, batches
        stage.links = links
        self.parts = vars(stage.model).get("parts")  # as generate.py asks
        self.caches: set[str] = set()  # its names of results
        with suppress(ModuleNotFoundError):  # where a network has none
            file = importlib.import_module(".caches", __package__)
            self.caches = {x for x, _ in [*file.CACHES.values(), *file.CROSS.values()]}

    def step(self, *args: Any, **inputs: Any) -> Any:
        """The results, on the meta device those of other stages; None without any."""
        made = in_turn(self.stage, self.batches, [*args, *inputs.values()])
        self.links.wait()
        return made

    def __call__(self, *inputs: Any) -> Any:
        """As the network on one device, for generate.py: each device has all results,
        but zeros for the caches of other stages."""
        self.stage.ends = False  # the sizes of all results are needed
        made, form = tree_flatten(self.step(*inputs))
        pairs = zip(self.stage.names, self.stage.owners, strict=True)
        for i, (name, owner) in enumerate(pairs):
            value = made[i]
            if name not in self.caches:
                made[i] = self.links.share(value, owner)
            elif value.is_meta:
                device = self.links.mesh.device_type
                zero = torch.zeros((), dtype=value.dtype, device=device)
                made[i] = zero.expand(value.shape)
        self.links.wait()
        return tree_unflatten(made, form)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Those on this device."""
        return (x for x in self.stage.parameters() if not x.is_meta)

    def buffers(self) -> Iterator[Tensor]:
        """Those on this device."""
        return (x for x in self.stage.buffers() if not x.is_meta)


def held_bytes(model: nn.Module) -> int:
    """Bytes of the parameters and buffers on this device, each once."""
    tensors = tree_leaves(list(model.state_dict().values()))
    parts = [x.to_local() if isinstance(x, DTensor) else x for x in tensors]
    here = {x.data_ptr(): x.nbytes for x in parts if x.device.type != "meta"}
    return sum(here.values())


def make_inputs(
    inputs: Mapping[str, tuple[str, Sequence[Any] | None]],
    report: Mapping[str, Any],
    sizes: Mapping[str, int],
) -> Iterator[Tensor]:
    """Random values that suit the network, the same on every device."""
    torch.manual_seed(0)
    for name, (dtype, shape) in inputs.items():
        dims = [
            size if isinstance(size, int) else sizes[size or f"{name}#{axis}"]
            for axis, size in enumerate(shape or ())
        ]
        limits = report["inputs"].get(name, {"low": 0, "high": 2})
        is_float = "float" in dtype
        drawn = torch.randn(dims) if is_float else torch.randint(**limits, size=dims)
        yield drawn.to(getattr(torch, dtype))


class Collectives(TorchDispatchMode):
    """Counts exchanges by name, and bytes that are sent. PyTorch's CommDebugMode takes
    no module that runs more than once."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if DTensor in types:
            return NotImplemented  # until DTensor has said what that is on this device
        if func.namespace == "_c10d_functional":
            name = func.overloadpacket.__name__
            real = not any(x.is_meta for x in args if isinstance(x, Tensor))
            if real and name != "wait_tensor" and not name.startswith("_"):
                self.counts[name] += 1
        elif func.namespace == "c10d" and func.overloadpacket.__name__ == "send":
            self.counts[SENT] += sum(x.nbytes for x in args[0])
        return func(*args, **kwargs or {})


def compare(
    network: nn.Module,
    run: Run,
    model: Any,
    feeds: Mapping[str, Tensor],
    mesh: DeviceMesh,
    parts: Mapping[str, int],
    batches: int,
    tolerance: float,
    plan: tuple[Sequence[int], Mapping[str, int]],
) -> str:
    """What a run of all devices came to, beside the whole network of model.py on one.

    `parts` are the axes of inputs and results of which this device has its part, `plan`
    the bytes that devices of each stage should hold, and what is exchanged. Raises
    ValueError on all devices where one of them differs; stages that cut no layer have
    to give the bits that one device gives of the same parts of a batch.
    """
    counted, results = Collectives(), tree_leaves(arranged(model.OUTPUTS, model))
    takes, dp = arranged(model.INPUTS, model), mesh["dp"]
    rows = dp.get_local_rank(), dp.size()
    with torch.no_grad():
        alone = model.load()
        made = tree_leaves(alone(*tree_map(feeds.__getitem__, takes)))
        own = {name: _part(x, 0, *rows) for name, x in feeds.items()}
        cut = partial(_part_of, mesh, parts)
        expected = {name: cut(name, x) for name, x in zip(results, made, strict=True)}
        given = tree_map(lambda name: cut(name, own[name]), takes)
        with counted:
            got = run(*given)
        apart = _apart(network, partial(in_turn, alone, batches, given), got)
    pairs = [] if got is None else zip(tree_leaves(got), expected.values(), strict=True)
    pairs = [(a, _rows_of(b, a.shape, rows[0])) for a, b in pairs]
    here = [a.device.type != "meta" for a, _ in pairs] or [False] * len(expected)
    errors = [_error(*pair) for pair, own in zip(pairs, here, strict=False) if own]
    number = network.number if isinstance(network, Stage) else 0
    held, (planned, exchanges) = held_bytes(network), plan
    found = [max(errors, default=0.0), apart, held != planned[number], *here]
    worst = torch.tensor(found, dtype=torch.float64)
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    # Devices of a stage exchange the same, but each sends bytes of its own.
    alike = mesh.size() * batches
    mine = {k: n if k == SENT else n / alike for k, n in counted.counts.items()}
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    sums: Counter[str] = Counter()
    for others in every:
        sums.update(others)
    counts = {name: round(n, 6) for name, n in sums.items()}
    same = "" if worst[1] < 0 else f", {worst[1]:.1e} of the same parts of a batch"
    said = f"worst relative error {worst[0]:.1e}{same}; {held:,} bytes, {counts}"
    exact = counts == exchanges and worst[1] <= 0 == worst[2] and worst[3:].all()
    if not float(worst[0]) <= tolerance or not exact:
        raise ValueError(f"not as planned ({planned}, {dict(exchanges)}): {said}")
    return said


def _apart(network: nn.Module, alone: Callable[[], Any], got: Any) -> float:
    """How far stages that cut no layer are from one device with the same parts of a
    batch; -1 for others."""
    lanes = network.links.lanes if isinstance(network, Stage) else []
    if got is None or max(map(len, lanes), default=0) != 1:
        return -1.0
    pairs = zip(tree_leaves(got), tree_leaves(alone()), strict=True)
    return max((_error(a, b) for a, b in pairs if not a.is_meta), default=0.0)


def _part(whole: Tensor, axis: int, number: int, count: int) -> Tensor:
    return whole.chunk(count, axis)[number].contiguous()


def _part_of(
    mesh: DeviceMesh, parts: Mapping[str, int], name: str, whole: Tensor
) -> Tensor:
    """What this device has of an input or a result of all layers."""
    axis, tp = axis_of(parts, name), mesh["tp"]
    own = tp.get_local_rank(), tp.size()
    return whole if axis is None else _part(whole, axis, *own)


def _rows_of(whole: Tensor, part: Sequence[int], number: int) -> Tensor:
    """The part with this number, of the axis that is longer in the whole."""
    pairs = list(zip(whole.shape, part, strict=False))
    for axis in [i for i, (a, b) in enumerate(pairs) if a != b and b and not a % b]:
        return whole.narrow(axis, number * part[axis], part[axis])
    return whole


def _error(got: Tensor, expected: Tensor) -> float:
    """The largest difference over the largest magnitude; infinite in another shape."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return math.inf
    if not expected.numel():
        return 0.0
    a, b = got.double(), expected.double()
    same = (a == b) | (a.isnan() & b.isnan())
    scale = b[b.isfinite()].abs().max().clamp(1e-3) if b.isfinite().any() else 1.0
    difference = torch.where(same, 0.0, (a - b).abs() / scale).max()
    return math.inf if difference.isnan() else float(difference)


def report_check(said: str) -> None:
    """Print on the first device, and end."""
    if dist.get_rank() == 0:
        print(said, flush=True)
    dist.barrier()
    dist.destroy_process_group()
