"""Linear layers that multiply integers of 8 bits."""

from __future__ import annotations

import copy
import warnings

import torch
from torch import Tensor, nn


def in_int8(model: nn.Module) -> nn.Module:
    """The model, with other linear layers on a CPU, on copies of their weights."""
    shared = {id(w): w for w in (*model.parameters(), *model.buffers())}
    network = copy.deepcopy(model, shared)
    for layer in list(network.modules()):
        for name, child in layer.named_children():
            if type(child) is nn.Linear:
                weight = child.weight
                if weight.dtype == torch.float32 and weight.device.type == "cpu":
                    setattr(layer, name, Int8Linear(child))
    return network.eval()


class Int8Linear(nn.Module):
    """A linear layer whose product is one of integers of 8 bits."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.weight, self.bias = layer.weight, layer.bias  # for who reads them
        scales = layer.weight.abs().amax(dim=1) / 127
        zeros = torch.zeros_like(scales, dtype=torch.int64)
        with warnings.catch_warnings():  # that such tensors are to go
            warnings.simplefilter("ignore")
            rounded = torch.quantize_per_channel(
                layer.weight, scales, zeros, 0, torch.qint8
            )
        self.laid_out = torch.ops.quantized.linear_prepack(rounded, layer.bias)
        # Without VNNI, processors add two products in 16 bits: too few for 8 by 8.
        self.in_seven = not torch.cpu._is_vnni_supported()

    def forward(self, x: Tensor) -> Tensor:
        rows = torch.atleast_2d(x)
        y = torch.ops.quantized.linear_dynamic(rows, self.laid_out, self.in_seven)
        return y if x.ndim > 1 else y[0]
