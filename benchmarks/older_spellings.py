"""Networks of DNNFusion's Table 5 as libraries of its time wrote them, for exporting.

Today's libraries spell less out: sizes were asked of tensors, which makes operators of
an exported graph; GPT-2 returned what it caches; a U-Net padded what it had upsampled
to the size of what it is joined with; Keras' EfficientNet pads by itself before a
stride and reshapes what it squeezed.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# ------------------------------------------------------------------------------- U-Net


class DoubleConv(nn.Sequential):
    def __init__(self, given: int, made: int) -> None:
        layers: list[nn.Module] = []
        for width in (given, made):
            layers += [nn.Conv2d(width, made, 3, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(made), nn.ReLU()]
        super().__init__(*layers)


class Up(nn.Module):
    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(given, given // 2, 2, stride=2)
        self.conv = DoubleConv(given, made)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        x = self.up(x)
        high = skip.size()[2] - x.size()[2]
        wide = skip.size()[3] - x.size()[3]
        pads = [wide // 2, wide - wide // 2, high // 2, high - high // 2]
        return self.conv(torch.cat([skip, F.pad(x, pads)], dim=1))


class UNet(nn.Module):
    """Of 1.9 million parameters; the paper's has 2.1."""

    def __init__(self, width: int = 16, classes: int = 2) -> None:
        super().__init__()
        widths = [width << i for i in range(5)]
        self.first = DoubleConv(3, width)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in pairs)
        self.up = nn.ModuleList(Up(b, a) for a, b in reversed(pairs))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept = [self.first(x)]
        for down in self.down:
            kept.append(down(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for up in self.up:
            x = up(x, kept.pop())
        return self.last(x)


# ------------------------------------------------------------------------------- GPT-2


class Conv1D(nn.Module):
    def __init__(self, given: int, made: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(given, made))
        self.bias = nn.Parameter(torch.randn(made))

    def forward(self, x: Tensor) -> Tensor:
        sizes = (*x.size()[:-1], self.weight.size(1))
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*sizes)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, longest: int) -> None:
        super().__init__()
        self.width, self.heads = width, heads
        causal = torch.tril(torch.ones(longest, longest, dtype=torch.uint8))
        self.register_buffer("causal", causal.view(1, 1, longest, longest))
        self.register_buffer("masked", torch.tensor(-1e4))
        self.c_attn, self.c_proj = Conv1D(width, 3 * width), Conv1D(width, width)

    def split_heads(self, x: Tensor, order: tuple[int, ...]) -> Tensor:
        sizes = (*x.size()[:-1], self.heads, x.size(-1) // self.heads)
        return x.view(*sizes).permute(*order)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value = self.c_attn(x).split(self.width, dim=2)
        query = self.split_heads(query, (0, 2, 1, 3))
        key = self.split_heads(key, (0, 2, 3, 1))
        value = self.split_heads(value, (0, 2, 1, 3))
        present = torch.stack((key.transpose(-2, -1), value))
        scores = torch.matmul(query, key) / (float(value.size(-1)) ** 0.5)
        rows, columns = scores.size(-2), scores.size(-1)
        seen = self.causal[:, :, columns - rows : columns, :columns]
        scores = torch.where(seen.bool(), scores, self.masked.to(scores.dtype)) + mask
        x = torch.matmul(torch.softmax(scores, -1), value).permute(0, 2, 1, 3)
        sizes = (*x.size()[:-2], x.size(-2) * x.size(-1))
        return self.c_proj(x.contiguous().view(*sizes)), present


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, longest: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, longest)
        self.c_fc, self.c_proj = Conv1D(width, 4 * width), Conv1D(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        attended, present = self.attn(self.ln_1(x), mask)
        x = x + attended
        y = self.c_fc(self.ln_2(x))
        inner = math.sqrt(2 / math.pi) * (y + 0.044715 * torch.pow(y, 3))
        return x + self.c_proj(0.5 * y * (1 + torch.tanh(inner))), present


class GPT2(nn.Module):
    def __init__(self, words: int, layers: int = 12, width: int = 768) -> None:
        super().__init__()
        longest, heads = 1024, 12
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.h = nn.ModuleList(Layer(width, heads, longest) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        sizes = ids.size()
        ids = ids.view(-1, sizes[-1])
        places = torch.arange(0, sizes[-1], dtype=torch.long)
        places = places.unsqueeze(0).view(-1, sizes[-1])
        mask = mask.view(sizes[0], -1).unsqueeze(1).unsqueeze(2)
        mask = (1.0 - mask.to(torch.float32)) * -10000.0
        x = self.wte(ids) + self.wpe(places)
        whole = (*sizes, x.size(-1))
        presents = []
        for layer in self.h:
            x, present = layer(x, mask)
            presents.append(present)
        return (self.ln_f(x).view(*whole), *presents)


# ---------------------------------------------------------------------- EfficientNet-B0


def as_keras_has_it(network: nn.Module) -> nn.Module:
    """torchvision's, with a pad before each stride and a reshape after each squeeze."""
    for module in list(network.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Conv2d) and child.stride == (2, 2):
                pad, child.padding = Padded(child.padding[0]), (0, 0)
                setattr(module, name, nn.Sequential(pad, child))
            elif name == "avgpool" and type(module).__name__ == "SqueezeExcitation":
                setattr(module, name, nn.Sequential(child, Reshaped()))
    return network


class Reshaped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(1, -1, 1, 1)


class Padded(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return Pad.apply(x, self.width)


class Pad(torch.autograd.Function):
    """One operator; PyTorch's exporter spells out twelve that compute the sizes."""

    @staticmethod
    def forward(ctx: object, x: Tensor, width: int) -> Tensor:
        return F.pad(x, [width] * 4)

    @staticmethod
    def symbolic(graph: Any, x: Any, width: int) -> Any:
        pads = torch.tensor([0, 0, width, width] * 2)
        return graph.op("Pad", x, graph.op("Constant", value_t=pads))
