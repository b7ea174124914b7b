"""Engines: ways to run model.py's network on a CPU, for Session(engine=...).

eager    the network as it stands, call by call
packed   the same, linear layers by oneDNN, their weights laid out once
auto     the fastest but for `compile`, measured after a few calls of each size

There are no others: a trace does not launch kernels.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Read when PyTorch first allocates: what has 2 MB and more is then in pages of 2 MB.
HUGE_PAGES = os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
FLOATS = (torch.float32, torch.bfloat16)  # what oneDNN computes in
WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"  # for oneDNN
ROWS = 2 if WIDE else 1  # for which weights are laid out that meet one
MOST_SIZES = 8  # that are prepared
MOST_SEEN = 64  # that are remembered
ALL = "all"  # sizes
FOR_ALL = ("packed",)  # engines that take all sizes as they come
BY_SIZE = ("onednn", "openvino", "aot")  # those that prepare each combination of sizes
SECONDS = 10.0  # after which no other engine is tried; FAIRHAND_SECONDS sets it
LIBRARY = 90.0  # seconds that one may take to make
CALLS = 5  # that are worth a measurement
QUICK = 2e-4  # seconds of a call that is not worth one
ROUNDS = 2  # in which engines are timed in turn, at least
TIMED = 0.5  # seconds, at least
WORTH = 1.03  # an engine that is faster by less isn't worth another copy of weights
Run = Callable[..., Any]
CLOSE = 1e-3  # of the largest result: what a wrong operator would exceed


def make_engine(
    name: str, model: nn.Module, device: torch.device
) -> Callable[..., Any]:
    """What a Session calls for `model`; elsewhere than on a CPU, eager or compiled."""
    if name not in ENGINES:
        raise ValueError(f"no engine {name!r}, the engines are {list(ENGINES)}")
    # glibc gives back to the system what is free beyond twice the largest block that it
    # ever got back: after this one 62 MB stay, for a call to find those of the last.
    torch.empty(31 * 2**20, dtype=torch.uint8, device="cpu")
    here = device.type == "cpu" or name == "compile"
    return ENGINES[name if here else "eager"](model)


def packed(model: nn.Module) -> nn.Module:
    """The model, with other layers on the same parameters."""
    network = on_same_parameters(model)
    pack(network)
    return network


def on_same_parameters(model: nn.Module) -> nn.Module:
    """A copy of the model, whose parameters are the model's own."""
    shared = {id(w): w for w in (*model.parameters(), *model.buffers())}
    return copy.deepcopy(model, shared).eval()


def pack(network: nn.Module) -> None:
    """Put other layers in the place of a network's."""
    for layer in list(network.modules()):
        for name, child in layer.named_children():
            made = PACKED.get(type(child))
            if made and all(w.dtype in FLOATS for w in child.parameters()):
                setattr(layer, name, made(child))


class LaidOutLinear(nn.Module):
    """A linear layer on a weight laid out once: for rows as told, or as come first."""

    def __init__(self, layer: Any, rows: int = 0):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias  # for who reads them
        self.laid_out = self.for_rows(rows) if rows else None

    def for_rows(self, rows: int) -> Any:
        if not WIDE and (rows == 1 or self.weight.numel() <= 2**18):
            return transposed(self.weight)
        return torch.ops.mkldnn._reorder_linear_weight(self.weight, rows)

    def forward(self, x: Tensor) -> Tensor:
        if self.laid_out is None:
            self.laid_out = self.for_rows(2 if x.numel() > x.shape[-1] else ROWS)
        if not self.laid_out.is_mkldnn:
            return F.linear(x, self.laid_out, self.bias)
        given: Any = x, self.laid_out, self.bias, "none", [], ""
        return torch.ops.mkldnn._linear_pointwise(*given)


def transposed(weight: Tensor) -> Tensor:
    """The same numbers, in memory by what they multiply: a product reads them so."""
    return weight.t().contiguous().t()


def kept(model: nn.Module, feeds: Any, ending: str) -> Path | None:
    """The file for such a purpose, in the folder of FAIRHAND_CACHE or in the user's.

    None where it is set to '', nobody's home is known, or the network has no source.
    """
    try:
        chosen = os.environ.get("FAIRHAND_CACHE")
        if chosen is None:
            users = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
            chosen = str(Path(users) / "fairhand")
        name = purpose(model, feeds) + ending
    except (OSError, TypeError, KeyError, RuntimeError):
        return None
    return Path(chosen) / "engines" / name if chosen else None


def is_kept(model: nn.Module, feeds: Any) -> bool:
    """Whether there is a library for these sizes, if perhaps of other weights."""
    file = kept(model, feeds, "")
    return file is not None and any(file.parent.glob(f"{file.name}-*.pt2"))


def purpose(model: nn.Module, feeds: Any) -> str:
    """A hash of what decides how fast an engine is: all but the values of weights."""
    names = {type(layer).__module__ for layer in model.modules()}
    own = sorted(name for name in names if not name.startswith("torch."))
    text = [inspect.getsource(sys.modules[name]) for name in own]
    where = (torch.__version__, processor(), torch.get_num_threads())
    types = [t.dtype for t in chain(model.parameters(), model.buffers())]
    told = (text, where, types, sizes_of(feeds))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:32]


def processor() -> str:
    """What code is compiled for."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line for line in lines if line.startswith("model name")]
    return f"{torch.backends.cpu.get_cpu_capability()} {names[:1]}"


class Auto:
    """For each combination of sizes and threads, the fastest engine.

    The first calls run the network as it stands. A later one prepares the engines that
    take all sizes, and times them and the network on its inputs; so does one, after
    enough calls of its sizes, with those that prepare each size. More sizes are timed
    once their calls took as long as the last measurement, since some keep changing. An
    engine that fails, takes too long or gives other results is given up. Times are kept
    in a file for other processes. Without memory for the weights twice more, and in
    threads beside one that measures, the network runs as it stands.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.plain: Run = ENGINES["eager"](model)
        self.base = self.plain  # for sizes that are new
        self.chosen: dict[Any, Run] = {}  # by threads and sizes
        self.measured: list[dict[str, Any]] = []  # what Session.engines() tells
        self.spent: dict[Any, tuple[int, float]] = {}  # calls and seconds, for ALL too
        self.has_base = False
        self.price = 0.0  # seconds that measuring the last sizes took
        self.lock = threading.Lock()

    def __call__(self, *feeds: Any) -> Any:
        key = (torch.get_num_threads(), *sizes_of(feeds))
        run = self.chosen.get(key)
        if run is not None:
            return run(*feeds)
        if self.lock.acquire(blocking=False):
            try:
                self.choose(key, feeds)
            finally:
                self.lock.release()
        begun = time.perf_counter()
        results = self.chosen.get(key, self.base)(*feeds)
        self.count(key, time.perf_counter() - begun)
        return results

    def count(self, key: Any, seconds: float) -> None:
        """One call more, which took so long: one that is over in no time is none."""
        if len(self.spent) > MOST_SEEN:
            self.spent = {ALL: self.spent[ALL]}
        for each in (ALL, key) if seconds >= QUICK else ():
            calls, before = self.spent.get(each, (0, 0.0))
            self.spent[each] = calls + 1, before + seconds

    def is_worth_it(self, key: Any, price: float = 0.0) -> bool:
        """Whether enough calls, of so many seconds, were made before."""
        calls, seconds = self.spent.get(key, (0, 0.0))
        return calls >= CALLS - 1 and seconds >= price

    def choose(self, key: Any, feeds: tuple[Any, ...]) -> None:
        """Measure what may be measured by a call of these sizes."""
        if any(0 in size for size in key[1:]):
            return
        if not self.has_base and self.is_worth_it(ALL):
            self.base, self.has_base = self.fastest(FOR_ALL, feeds, ()), True
        if len(self.chosen) < MOST_SIZES and self.is_worth_it(key, self.price):
            begun = time.perf_counter()
            self.chosen[key] = self.fastest(BY_SIZE, feeds, feeds)
            self.price = time.perf_counter() - begun

    def fastest(self, names: Iterable[str], feeds: Any, sizes: Any) -> Run:
        """`self.base`, or one of these engines if it is faster on what is fed."""
        names = [name for name in names if self.is_at_hand(name, sizes)]
        if not (names and has_room(self.model)):
            return self.base
        with warnings.catch_warnings():  # of engines that give the network up
            warnings.simplefilter("ignore")
            file = kept(self.model, sizes, ".json")
            ms = recalled(file, ["", *names])
            runs = {"": self.base}
            if not ms:
                runs |= prepared(names, self.model, feeds, self.plain)
                ms = dict.fromkeys(names, math.inf) | times(runs, feeds)
                remember(file, ms)
            best = min(ms, key=lambda name: ms[name] * (WORTH if name else 1))
            if best and best not in runs:
                runs |= prepared([best], self.model, feeds, self.plain)
        row = {"threads": torch.get_num_threads(), "sizes": sizes_of(sizes)}
        self.measured.append(row | {"engine": best, "ms": ms})
        return runs.get(best, self.base)

    def is_at_hand(self, name: str, sizes: Any) -> bool:
        """Whether an engine is there."""
        if name == "openvino" and find_spec("openvino") is None:
            return False
        if name == "aot" and budget() < LIBRARY and not is_kept(self.model, sizes):
            return False
        return name in ENGINES


def prepared(
    names: Iterable[str], model: nn.Module, feeds: Any, plain: Run
) -> dict[str, Run]:
    """Engines that give the network's results, ready for what is fed."""
    runs: dict[str, Run] = {}
    end = time.monotonic() + budget()
    wanted = plain(*feeds)
    for name in names:
        with suppress(RuntimeError, AttributeError, MemoryError):  # they have gaps
            if time.monotonic() > end:
                raise RuntimeError("the others took too long")
            run = ENGINES[name](model)
            if hasattr(run, "made_for"):
                run = run.made_for(feeds)
            for _ in range(2):  # layers join in the first, or a trace is made
                found = run(*feeds)
            check(found, wanted)
            runs[name] = run
    return runs


def times(runs: dict[str, Run], feeds: Any) -> dict[str, float]:
    """The least ms of each, run in turn."""
    least = dict.fromkeys(runs, math.inf)
    start, rounds = time.monotonic(), 0
    while rounds < ROUNDS or time.monotonic() - start < TIMED:
        rounds += 1
        for name, run in runs.items():
            begun = time.perf_counter()
            run(*feeds)
            least[name] = min(least[name], 1e3 * (time.perf_counter() - begun))
        if time.monotonic() - start > budget():
            break
    return least


def budget() -> float:
    """Seconds; SECONDS where FAIRHAND_SECONDS isn't set to a number."""
    with suppress(KeyError, ValueError):
        return float(os.environ["FAIRHAND_SECONDS"])
    return SECONDS


def has_room(model: nn.Module) -> bool:
    """Whether the weights fit into free memory twice; where that can't be told, yes."""
    try:
        lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return True
    tensors = (*model.parameters(), *model.buffers())
    # Up to four numbers stand in a byte: an engine may take them out, as float32.
    wider = {torch.uint8: 16, torch.float16: 2}
    weights = sum(t.nbytes * wider.get(t.dtype, 1) for t in tensors)
    return 2 * weights < 1024 * int(free.split()[1])


def recalled(file: Path | None, names: list[str]) -> dict[str, float]:
    """Times of these that were measured before; none where one wasn't."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        if file is not None:
            found = json.loads(file.read_text("utf-8"))
            ms = {name: float(found[name]) for name in names}
            if all(each > 0 for each in ms.values()):  # as NaN isn't
                return ms
    return {}


def remember(file: Path | None, ms: dict[str, float]) -> None:
    """Keep times for other processes, if the folder can be written."""
    if file is not None:
        with suppress(OSError):
            os.makedirs(file.parent, mode=0o700, exist_ok=True)
            partial = file.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(ms), "utf-8")
            partial.replace(file)


def check(found: Any, wanted: Any) -> None:
    """RuntimeError where results are no longer the network's."""
    for got, right in zip(listed(found), listed(wanted), strict=True):
        scale = right.double().abs().nan_to_num(0, 0, 0).max() if right.numel() else 0
        if not torch.allclose(
            got, right, rtol=0, atol=CLOSE * float(scale), equal_nan=True
        ):
            raise RuntimeError("the trace gives other results")


def listed(results: Any) -> list[Tensor]:
    if isinstance(results, Tensor):
        return [results]
    return [leaf for each in results for leaf in listed(each)]


def sizes_of(feeds: Any) -> tuple[tuple[int, ...], ...]:
    """Of all tensors in what is fed."""
    return tuple(tuple(tensor.shape) for tensor in listed(feeds))


PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {nn.Linear: LaidOutLinear}

ENGINES = {"eager": lambda model: model, "packed": packed, "auto": Auto}
