"""Quantised layers that multiply integers, behind what rounds to them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn

from ..model import FakeQuantize, QuantizedConv2d, QuantizedLinear

INTEGER_LAYERS = (QuantizedConv2d, QuantizedLinear)


def take_integers_when_called(network: nn.Module) -> nn.Module:
    """The first call shows which layers take what a FakeQuantize rounded."""
    if not torch.cpu._is_vnni_supported():
        return network  # oneDNN adds products in 16 bits: too few
    rounded: dict[int, tuple[Any, Tensor]] = {}
    calls: dict[nn.Module, list[tuple[Any, Tensor]]] = defaultdict(list)

    def record(layer: Any, args: tuple[Tensor, ...], result: Tensor) -> None:
        rounded[id(result)] = layer, result

    def read(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
        calls[layer].append(rounded.get(id(args[0]), (None, args[0])))

    def replace(*_: Any) -> None:
        for hook in hooks:
            hook.remove()
        for layer in list(network.modules()):
            for name, child in layer.named_children():
                before = {each for each, _ in calls.get(child, ())}
                if len(before) == 1 and None not in before:
                    made = IntegerProduct(child, *calls[child][0])
                    setattr(layer, name, made)
        rounded.clear()
        calls.clear()

    hooks = [network.register_forward_hook(replace)]
    for layer in network.modules():
        if type(layer) is FakeQuantize:
            hooks.append(layer.register_forward_hook(record))
        elif type(layer) in INTEGER_LAYERS:
            hooks.append(layer.register_forward_pre_hook(read))
    return network


class IntegerProduct(nn.Module):
    """A quantised layer by oneDNN, on the integers that its input stands for."""

    def __init__(self, layer: Any, before: FakeQuantize, x: Tensor):
        super().__init__()
        self.scale = before.scale.item()
        # Of an uint8, which oneDNN wants: an int8 is moved up by 128.
        self.zero_point = (
            before.zero_point.item() - torch.iinfo(before.zero_point.dtype).min
        )
        scales = layer.scale.expand(len(layer.weight)).contiguous()
        zeros = torch.zeros_like(scales, dtype=torch.int32)
        if isinstance(layer, nn.Conv2d):
            sizes = list(layer.stride), list(layer.padding), list(layer.dilation)
            self.sizes: Any = (*sizes, layer.groups)
            laid_out = torch.ops.onednn.qconv_prepack(
                layer.weight, scales, self.scale, self.zero_point, *self.sizes, x.shape
            )
            self.product = torch.ops.onednn.qconv2d_pointwise
        else:
            self.sizes = ()
            laid_out = torch.ops.onednn.qlinear_prepack(layer.weight, None)
            self.product = torch.ops.onednn.qlinear_pointwise
        self.weights = laid_out, scales, zeros, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        x = ((x / self.scale).round() + self.zero_point).to(torch.uint8)
        into: Any = 1.0, 0, torch.float32, "none", [], ""  # no rounding, and no more
        return self.product(
            x, self.scale, self.zero_point, *self.weights, *self.sizes, *into
        )
