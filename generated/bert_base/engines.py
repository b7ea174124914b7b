"""Engines: ways to run model.py's network on a CPU, for Session(engine=...).

eager    the network as it stands, call by call
packed   the same, linear layers by oneDNN, their weights laid out once
onednn   traced, frozen, and run by oneDNN Graph: layers fused, weights laid out once
compile  torch.compile: needs a C++ compiler, and 10 to 60 s for each new size

All give the same results within the tolerance of report.json. Weights are taken over
when a size is prepared: make a new Session after changing them.
"""

from __future__ import annotations

import copy
import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

FLOATS = (torch.float32, torch.bfloat16)  # what oneDNN computes in
MOST_SIZES = 8  # that are prepared
MOST_SEEN = 64  # that are remembered
CLOSE = 1e-3  # of the largest result: what a wrong operator would exceed
MOST_SCORES = 2**25  # of an attention, to be computed as products
SCORES = 2**22  # of it, to be held at once


def make_engine(
    name: str, model: nn.Module, device: torch.device
) -> Callable[..., Any]:
    """What a Session calls in place of `model`; elsewhere than on a CPU, eager."""
    if name not in ENGINES:
        raise ValueError(f"no engine {name!r}, the engines are {list(ENGINES)}")
    # glibc gives back to the system, which fills it with zeros, what is free beyond
    # twice the largest block that it ever got back. After this one it keeps up to
    # 62 MB, in the whole process, and a call finds the memory of the call before.
    torch.empty(31 * 2**20, dtype=torch.uint8, device="cpu")
    return ENGINES[name if device.type == "cpu" else "eager"](model)


def compiled(model: nn.Module) -> Callable[..., Any]:
    """PyTorch's compiler, the weights prepared once; torch bounds how often it runs."""
    return torch.compile(model, options={"freezing": True})


def packed(model: nn.Module) -> nn.Module:
    """The model, with other layers on the same parameters."""
    shared = {id(w): w for w in (*model.parameters(), *model.buffers())}
    network = copy.deepcopy(model, shared)
    for layer in list(network.modules()):
        for name, child in layer.named_children():
            made = PACKED.get(type(child))
            if made and all(w.dtype in FLOATS for w in child.parameters()):
                setattr(layer, name, made(child))
    return network.eval()


class PackedLinear(nn.Module):
    """A linear layer by oneDNN, on a copy of its weight that is laid out once."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias  # for who reads them
        # For two rows: what oneDNN lays out for one, it reads at half the speed.
        self.laid_out = torch.ops.mkldnn._reorder_linear_weight(layer.weight, 2)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(
            x, self.laid_out, self.bias, "none", [], ""
        )


class OneDNN:
    """The network, traced for each combination of sizes and threads that recurs.

    A combination is prepared when it comes a second time, and checked against the
    network: that takes as long as a few dozen calls (0.2 to 2 s) and memory for another
    copy of the weights. At most MOST_SIZES are prepared and none is given up for
    another; for the rest the network runs as it stands. Several threads may call at
    once: one prepares, the others don't wait. While it does, oneDNN fusion is on for
    all that TorchScript compiles in this process.
    """

    def __init__(self, model: nn.Module):
        self.model = model
        self.prepared: dict[Any, Callable[..., Any]] = {}
        self.seen: set[Any] = set()
        self.lock = threading.Lock()

    def __call__(self, *feeds: Tensor) -> Any:
        key = (torch.get_num_threads(), *(tuple(feed.shape) for feed in feeds))
        run = self.prepared.get(key)
        if run is None:
            run = self.prepare(key, feeds) if key in self.seen else self.model
            if len(self.seen) == MOST_SEEN:
                self.seen.clear()
            self.seen.add(key)
        return run(*feeds)

    def prepare(self, key: Any, feeds: tuple[Tensor, ...]) -> Callable[..., Any]:
        full = len(self.prepared) >= MOST_SIZES
        empty = any(feed.numel() == 0 for feed in feeds)  # oneDNN gives anything
        if full or empty or not self.lock.acquire(blocking=False):
            return self.model
        try:
            if key not in self.prepared:
                self.prepared[key] = traced(self.model, feeds)
        except RuntimeError as error:  # oneDNN Graph has its gaps
            warnings.warn(f"the network runs as it stands: {error}", stacklevel=4)
            self.prepared[key] = self.model
        finally:
            self.lock.release()
        return self.prepared[key]


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


class Spelling(TorchFunctionMode):
    """Takes the place of calls that oneDNN Graph lacks, or takes for others."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.weights = {id(w) for w in (*model.parameters(), *model.buffers())}

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
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


PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {nn.Linear: PackedLinear}

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
    "compile": compiled,
}
