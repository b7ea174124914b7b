"""Engines: ways to run model.py's network on a CPU, for Session(engine=...).

eager    the network as it stands, call by call
packed   the same, linear layers by oneDNN, their weights laid out once
onednn   traced, frozen, and run by oneDNN Graph: layers fused, weights laid out once
openvino compiled by OpenVINO: where its wheel is installed
aot      a library by AOTInductor: 20 to 90 s and a C++ compiler, once for each size
compile  torch.compile: needs a C++ compiler, and 10 to 60 s for each new size
auto     the fastest but for `compile`, measured after a few calls of each size

All give the same results within the tolerance of report.json. Weights are taken over
when a size is prepared: make a new Session after changing them.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import json
import math
import os
import sys
import tempfile
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
from torch.overrides import TorchFunctionMode

# Read when PyTorch first allocates: what has 2 MB and more is then in pages of 2 MB.
HUGE_PAGES = os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
FLOATS = (torch.float32, torch.bfloat16)  # what oneDNN computes in
WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"  # for oneDNN
ROWS = 2 if WIDE else 1  # for which weights are laid out that meet one
MOST_SIZES = 8  # that are prepared
MOST_SEEN = 64  # that are remembered
# Preparing takes the square of a network's calls: 3 s for 1,300, and 164 s for 6,600.
MOST_CALLS = 2000
MOST_SCORES = 2**25  # of an attention, to be computed as products
SCORES = 2**22  # of it, to be held at once
# Weights are laid out once, and products are the fastest of several spellings.
INDUCTOR = {
    "freezing": True,
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
}
ALL = "all"  # sizes
FOR_ALL = ()  # engines that take all sizes as they come
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


def compiled(model: nn.Module) -> Callable[..., Any]:
    """PyTorch's compiler, the weights prepared once; torch bounds how often it runs."""
    graphs = any(p.is_cuda for p in model.parameters())
    options: dict[str, Any] = {"freezing": True, "triton.cudagraphs": graphs}
    return torch.compile(model, options=options)


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


class BySize:
    """The network, prepared for each combination of sizes and threads that recurs.

    A combination is prepared when it comes a second time, and checked against the
    network. At most MOST_SIZES are prepared and none is given up for another; for the
    rest the network runs as it stands. Several threads may call at once: one prepares,
    the others don't wait.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.prepared: dict[Any, Callable[..., Any]] = {}
        self.seen: set[Any] = set()
        self.lock = threading.Lock()

    def __call__(self, *feeds: Any) -> Any:
        key = (torch.get_num_threads(), *sizes_of(feeds))
        run = self.prepared.get(key)
        if run is None:
            run = self.prepare(key, feeds) if key in self.seen else self.model
            if len(self.seen) == MOST_SEEN:
                self.seen.clear()
            self.seen.add(key)
        return run(*feeds)

    def prepare(self, key: Any, feeds: tuple[Any, ...]) -> Callable[..., Any]:
        full = len(self.prepared) >= MOST_SIZES
        empty = any(0 in size for size in sizes_of(feeds))  # oneDNN gives anything
        if full or empty or not self.lock.acquire(blocking=False):
            return self.model
        try:
            if key not in self.prepared:
                self.prepared[key] = self.made_for(feeds)
        except (RuntimeError, AttributeError) as error:  # these have their gaps
            warnings.warn(f"the network runs as it stands: {error}", stacklevel=4)
            self.prepared[key] = self.model
        finally:
            self.lock.release()
        return self.prepared[key]

    def made_for(self, feeds: tuple[Tensor, ...]) -> Callable[..., Any]:
        """What gives the network's results on feeds of these sizes."""
        raise NotImplementedError


class OneDNN(BySize):
    """The network, traced.

    Preparing takes as long as a few dozen calls (0.2 to 2 s) and memory for another
    copy of the weights. Meanwhile oneDNN fusion is on for all that TorchScript compiles
    in this process.
    """

    def made_for(self, feeds: tuple[Tensor, ...]) -> Callable[..., Any]:
        return traced(self.model, feeds)


def traced(model: nn.Module, feeds: tuple[Tensor, ...]) -> Callable[..., Any]:
    """`model` for feeds of these sizes, compiled; RuntimeError where that fails."""
    before = torch.jit.onednn_fusion_enabled()
    torch.jit.enable_onednn_fusion(True)
    try:
        with warnings.catch_warnings():  # that torch.jit is to go, and sizes are fixed
            warnings.simplefilter("ignore")
            with Spelling(model):
                trace = torch.jit.trace(model, feeds, check_trace=False)
            run = torch.jit.freeze(trace)
            keep_terms(run.graph)
            for _ in range(3):  # the first records sizes, the second compiles
                found = run(*feeds)
    finally:
        torch.jit.enable_onednn_fusion(before)
    check(found, model(*feeds))
    return run


def keep_terms(graph: torch._C.Graph) -> None:
    """Spells sums so that none is written over a term that is read again later.

    oneDNN Graph does that to the sums that it knows, which a - -1 * b is not.
    """
    for total in graph.findAllNodes("aten::add"):
        terms = list(total.inputs())[:2]
        values = [term for term in terms if term.node().kind() != "prim::Constant"]
        if any(use.user.isAfter(total) for term in values for use in term.uses()):
            with graph.insert_point_guard(total):
                minus = graph.insertConstant(-1)
                other = graph.insertNode(graph.create("aten::sub", [*terms, minus]))
            other.output().setType(total.output().type())
            total.output().replaceAllUsesWith(other.output())
            total.destroy()


class Spelling(TorchFunctionMode):
    """Takes the place of calls that oneDNN Graph lacks, or takes for others."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.weights = {id(w) for w in (*model.parameters(), *model.buffers())}
        self.calls = 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls += 1
        if self.calls > MOST_CALLS:
            raise RuntimeError(f"it makes more than {MOST_CALLS} calls")
        if function in (Tensor.add, Tensor.mul) and len(args) == 2:
            args = self.spread(*args), self.spread(*args[::-1])
        return SPELLINGS.get(function, function)(*args, **(kwargs or {}))

    def spread(self, x: Any, other: Any) -> Any:
        """A weight as wide as what it meets: behind a product oneDNN loses it else."""
        if id(x) not in self.weights or not isinstance(other, Tensor):
            return x
        return x.expand(torch.broadcast_shapes(x.shape, other.shape))


def strided(pool: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """With the stride that a pool without one has."""

    def call(x: Tensor, kernel_size: Any, stride: Any = None, *a: Any, **k: Any) -> Any:
        return pool(x, kernel_size, stride or kernel_size, *a, **k)

    return call


def mean(x: Tensor, dim: Any = None, keepdim: bool = False, **k: Any) -> Tensor:
    """Over an image, as one pool."""
    if x.ndim != 4 or k or dim not in ((2, 3), (-2, -1), (-1, -2), [2, 3], [-2, -1]):
        return torch.mean(x, dim, keepdim, **k)
    pooled = F.avg_pool2d(x, (int(x.shape[2]), int(x.shape[3])), stride=1)
    return pooled if keepdim else pooled.flatten(1)


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """oneDNN Graph takes the approximation by tanh for the exact function."""
    if approximate == "none":
        return F.gelu(x)
    inner = math.sqrt(2 / math.pi) * (1 + 0.044715 * x * x) * x
    return x * torch.sigmoid(2 * inner)  # (1 + tanh(inner)) / 2, in fewer passes


def attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Any = None, **options: Any
) -> Tensor:
    """As two products, which oneDNN Graph joins; of some rows at a time if large."""
    scores = q.numel() // int(q.shape[-1]) * int(k.shape[-2])
    masked = attn_mask is not None and not attn_mask.is_floating_point()
    if options.keys() - {"scale"} or masked or scores > MOST_SCORES:
        return F.scaled_dot_product_attention(q, k, v, attn_mask, **options)
    rows = int(q.shape[-2])
    step = max(1, SCORES * rows // max(1, scores))
    if step < rows:
        parts = [
            attention(
                q[..., i : i + step, :], k, v, mask_of(attn_mask, i, step), **options
            )
            for i in range(0, rows, step)
        ]
        return torch.cat(parts, dim=-2)
    scale = options.get("scale", 1 / math.sqrt(int(q.shape[-1])))
    weights = torch.matmul(q, k.transpose(-2, -1)) * scale
    weights = weights if attn_mask is None else weights + attn_mask
    return torch.matmul(torch.softmax(weights, dim=-1), v)


def mask_of(mask: Any, start: int, rows: int) -> Any:
    """Of these rows, where each has its own."""
    own = mask is not None and int(mask.shape[-2]) > 1
    return mask[..., start : start + rows, :] if own else mask


class AOT(BySize):
    """The network, as a library in C++ without Python or a tracer.

    Making one takes 20 to 90 s and a C++ compiler; taking up one that was made before,
    for the same source, weights, sizes, threads, processor and PyTorch, takes neither.
    """

    def made_for(self, feeds: tuple[Any, ...]) -> Callable[..., Any]:
        return library(self.model, feeds)


def library(model: nn.Module, feeds: tuple[Any, ...]) -> Callable[..., Any]:
    """`model` for feeds of these sizes, compiled; RuntimeError where that fails."""
    with tempfile.TemporaryDirectory() as passing:
        file = kept(model, feeds, f"-{content(model)}.pt2")
        file = file or Path(passing) / "kept.pt2"
        if not file.exists():
            try:
                made = compiled_library(model, feeds, Path(passing))
                os.makedirs(file.parent, mode=0o700, exist_ok=True)
                partial = file.with_suffix(f".{os.getpid()}")
                partial.write_bytes(made.read_bytes())
                partial.replace(file)
            except Exception as error:  # of the tracer, the compiler or the disk
                raise RuntimeError(f"no library: {error}") from error
        run = torch._inductor.aoti_load_package(str(file))
    check(run(*feeds), model(*feeds))
    return run


def compiled_library(model: nn.Module, feeds: tuple[Any, ...], folder: Path) -> Path:
    """A new file in `folder`."""
    with torch.inference_mode(False), torch.no_grad():
        # Those of inference mode may not be traced.
        program = torch.export.export(model, mapped(torch.clone, feeds))
        path = torch._inductor.aoti_compile_and_package(
            program, package_path=str(folder / "network.pt2"), inductor_configs=INDUCTOR
        )
    return Path(path)


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


def content(model: nn.Module) -> str:
    """A hash of parameters and buffers."""
    found = hashlib.sha256()
    for name, t in chain(model.named_parameters(), model.named_buffers()):
        found.update(repr((name, t.dtype, tuple(t.shape))).encode())
        flat = t.detach().contiguous().reshape(-1).view(torch.uint8)
        found.update(flat.numpy().data)
    return found.hexdigest()[:32]


def processor() -> str:
    """What code is compiled for."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line for line in lines if line.startswith("model name")]
    return f"{torch.backends.cpu.get_cpu_capability()} {names[:1]}"


class OpenVINO(BySize):
    """The network, compiled by OpenVINO: in seconds, and without a compiler."""

    def made_for(self, feeds: tuple[Any, ...]) -> Callable[..., Any]:
        return by_openvino(self.model, feeds)


def by_openvino(model: Any, feeds: tuple[Any, ...]) -> Callable[..., Any]:
    """`model` for feeds of these sizes; RuntimeError where that fails."""
    settings = {
        "INFERENCE_PRECISION_HINT": "f32",  # else bfloat16, where the processor has it
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "NUM_STREAMS": 1,
    }
    try:
        openvino = importlib.import_module("openvino")
        with torch.inference_mode(False), torch.no_grad():
            program = torch.export.export(model, mapped(torch.clone, feeds))
        graph = openvino.convert_model(program)
        compiled = openvino.Core().compile_model(graph, "CPU", settings)
    except Exception as error:  # of the tracer, or OpenVINO's own
        raise RuntimeError(f"OpenVINO: {error}") from error
    request, lock = compiled.create_infer_request(), threading.Lock()
    count, wanted = len(compiled.outputs), model(*feeds)

    def run(*feeds: Any) -> Any:
        arrays = [tensor.numpy() for tensor in listed(feeds)]
        with lock:  # a request is one call's at a time
            found = request.infer(arrays, share_inputs=True)
            tensors = iter([torch.from_numpy(found[i]) for i in range(count)])
        return mapped(lambda _: next(tensors), wanted)

    check(run(*feeds), wanted)
    return run


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


def mapped(change: Callable[[Tensor], Tensor], nested: Any) -> Any:
    """Lists and tuples like these, of changed tensors."""
    if isinstance(nested, Tensor):
        return change(nested)
    return type(nested)(mapped(change, each) for each in nested)


PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {nn.Linear: LaidOutLinear}

SPELLINGS = {
    F.max_pool2d: strided(F.max_pool2d),
    F.avg_pool2d: strided(F.avg_pool2d),
    Tensor.mean: mean,
    F.gelu: gelu,
    F.scaled_dot_product_attention: attention,
}

ENGINES = {
    "eager": lambda model: model,
    "packed": packed,
    "onednn": OneDNN,
    "openvino": OpenVINO,
    "aot": AOT,
    "compile": compiled,
    "auto": Auto,
}
