"""oneDNN Graph, by way of TorchScript."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .results import check
from .spellings import Spelling

MOST_SIZES = 8  # that are prepared
MOST_SEEN = 64  # that are remembered


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
