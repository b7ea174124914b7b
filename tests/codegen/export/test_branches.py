"""Branches and loops that hang on values of a run, in a file of ONNX."""

from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor, nn

import fairhand
from fairhand.analysis.errors import FairhandError


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.lstm = nn.LSTM(4, 4, batch_first=True)


class OneSide(Layers):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        if not x.sum() > 0:
            y = self.a(x)
        return y + 1, self.b(x) if x.amax() > 1 else x


class ThreeWays(Layers):
    def forward(self, x: Tensor) -> Tensor:
        total = x.sum()
        if total > 1:
            y = self.a(x)
        elif total > 0:
            parts = [x]
            parts.append(self.b(x))
            y = sum(parts)
        else:
            y = x
        return y


class Inside(Layers):
    def scaled(self, x: Tensor, *, by: float = 2.0) -> Tensor:
        if x.amax() > 3:
            return x.log1p()
        x = x * by
        return x + self.b.bias

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        if h.sum() > 0:
            h = self.scaled(h.exp(), by=3.0)
        return h


class Recurrent(Layers):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            y = self.lstm(x[:, None])[0].squeeze(1)
        else:
            y = self.lstm(x[:, None])[1][0].squeeze(0) + x
        return y


class Lists(Layers):
    def forward(self, x: Tensor) -> Tensor:
        ys = [x]
        if x.sum() > 0:
            ys.append(x[:, :2].mT.mT)
        else:
            ys.append(x[:, 2:] * 3)
        return torch.cat(ys, dim=1)


class Counting(Layers):
    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        y, total = x, x.new_zeros(())
        for i in range(int(n)):
            y = self.a(y) + i
            total = total + y.sum() * x.sum()
        return y, total


class Series(Layers):
    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        h, ys = x, []
        for _ in range(int(n)):
            h = torch.tanh(self.a(h))
            ys.append(h * 2.0)
        ys = torch.stack(ys) if ys else torch.empty(0, len(x), 4)
        return h, ys


class Rounds(Layers):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h, seen = x[0], []
        for i in range(x.shape[0]):
            h = torch.tanh(self.a(h) + x[i])
            seen.append(h)
        return h, torch.stack(seen, dim=1) if seen else x


class Rows(Layers):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        total, twice, sums = x[0] * 0, [], []
        for row in x:
            total = total + row
            twice.append(row * 2)
            sums.append(self.b(total))
        sums = torch.stack(sums)
        return torch.stack(twice), sums[-1], sums


class Within(Layers):
    def forward(self, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        y = self.a(x)
        if y.sum() > 0:
            y = self.b(y)
            for i in range(int(n)):
                if y.mean() > 0.1:
                    y = torch.sin(y) + i
        elif y.amax() > 0.5:
            while y.abs().sum() < 9:
                y = y * 2
        else:
            y = (x if x.sum() > 0 else y) - x
        return y, x + n


class Doubling(Layers):
    def forward(self, x: Tensor) -> Tensor:
        while x.abs().sum() < 100:
            x = x * 2 + 1
        return x


@pytest.mark.parametrize(
    "kind",
    [
        OneSide,
        ThreeWays,
        Inside,
        Recurrent,
        Lists,
        Counting,
        Within,
        Rounds,
        Rows,
        Doubling,
    ],
)
def test_both_ways_are_in_the_file(kind: type[Layers], tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    counts = [torch.tensor(2)] if kind in (Counting, Within) else []
    given = [torch.randn(3, 4), *counts]
    file = tmp_path / "made.onnx"
    fairhand.export(module, given, file, shapes={"x": ("rows", 4)})
    session, taken = ort.InferenceSession(file), set()
    names = [value.name for value in session.get_inputs()]
    for seed in range(12):
        x = torch.randn(1 + seed % 4, 4) * (seed % 3) + (seed % 5 - 2) / 4
        feed = [x, *(torch.tensor(seed % 4) for _ in counts)]
        with torch.no_grad():
            expected = module(*feed)
        results = expected if isinstance(expected, tuple) else (expected,)
        arrays = dict(zip(names, (t.numpy() for t in feed), strict=True))
        for got, value in zip(session.run(None, arrays), results, strict=True):
            np.testing.assert_allclose(got, value.numpy(), rtol=2e-5, atol=2e-5)
        taken.add(bool(x.sum() > 0))
    assert taken == {False, True}


class Longer(Layers):
    def forward(self, x: Tensor) -> Tensor:
        ys = [x]
        if x.sum() > 0:
            ys.append(x)
        return torch.cat(ys)


class Numbers(Layers):
    def forward(self, x: Tensor) -> Tensor:
        k = 2 if x.sum() > 0 else 3
        return x * k


class Kinds(Layers):
    def forward(self, x: Tensor) -> Tensor:
        y = x if x.sum() > 0 else x.double()
        return y * 2


REFUSED = {
    Longer: "one branch makes",
    Numbers: "makes 2, no tensor",
    Kinds: "dtype",
    Series: "ys grows",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_graph_holds_is_refused(kind: type[Layers], tmp_path: Path) -> None:
    given = [torch.randn(3, 4), *([torch.tensor(2)] if kind is Series else [])]
    with pytest.raises(FairhandError, match=REFUSED[kind]):
        fairhand.export(kind().eval(), given, tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())
