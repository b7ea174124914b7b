"""What `packed` has for other layers than linear ones.

LSTMs, and linear layers whose weights are blocks of few bits, by oneDNN. Convolutions
of each channel by itself in words that PyTorch has quick kernels for: with more results
than channels, or, on one thread, of one pixel, it takes a product of matrices for each
channel, more than half of RepViT's time, and of FastViT's.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...model import PackedLinear, dequantized
from ..packed import ROWS, LaidOutLinear


class PackedLSTM(nn.Module):
    """An LSTM by oneDNN, on copies of its weights that are laid out once."""

    def __init__(self, lstm: nn.LSTM):
        super().__init__()
        self.lstm = lstm
        lay_out = torch.ops.mkldnn._reorder_mkldnn_rnn_layer_weight
        self.weights = []
        for i, (inputs, hidden, *biases) in enumerate(lstm.all_weights):
            back = lstm.bidirectional and i % 2 == 1
            laid_out = lay_out(inputs, hidden, lstm.hidden_size, back, True, False)
            none = inputs.new_zeros(len(inputs))
            self.weights.append((*laid_out, *(biases or (none, none)), back))

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Any:
        if x.ndim == 2 or x.numel() == 0:
            return self.lstm(x, state)
        x = (x.transpose(0, 1) if self.lstm.batch_first else x).contiguous()
        if state is None:
            size = len(self.weights), x.shape[1], self.lstm.hidden_size
            state = x.new_zeros(size), x.new_zeros(size)
        runs = []
        for i, weights in enumerate(self.weights):
            h, c = (part[i].contiguous() for part in state)
            runs.append(self.run(x, h, c, *weights))
            if i % 2 == 1 or not self.lstm.bidirectional:  # a layer is complete
                x = torch.cat(
                    [run[0] for run in runs[-1 - self.lstm.bidirectional :]], dim=-1
                )
        last = tuple(torch.stack([run[part] for run in runs]) for part in (1, 2))
        return (x.transpose(0, 1) if self.lstm.batch_first else x), last

    def run(self, x: Tensor, h: Tensor, c: Tensor, *weights: Any) -> list[Tensor]:
        """One direction of one layer: its outputs, the last state and the last cell."""
        *tensors, back = weights
        lstm = {"mode": 2, "hidden_size": self.lstm.hidden_size, "num_layers": 1}
        rest = {"has_biases": True, "bidirectional": False, "batch_first": False}
        return torch.mkldnn_rnn_layer(
            x, *tensors, h, c, back, batch_sizes=(), **lstm, **rest, train=False
        )[:3]


class UnpackedLinear(nn.Module):
    """A linear layer of few bits, on its weight in float32: it is taken out once."""

    def __init__(self, layer: PackedLinear):
        super().__init__()
        parts = layer.weight, layer.scales, layer.zero_points
        full = dequantized(*parts, layer.bits)[:, : layer.in_features]
        bias = None if layer.bias is None else layer.bias.float()
        wide = SimpleNamespace(weight=full.contiguous(), bias=bias)
        self.product = LaidOutLinear(wide, ROWS)
        del self.product.weight  # laid out, it isn't read again

    def forward(self, x: Tensor) -> Tensor:
        return self.product(x.float()).to(x.dtype)


def by_channels(layer: nn.Conv2d) -> nn.Module:
    """The layer, or what takes its place if it is slow."""
    alone = layer.in_channels == layer.groups > 1 and layer.padding_mode == "zeros"
    spread = layer.out_channels > layer.in_channels
    return Depthwise(layer) if alone and (spread or scales(layer)) else layer


def scales(layer: nn.Conv2d) -> bool:
    """Whether each channel is multiplied by a number."""
    return layer.kernel_size == layer.stride == (1, 1) and layer.padding == (0, 0)


class Depthwise(nn.Module):
    """A convolution of a channel for each result, or a product where that is one."""

    def __init__(self, layer: Any):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        layer = self.layer
        times = layer.out_channels // layer.in_channels
        if times > 1:
            x = x.repeat_interleave(times, dim=-3)
        if not scales(layer):
            moves = layer.stride, layer.padding, layer.dilation
            return F.conv2d(x, layer.weight, layer.bias, *moves, layer.out_channels)
        weight = layer.weight.view(-1, 1, 1)
        if layer.bias is None:
            return x * weight
        return torch.addcmul(layer.bias.view(-1, 1, 1), x, weight)
