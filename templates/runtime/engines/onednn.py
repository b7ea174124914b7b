"""oneDNN Graph, by way of TorchScript."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .by_size import BySize
from .results import check

# Preparing takes the square of a network's calls: 3 s for 1,300, and 164 s for 6,600.
MOST_CALLS = 2000
MOST_SCORES = 2**25  # of an attention, to be computed as products
SCORES = 2**22  # of it, to be held at once


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


# ---- what oneDNN Graph lacks, or takes for something else, in other words


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


SPELLINGS = {
    F.max_pool2d: strided(F.max_pool2d),
    F.avg_pool2d: strided(F.avg_pool2d),
    Tensor.mean: mean,
    F.gelu: gelu,
    F.scaled_dot_product_attention: attention,
}
