"""Networks of PyTorch's own layers, as people write them; originals.py exports them."""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

VOCAB = 96


class DoubleConv(nn.Sequential):
    """Two convolutions, each normalised."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__(
            nn.Conv2d(inside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
            nn.Conv2d(outside, outside, 3, padding=1, bias=False),
            nn.BatchNorm2d(outside),
            nn.ReLU(),
        )


class UNet(nn.Module):
    """Down, up, and what was on the way beside it."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32)) -> None:
        super().__init__()
        self.downs, self.ups, self.joins = (nn.ModuleList() for _ in range(3))
        for inside, outside in zip((3, *widths), widths, strict=False):
            self.downs.append(DoubleConv(inside, outside))
        for outside, inside in reversed([*pairwise(widths)]):
            self.ups.append(nn.ConvTranspose2d(inside, outside, 2, 2))
            self.joins.append(DoubleConv(2 * outside, outside))
        self.head = nn.Conv2d(widths[0], 5, 1)

    def forward(self, image: Tensor) -> Tensor:
        x, skips = image, []
        for i, down in enumerate(self.downs):
            x = down(F.max_pool2d(x, 2) if i else x)
            skips.append(x)
        skips.pop()
        for up, join in zip(self.ups, self.joins, strict=True):
            x = join(torch.cat([skips.pop(), up(x)], dim=1))
        return self.head(x)


class Generator(nn.Module):
    """A DCGAN's generator."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inside, outside, stride in ((16, 32, 1), (32, 16, 2), (16, 8, 2)):
            layers += [
                nn.ConvTranspose2d(inside, outside, 4, stride, stride // 2, bias=False),
                nn.BatchNorm2d(outside),
                nn.ReLU(True),
            ]
        self.main = nn.Sequential(*layers, nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())

    def forward(self, noise: Tensor) -> Tensor:
        return self.main(noise[:, :, None, None])


class WaveNetBlock(nn.Module):
    """A gated dilated convolution with its residual and its skip."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        self.conv = weight_norm(nn.Conv1d(channels, 2 * channels, 2, dilation=dilation))
        self.residual = nn.Conv1d(channels, channels, 1)
        self.skip = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = F.glu(self.conv(F.pad(x, (self.dilation, 0))), dim=1)
        return (x + self.residual(hidden)) * math.sqrt(0.5), self.skip(hidden)


class WaveNet(nn.Module):
    """Blocks of growing dilation, whose skips are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, 8, 1)
        self.blocks = nn.ModuleList(WaveNetBlock(8, 2**i) for i in range(4))
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(8, 16, 1), nn.ReLU())
        self.logits = nn.Conv1d(16, 32, 1)

    def forward(self, wave: Tensor) -> Tensor:
        x, total = self.start(wave), 0.0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return self.logits(self.end(total / math.sqrt(len(self.blocks))))


class NeRF(nn.Module):
    """Frequencies of a point and a direction to density and colour."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(4), persistent=False)
        self.early = nn.ModuleList([nn.Linear(27, 32), nn.Linear(32, 32)])
        self.late = nn.ModuleList([nn.Linear(59, 32), nn.Linear(32, 32)])
        self.density = nn.Linear(32, 1)
        self.feature = nn.Linear(32, 32)
        self.colour = nn.Sequential(nn.Linear(59, 16), nn.ReLU(), nn.Linear(16, 3))

    def encode(self, x: Tensor) -> Tensor:
        scaled = (x[..., None, :] * self.bands[:, None] * math.pi).flatten(-2)
        return torch.cat([x, scaled.sin(), scaled.cos()], dim=-1)

    def forward(self, points: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
        encoded = self.encode(points)
        x = encoded
        for layer in self.early:
            x = F.relu(layer(x))
        x = torch.cat([x, encoded], dim=-1)
        for layer in self.late:
            x = F.relu(layer(x))
        seen = torch.cat([self.feature(x), self.encode(directions)], dim=-1)
        return F.softplus(self.density(x)), self.colour(seen).sigmoid()


class GraphConv(nn.Module):
    """A node's own features, and the mean of its neighbours'."""

    def __init__(self, inside: int, outside: int) -> None:
        super().__init__()
        self.own = nn.Linear(inside, outside)
        self.neighbour = nn.Linear(inside, outside, bias=False)

    def forward(self, x: Tensor, source: Tensor, target: Tensor) -> Tensor:
        messages = x[source]
        total = torch.zeros_like(x).index_add(0, target, messages)
        ones = torch.ones_like(target, dtype=x.dtype)
        degree = torch.zeros_like(x[:, 0]).index_add(0, target, ones)
        mean = total / degree.clamp(min=1)[:, None]
        return self.own(x) + self.neighbour(mean)


class GraphNet(nn.Module):
    """Three rounds of messages along the edges."""

    def __init__(self) -> None:
        super().__init__()
        widths = (6, 16, 16, 16)
        self.convs = nn.ModuleList(map(GraphConv, widths, widths[1:]))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:])
        self.out = nn.Linear(16, 3)

    def forward(self, nodes: Tensor, source: Tensor, target: Tensor) -> Tensor:
        x = nodes
        for conv, norm in zip(self.convs, self.norms, strict=True):
            x = F.gelu(norm(conv(x, source, target)))
        return self.out(x)


class Seq2Seq(nn.Module):
    """LSTMs with attention over what was read."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 16)
        self.encoder = nn.LSTM(16, 16, 2, batch_first=True)
        self.decoder = nn.LSTM(16, 16, 2, batch_first=True)
        self.query, self.combine = nn.Linear(16, 16), nn.Linear(32, 16)
        self.output = nn.Linear(16, VOCAB)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, state = self.encoder(self.embedding(source))
        hidden, _ = self.decoder(self.embedding(target), state)
        scores = self.query(hidden) @ memory.transpose(1, 2)
        context = scores.softmax(dim=-1) @ memory
        return self.output(self.combine(torch.cat([hidden, context], -1)).tanh())


class Crnn(nn.Module):
    """Columns of an image read by a recurrent network."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d((2, 1)),
        )
        self.rnn = nn.GRU(64, 16, 2, bidirectional=True)
        self.classifier = nn.Linear(32, 11)

    def forward(self, image: Tensor) -> Tensor:
        x = self.features(image).flatten(1, 2).permute(2, 0, 1)
        return F.log_softmax(self.classifier(self.rnn(x)[0]), dim=2)


class Forecast(nn.Module):
    """A cell that goes on with what it said, as in PyTorch's own example."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm1, self.lstm2 = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8)
        self.linear = nn.Linear(8, 1)

    def forward(self, series: Tensor) -> Tensor:
        h1 = c1 = h2 = c2 = series.new_zeros(series.shape[0], 8)
        outputs = []
        for step in series.split(1, dim=1):
            h1, c1 = self.lstm1(step, (h1, c1))
            h2, c2 = self.lstm2(h1, (h2, c2))
            outputs.append(self.linear(h2))
        return torch.cat(outputs, dim=1)


class Language(nn.Module):
    """PyTorch's tutorial of a transformer that predicts the next word."""

    def __init__(self) -> None:
        super().__init__()
        places = torch.arange(24)[:, None]
        rates = torch.exp(torch.arange(0, 32, 2) * (-math.log(10000.0) / 32))
        table = torch.stack([(places * rates).sin(), (places * rates).cos()], dim=-1)
        self.register_buffer("pe", table.flatten(1))
        layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.embedding, self.linear = nn.Embedding(VOCAB, 32), nn.Linear(32, VOCAB)

    def forward(self, tokens: Tensor) -> Tensor:
        size = tokens.shape[1]
        x = self.embedding(tokens) * math.sqrt(32) + self.pe[:size]
        mask = nn.Transformer.generate_square_subsequent_mask(size)
        return self.linear(self.encoder(x, mask=mask, is_causal=True))


class Separator(nn.Module):
    """A small Conv-TasNet: masks for a learned spectrum."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(1, 16, 8, 4, bias=False)
        self.norm = nn.GroupNorm(1, 16)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv1d(16, 24, 1),
                nn.PReLU(),
                nn.GroupNorm(1, 24),
                nn.Conv1d(24, 24, 3, padding=2**i, dilation=2**i, groups=24),
                nn.PReLU(),
                nn.Conv1d(24, 16, 1),
            )
            for i in range(3)
        )
        self.mask = nn.Conv1d(16, 32, 1)
        self.decoder = nn.ConvTranspose1d(16, 1, 8, 4, bias=False)

    def forward(self, mixture: Tensor) -> Tensor:
        spectrum = F.relu(self.encoder(mixture))
        x = self.norm(spectrum)
        for block in self.blocks:
            x = x + block(x)
        masks = self.mask(x).sigmoid().unflatten(1, (2, 16))
        sources = (masks * spectrum[:, None]).flatten(0, 1)
        return self.decoder(sources).unflatten(0, (-1, 2)).squeeze(2)


class Towers(nn.Module):
    """A ModuleList of ModuleDicts, and weights in a ParameterList."""

    def __init__(self) -> None:
        super().__init__()
        self.towers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(8),
                    "up": nn.Linear(8, 12),
                    "down": nn.Linear(12, 8),
                }
            )
            for _ in range(3)
        )
        self.gains = nn.ParameterList(torch.randn(8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for tower, gain in zip(self.towers, self.gains, strict=True):
            x = x + gain * tower["down"](F.silu(tower["up"](tower["norm"](x))))
        return x


class Tagger(nn.Module):
    """An embedding, a bidirectional LSTM of two layers, a linear layer per step."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 16)
        self.lstm = nn.LSTM(16, 12, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.lstm(self.embedding(input_ids))[0])


class Gru(nn.Module):
    """A GRU over features, its last state normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 16, batch_first=True)
        self.norm = nn.LayerNorm(16, elementwise_affine=False)
        self.register_buffer("gain", torch.linspace(0.5, 1.5, 16))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.gru(x)[1][0]) * self.gain


class Detector(nn.Module):
    """Convolutions, a transformer over their places, learned queries, two heads."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.transformer = nn.Transformer(32, 4, 2, 2, 48, batch_first=True)
        self.query = nn.Parameter(torch.randn(6, 32))
        self.row = nn.Parameter(torch.randn(16, 16))
        self.column = nn.Parameter(torch.randn(16, 16))
        self.classes = nn.Linear(32, 7)
        self.boxes = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        x = self.backbone(image)
        n, _, h, w = x.shape
        rows = self.row[:h, None].expand(h, w, 16)
        columns = self.column[None, :w].expand(h, w, 16)
        places = torch.cat([rows, columns], dim=-1).flatten(0, 1)
        x = x.flatten(2).transpose(1, 2) + places
        x = self.transformer(x, self.query.expand(n, -1, -1))
        return self.classes(x), self.boxes(x).sigmoid()
