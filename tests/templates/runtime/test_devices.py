"""What one device has of a network: its tensors, and stand-ins for other stages."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from fairhand.templates.runtime import devices, slices


def test_counts_of_training_steps_are_in_no_file(tmp_path: Path) -> None:
    norm = nn.Sequential(nn.BatchNorm1d(4))
    state = {k: v for k, v in norm.state_dict().items() if v.ndim}
    save_file(state, tmp_path / "w.safetensors", {"model_sha256": "x"})
    with torch.device("meta"):
        empty = nn.Sequential(nn.BatchNorm1d(4))
    with slices.Weights(tmp_path / "w.safetensors", "x") as file:
        slices.read(empty, file, "cpu", {}, {})
    x = torch.randn(3, 4)
    assert torch.equal(empty.eval()(x), norm.eval()(x))
    assert devices.held_bytes(empty) == sum(v.nbytes for v in state.values())


class Positions(nn.Module):
    """Numbers that hang on a size alone, of which there is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("step", torch.tensor([2.0]))

    def forward(self, count: int) -> Tensor:
        return torch.arange(count) / self.step


class Adds(nn.Module):
    """First positions, then a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.positions, self.layer = Positions(), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x + self.positions(x.shape[1]))


def test_an_absent_module_needs_no_tensor_to_stand_for() -> None:
    torch.manual_seed(0)
    whole, model = Adds(), Adds()
    model.layer.load_state_dict(whole.layer.state_dict())
    model.positions.to("meta")
    stage = devices.Stage(
        model, 1, [["positions"], ["layer"]], [[0]], [[], ["y"]], ["y"]
    )
    x = torch.randn(2, 4)
    given = x + whole.positions(4)
    stage.links = SimpleNamespace(take=lambda like: given.view(like.shape))
    assert torch.equal(stage(torch.zeros(2, 4)), whole(x))


@pytest.mark.parametrize("cached", [True, False])
def test_results_but_caches_are_shared(
    cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their names: scores may have the sizes of an input, as an encoder's states."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keys, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
            return self.head(x), torch.cat([past, self.keys(x)], 1)

    row = {"past": ("present", ("rows", "places", 4))} if cached else {}
    caches = SimpleNamespace(CACHES=row, CROSS={})
    monkeypatch.setitem(sys.modules, f"{devices.__package__}.caches", caches)
    stages, names = [["keys"], ["head"]], ["scores", "present"]
    model = Both()
    model.head.to("meta")
    stage = devices.Stage(model, 0, stages, [[]], [["present"], ["scores"]], names)
    shared: list[int] = []

    def share(value: Tensor, owner: int) -> Tensor:
        shared.append(owner)
        return torch.full_like(value, 7.0, device="cpu") if value.is_meta else value

    links = SimpleNamespace(share=share, wait=lambda: None, give=lambda value: None)
    pipeline = devices.Pipeline(stage, links, 1)
    x = torch.randn(2, 3, 4)
    scores, present = pipeline(x, x)
    assert torch.equal(scores, torch.full((2, 3, 4), 7.0))
    assert present.shape == (2, 6, 4) and not present.is_meta
    assert shared == ([1] if cached else [1, 0])


def test_lists_are_taken_behind_all_else_and_given_where_they_stand() -> None:
    """As model.py has it: a file may have its caches before its mask."""
    past, present = [("k.0", "v.0"), ("k.1", "v.1")], [("K.0", "V.0"), ("K.1", "V.1")]
    model = SimpleNamespace(
        NESTED={"past": past, "present": present},
        INPUTS=dict.fromkeys(["ids", "k.0", "v.0", "k.1", "v.1", "mask"]),
        OUTPUTS=dict.fromkeys(["K.0", "V.0", "K.1", "V.1", "logits"]),
    )
    assert devices.arranged(model.INPUTS, model) == ["ids", "mask", past]
    assert devices.arranged(model.OUTPUTS, model) == [present, "logits"]
