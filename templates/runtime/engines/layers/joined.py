"""Linear layers that take the same row, as one product."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from ..packed import FLOATS, ROWS, LaidOutLinear, on_same_parameters, pack


def join_when_called(model: nn.Module) -> nn.Module:
    """The model, with other layers once a call has shown which of them take the same
    row: those become one product. No weight is laid out twice."""
    network = on_same_parameters(model)
    calls: list[tuple[nn.Linear, Tensor]] = []

    def record(layer: Any, args: tuple[Tensor, ...]) -> None:
        calls.append((layer, args[0]))

    def join(*_: Any) -> None:
        for hook in hooks:
            hook.remove()
        times = Counter(layer for layer, _ in calls)
        takers = defaultdict(list)
        for layer, x in calls:
            if x.numel() == x.shape[-1] and times[layer] == 1:
                takers[id(x), layer.bias is None].append(layer)
        parts: dict[nn.Module, nn.Module] = {}
        for layers in takers.values():
            if len(layers) > 1:
                joined = Joined(layers)
                parts |= {each: Part(joined, i) for i, each in enumerate(layers)}
        for owner in list(network.modules()):
            for name, child in owner.named_children():
                if child in parts:
                    setattr(owner, name, parts[child])
        calls.clear()
        pack(network)

    every = (layer for layer in network.modules() if type(layer) is nn.Linear)
    layers = [layer for layer in every if layer.weight.dtype in FLOATS]
    hooks = [layer.register_forward_pre_hook(record) for layer in layers]
    hooks.append(network.register_forward_hook(join))
    return network


class Joined:
    """Layers that take the same row: the first that is called computes for all."""

    def __init__(self, layers: list[nn.Linear]):
        self.weights = [(layer.weight, layer.bias) for layer in layers]
        weights, biases = zip(*self.weights, strict=True)
        bias = None if biases[0] is None else torch.cat(biases)
        whole = SimpleNamespace(weight=torch.cat(weights), bias=bias)
        self.product = LaidOutLinear(whole, ROWS)
        del self.product.weight  # laid out, it isn't read again
        self.sizes = [len(weight) for weight, _ in self.weights]
        self.last = threading.local()

    def part(self, index: int, x: Tensor) -> Tensor:
        if index == 0 or getattr(self.last, "x", None) is not x:
            self.last.x, self.last.parts = x, self.product(x).split(self.sizes, dim=-1)
        found = self.last.parts[index]
        if index == len(self.sizes) - 1:
            self.last.x = self.last.parts = None
        return found


class Part(nn.Module):
    """One of the layers that are joined."""

    def __init__(self, joined: Joined, index: int):
        super().__init__()
        self.joined, self.index = joined, index
        if index == 0:  # a trace knows the tensors of modules, each of them in one
            self.product = joined.product
        self.weight, self.bias = joined.weights[index]  # for who reads them

    def forward(self, x: Tensor) -> Tensor:
        return self.joined.part(self.index, x)
