"""CUDA graphs of model.py's network, for Session(device="cuda", graph=True).

A graph launches all kernels of a forward at once, where a GPU would else wait for the
CPU to launch them one by one. It reads and writes buffers of its own, so that there is
one for each set of shapes, captured when inputs of these shapes first come. All share
what memory they need in between: one runs at a time, and its results are copied out.

One graph is captured at a time. With graph=True no other thread of the process may wait
for a GPU meanwhile, since PyTorch would raise there.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

MOST = 8  # graphs that are kept; the one that was not used for longest goes first
MOST_SEEN = 1000  # shapes that are counted
WARM_UP = 3  # forwards before a capture: Triton compiles, and libraries choose

_capturing = threading.Lock()


class Graphed:
    """A network on `device`, called with tensors on the CPU, from any thread.

    With `patience` so many calls of the same shapes run without a graph, since no more
    may come; and where none can be captured, all calls do. Without, that is an error.
    """

    def __init__(
        self, network: Callable[..., Any], device: torch.device, patience: float = 0
    ):
        self.network, self.device, self.patience = network, device, patience
        self.graphs: OrderedDict[tuple, Graph] = OrderedDict()
        self.calls: Counter[tuple] = Counter()  # of shapes without a graph
        self.pool = torch.cuda.graph_pool_handle()
        # Memory of a pool is shared by what was captured on one stream.
        self.stream = torch.cuda.Stream(device)
        self.lock = threading.Lock()

    def __call__(self, *inputs: Tensor) -> Any:
        key = tuple((x.shape, x.dtype) for x in inputs)
        with self.lock:
            if key not in self.graphs and not self.captures(key, inputs):
                return self.network(*(x.to(self.device) for x in inputs))
            self.graphs.move_to_end(key)
            return self.graphs[key].replay(inputs)

    def captures(self, key: tuple, inputs: tuple[Tensor, ...]) -> bool:
        """Whether there is a graph of these shapes now."""
        if self.calls[key] < self.patience:
            self.calls[key] += 1
            if len(self.calls) > MOST_SEEN:
                self.calls.clear()
            return False
        check = nullcontext if self.patience else no_waiting
        try:
            with _capturing:
                made = Graph(self.network, inputs, self.stream, self.pool, check)
        except RuntimeError:
            if not self.patience:
                raise
            self.patience = math.inf
            return False
        self.graphs[key] = made
        if len(self.graphs) > MOST:
            self.graphs.popitem(last=False)
        return True


class Graph:
    """A captured forward: its inputs in pinned memory and on the GPU, its outputs."""

    def __init__(
        self,
        network: Callable[..., Any],
        inputs: tuple[Tensor, ...],
        stream: torch.cuda.Stream,
        pool: Any,
        check: Callable[[], AbstractContextManager[None]],
    ):
        self.device = stream.device
        self.pinned = [pinned_like(x) for x in inputs]
        self.inputs = [x.to(self.device) for x in inputs]
        here = torch.cuda.current_stream(self.device)
        stream.wait_stream(here)
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    network(*self.inputs)
                with check():
                    network(*self.inputs)
        finally:
            here.wait_stream(stream)  # before memory of the inputs is another's
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(
            self.graph, pool=pool, stream=stream, capture_error_mode="thread_local"
        ):
            self.outputs = network(*self.inputs)

    def replay(self, inputs: tuple[Tensor, ...]) -> Any:
        """Each input is on its way to the GPU while the next one is pinned.

        The results are copies on the CPU, which waits once, for all of them.
        """
        for pinned, mine, given in zip(self.pinned, self.inputs, inputs, strict=True):
            pinned.copy_(given)
            mine.copy_(pinned, non_blocking=True)
        self.graph.replay()
        alone = isinstance(self.outputs, Tensor)
        results = (self.outputs,) if alone else self.outputs
        copies = tuple(pinned_like(x).copy_(x, non_blocking=True) for x in results)
        torch.cuda.current_stream(self.device).synchronize()
        return copies[0] if alone else copies


def pinned_like(x: Tensor) -> Tensor:
    return torch.empty_like(x, device="cpu", pin_memory=True)


@contextmanager
def no_waiting() -> Iterator[None]:
    """PyTorch raises in here where the CPU waits for the GPU: no graph can do that."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        raise RuntimeError(f"this forward can't be a CUDA graph: {error}") from error
    finally:
        torch.cuda.set_sync_debug_mode(before)
