"""Quantised layers: on integers, behind what rounds to them, or on weights that are
converted once."""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...model import (
    DynamicQuantizedConv2d,
    DynamicQuantizedLinear,
    FakeQuantize,
    QLinearConv2d,
    QLinearLinear,
    QuantizedConv2d,
    QuantizedLinear,
    requantize,
)
from ..packed import transposed

INTEGER_LAYERS = (QuantizedConv2d, QuantizedLinear)


def take_integers_when_called(network: nn.Module) -> nn.Module:
    """The first call shows which layers take what a FakeQuantize rounded."""
    if not torch.cpu._is_vnni_supported():
        return scale_once(network)  # oneDNN adds products in 16 bits: too few
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


def scale_once(network: nn.Module) -> nn.Module:
    """In the floats that its weights stand for."""
    for layer in list(network.modules()):
        for name, child in layer.named_children():
            if type(child) in INTEGER_LAYERS:
                setattr(layer, name, ScaledOnce(child))
            elif type(child) is FakeQuantize:
                setattr(layer, name, Rounding(child))
    return network


class Rounding(nn.Module):
    """A FakeQuantize of the same bits, in one piece of memory."""

    def __init__(self, layer: FakeQuantize):
        super().__init__()
        self.scale, zero = layer.scale, int(layer.zero_point)
        limits = torch.iinfo(layer.zero_point.dtype)
        self.limits = limits.min - zero, limits.max - zero

    def forward(self, x: Tensor) -> Tensor:
        return (x / self.scale).round_().clamp_(*self.limits).mul_(self.scale)


def laid_out(weight: Tensor) -> Tensor:
    """With the channels innermost, as an image's are: each call would lay it out."""
    if weight.ndim == 2:
        return transposed(weight)
    innermost = torch.channels_last if weight.ndim == 4 else torch.contiguous_format
    return weight.contiguous(memory_format=innermost)


class ScaledOnce(nn.Module):
    """A quantised layer on the floats that its weight stands for."""

    def __init__(self, layer: Any):
        super().__init__()
        self.layer = layer  # for who reads its parameters
        ones = [1] * (layer.weight.ndim - 1)
        self.weight = laid_out(layer.weight * layer.scale.view(-1, *ones))
        self.sizes: Any = None
        if isinstance(layer, nn.Conv2d):
            self.sizes = layer.stride, layer.padding, layer.dilation, layer.groups

    def forward(self, x: Tensor) -> Tensor:
        if self.sizes is None:
            return F.linear(x, self.weight, self.layer.bias)
        return F.conv2d(x, self.weight, self.layer.bias, *self.sizes)


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


# ---- products of integers in floats


def convert_once(network: nn.Module) -> nn.Module:
    """The same network, with other layers in the place of its own."""
    for layer in list(network.modules()):
        for name, child in layer.named_children():
            if type(child) in EXACT:
                setattr(layer, name, EXACT[type(child)](child))
    return Counted(network)


class Counted(nn.Module):
    """The network on tensors that count what is written to them: none is taken for what
    it was before."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, *feeds: Any) -> Any:
        with torch.inference_mode(False), torch.no_grad():
            return self.network(*feeds)


class ExactProduct(nn.Module):
    """A product of integers in floats, each sum of which is exact.

    In float32 up to 2**24 whatever its order; else in float64. What weights meet is 255
    wide around 0: it can't be large on both sides.
    """

    def __init__(self, layer: Any):
        super().__init__()
        self.layer = layer  # for who reads its parameters
        weights = layer.weight.flatten(1).double()
        above, below = weights.clamp(min=0).sum(1), weights.clamp(max=0).sum(1)
        rows = 255 * torch.maximum(above, -below)
        bias = layer.bias if layer.bias is None else layer.bias.double()
        self.static = hasattr(layer, "input_scale")
        if self.static and bias is not None:
            rows = rows + bias.abs()
        self.dtype = torch.float32 if float(rows.max()) < 2**24 else torch.float64
        self.weight = laid_out(layer.weight.to(self.dtype))
        self.bias = bias.to(self.dtype) if self.static and bias is not None else None
        self.sizes: Any = None
        if isinstance(layer, nn.Conv2d):
            self.sizes = layer.stride, layer.padding, layer.dilation, layer.groups

    def product(self, x: Tensor) -> Tensor:
        if self.sizes is None:
            return F.linear(x, self.weight, self.bias)
        return F.conv2d(x, self.weight, self.bias, *self.sizes)

    def upright(self, scale: Tensor) -> Tensor:
        """One for each channel of the result."""
        return scale if self.sizes is None else scale[:, None, None]


class Requantized(ExactProduct):
    """From integers to integers."""

    def __init__(self, layer: Any):
        super().__init__(layer)
        scale = layer.input_scale * self.upright(layer.scale) / layer.output_scale
        self.scale = scale
        self.zero_points = layer.input_zero_point, layer.output_zero_point

    def forward(self, x: Tensor) -> Tensor:
        before, behind = self.zero_points
        x = x.to(self.dtype).sub_(before)  # integers before, so no one else's
        y = self.product(x)
        return requantize(y, self.scale, behind, behind.dtype)


class Ranged(ExactProduct):
    """Of what is rounded by its range in each call: once for all that take it."""

    last = threading.local()

    def __init__(self, layer: Any):
        super().__init__(layer)
        self.scale = self.upright(layer.scale)
        self.added = None if layer.bias is None else self.upright(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        given, version = getattr(self.last, "given", (lambda: None, 0))
        if given() is not x or x.is_inference() or x._version != version:
            counted = 0 if x.is_inference() else x._version
            self.last.given, self.last.found = (weakref.ref(x), counted), rounded(x)
        integers, step = self.last.found
        y = self.product(integers.to(self.dtype)).float().mul_(self.scale * step)
        return y if self.added is None else y.add_(self.added)


def rounded(x: Tensor) -> tuple[Tensor, float]:
    """x in steps of a 255th of its range, which 0 is in, and the step."""
    range_ = x.aminmax() if x.numel() else (x.new_zeros(1),) * 2
    low, high = (np.float32(end.item()) for end in range_)
    low, high = min(low, np.float32(0)), max(high, np.float32(0))
    step = np.float32(1) if low == high else (high - low) / np.float32(255)
    zero = float(np.rint(-low / step).clip(0, 255))
    return (x / float(step)).round_().clamp_(-zero, 255 - zero), float(step)


EXACT: dict[type[nn.Module], type[ExactProduct]] = {
    DynamicQuantizedConv2d: Ranged,
    DynamicQuantizedLinear: Ranged,
    QLinearConv2d: Requantized,
    QLinearLinear: Requantized,
}
