"""CUDA graphs of model.py's network, for Session(device="cuda", graph=True).

A graph launches all kernels of a forward at once, where a GPU would else wait for the
CPU to launch them one by one. It reads and writes buffers of its own, so that there is
one for each set of shapes, captured when inputs of these shapes first come. All share
what memory they need in between: one runs at a time, and its results are copied out.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

MOST = 8  # graphs that are kept; the one that was not used for longest goes first
WARM_UP = 3  # forwards before a capture: Triton compiles, and libraries choose


class Graphed:
    """A network on `device`, called with tensors on the CPU, from any thread."""

    def __init__(self, network: Callable[..., Any], device: torch.device):
        self.network, self.device = network, device
        self.graphs: OrderedDict[tuple, Graph] = OrderedDict()
        self.pool = torch.cuda.graph_pool_handle()
        self.lock = threading.Lock()

    def __call__(self, *inputs: Tensor) -> Any:
        key = tuple((x.shape, x.dtype) for x in inputs)
        with self.lock:
            if key not in self.graphs:
                self.graphs[key] = Graph(self.network, inputs, self.device, self.pool)
                if len(self.graphs) > MOST:
                    self.graphs.popitem(last=False)
            self.graphs.move_to_end(key)
            return self.graphs[key].replay(inputs)


class Graph:
    """A captured forward: its inputs in pinned memory and on the GPU, its outputs."""

    def __init__(
        self,
        network: Callable[..., Any],
        inputs: tuple[Tensor, ...],
        device: torch.device,
        pool: Any,
    ):
        self.pinned = [pinned_like(x) for x in inputs]
        self.inputs = [x.to(device) for x in inputs]
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                network(*self.inputs)
            with no_waiting():
                network(*self.inputs)
        torch.cuda.current_stream(device).wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool, stream=stream):
            self.outputs = network(*self.inputs)

    def replay(self, inputs: tuple[Tensor, ...]) -> Any:
        """Each input is on its way to the GPU while the next one is pinned.

        The results come as copies on the CPU, which waits for them: all is done then.
        """
        for pinned, mine, given in zip(self.pinned, self.inputs, inputs, strict=True):
            pinned.copy_(given)
            mine.copy_(pinned, non_blocking=True)
        self.graph.replay()
        if isinstance(self.outputs, Tensor):
            return self.outputs.to("cpu", copy=True)
        return tuple(x.to("cpu", copy=True) for x in self.outputs)


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
