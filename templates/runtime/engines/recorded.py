"""A network that takes lists of caches, traced once for all sizes."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .packed import ROWS
from .results import check, listed, mapped, tupled


class Recorded:
    """The network, traced in its second call for all sizes, and run without Python.

    A trace that depends on a size is refused: PyTorch warns where one is taken out of
    it. The first two combinations of sizes are compared with the network. Several
    threads may call at once; while one prepares, the others wait.
    """

    def __init__(self, network: nn.Module):
        self.network = network
        self.was_called = False
        self.run: Callable[..., Any] | None = None
        self.sizes: set[Any] = set()  # that were compared
        self.lock = threading.Lock()

    def __call__(self, *feeds: Any) -> Any:
        run: Any = self.run
        if run is self.network:
            return run(*feeds)
        tensors = listed(feeds)
        if len(self.sizes) < 2:
            sizes = tuple(tensor.shape for tensor in tensors)
            if run is None or sizes not in self.sizes:
                with self.lock:
                    return self.compared(feeds, tensors, sizes)
        return run(*tensors)

    def compared(self, feeds: Any, tensors: list[Tensor], sizes: Any) -> Any:
        found = self.network(*feeds)
        if self.was_called and self.run is not self.network:
            try:
                run = self.run or recorded(self.network, feeds, tensors)
                for _ in range(3):  # the first records types, the second compiles
                    check(run(*tensors), found)
                self.run = run
            except (RuntimeError, AttributeError) as error:
                warnings.warn(f"the network runs call by call: {error}", stacklevel=4)
                self.run = self.network
            self.sizes.add(sizes)
        self.was_called = True  # layers that join have joined
        return found


def recorded(
    network: nn.Module, feeds: Any, tensors: list[Tensor]
) -> Callable[..., Any]:
    """The network as a function of tensors alone."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        trace = torch.jit.trace(Flat(network, feeds), tensors, check_trace=False)
        run = torch.jit.freeze(trace)
    for warning in found:
        if warning.category is torch.jit.TracerWarning:
            raise RuntimeError(str(warning.message))
    return run


class Flat(nn.Module):
    """The network with tensors in, in the order of `feeds`, and tuples out."""

    def __init__(self, network: nn.Module, feeds: Any):
        super().__init__()
        self.network, self.feeds = network, feeds
        self.eval()

    def forward(self, *tensors: Tensor) -> Any:
        each = iter(tensors)
        return tupled(self.network(*mapped(lambda _: next(each), self.feeds)))


class LaidOutLinear(nn.Module):
    """A linear layer by oneDNN, on a copy of its weight that is laid out once."""

    def __init__(self, layer: Any, rows: int = ROWS):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias  # for who reads them
        laid_out = torch.ops.mkldnn._reorder_linear_weight(layer.weight, rows)
        self.register_buffer("laid_out", laid_out, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return product(x, self.laid_out, self.bias)


def scripted(function: Callable[..., Any]) -> Callable[..., Any]:
    with warnings.catch_warnings():  # that torch.jit is to go
        warnings.simplefilter("ignore")
        try:
            script: Callable[..., Any] = torch.jit.script(function)
        except (AttributeError, RuntimeError):  # it has gone
            return function
        return script


@scripted
def product(x: Tensor, laid_out: Tensor, bias: Tensor | None) -> Tensor:
    """In TorchScript's own words: a trace can't hold these arguments."""
    return torch.ops.mkldnn._linear_pointwise(x, laid_out, bias, "none", [], "")
