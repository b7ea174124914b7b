"""Networks in float16."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..packed import LaidOutLinear

FLOATS = (torch.float16,)  # of the layers here


class LaidOutHalves(nn.Module):
    """A linear layer in float16: one row as it stands, more by oneDNN in float32.

    For one, most CPUs read half the bytes; for more, they lack instructions.
    """

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias
        bias = None if layer.bias is None else layer.bias.float()
        wide = SimpleNamespace(weight=layer.weight.float(), bias=bias)
        self.product = LaidOutLinear(wide, 2)
        del self.product.weight  # laid out, it isn't read again

    def forward(self, x: Tensor) -> Tensor:
        if x.numel() == x.shape[-1]:
            return F.linear(x, self.weight, self.bias)
        return self.product(x.float()).to(x.dtype)


class Widened(nn.Module):
    """The network with its other products in float32, too, from and to float16."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network, self.products = network, Wide(network)

    def forward(self, *feeds: Any) -> Any:
        with self.products:
            return self.network(*feeds)


class Wide(TorchFunctionMode):
    """Takes the place of products in float16; a weight is converted once."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.weights = {id(w) for w in (*network.parameters(), *network.buffers())}
        self.converted: dict[int, Tensor] = {}

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        x: Any = args[0] if function in PRODUCTS else None
        if x is None or x.dtype not in FLOATS:
            return function(*args, **(kwargs or {}))
        named = {name: self.wide(value) for name, value in (kwargs or {}).items()}
        return function(*map(self.wide, args), **named).to(x.dtype)

    def wide(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or x.dtype not in FLOATS:
            return x
        if id(x) not in self.weights:
            return x.float()
        if id(x) not in self.converted:
            self.converted[id(x)] = x.float()
        return self.converted[id(x)]


ATTENTION = F.scaled_dot_product_attention
PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__, ATTENTION}
