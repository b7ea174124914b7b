"""Networks that take one token, or say what comes behind the last one alone."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fairhand.templates.runtime.caches import caches


class Summing(nn.Module):
    """Scores by a sum of all tokens so far, which are its cache."""

    def __init__(self, one: bool) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(0)
        self.one, self.steps = one, list[int]()
        self.table = nn.Parameter(torch.randn(50, 30, generator=draw))

    def forward(self, ids: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        self.steps.append(ids.shape[1])
        if self.one and self.steps[-1] != 1:
            raise ValueError("one token is to be read")
        known = torch.cat([past, ids], 1)
        scores = self.table[(known * 7 + 3).cumsum(1)[:, -ids.shape[1] :] % 50]
        return scores if self.one else scores[:, -1], known


@pytest.fixture(params=[True, False], ids=["one", "last"])
def model(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Summing:
    name = "fairhand.templates.runtime.generate.for_transformers"
    pytest.importorskip("transformers", reason="transformers isn't installed")
    one = request.param
    known = {
        "INPUTS": {"ids": ("int64", ("n", 1)), "past": ("int64", ("n", "p"))},
        "OUTPUTS": {"scores": ("float32", ("n", *[1] * one, 30)), "all": None},
        "CACHES": {"past": ("all", ("rows", "places"))},
        "IDS": "ids",
        "LOGITS": "scores",
        "MASK": "",
        "POSITIONS": "",
        "CHUNK": int(one),
        "VOCABULARY": 30,
    }
    for module in (caches, importlib.import_module(name)):
        for word, value in known.items():
            monkeypatch.setattr(module, word, value)
    return Summing(one)


def adapted(model: Summing) -> Any:
    name = "fairhand.templates.runtime.generate.for_transformers"
    return importlib.import_module(name).ForTransformers(model, pad_token_id=0)


def test_each_token_has_logits(model: Summing) -> None:
    theirs, ids = adapted(model), torch.tensor([[3, 1, 4, 1], [5, 9, 2, 6]])
    found = theirs(ids).logits
    assert torch.equal(found, model.table[(ids * 7 + 3).cumsum(1) % 50])
    model.steps.clear()
    theirs.generate(ids, max_new_tokens=3, do_sample=False)
    assert model.steps[0] == (1 if model.one else 4)


def test_an_assistant_changes_no_token(model: Summing) -> None:
    theirs, ids = adapted(model), torch.tensor([[3, 1, 4]])
    plain = theirs.generate(ids, max_new_tokens=20, do_sample=False)
    assert len(set(plain[0].tolist())) > 5
    helping = Summing(model.one)
    helped = theirs.generate(
        ids, max_new_tokens=20, do_sample=False, assistant_model=adapted(helping)
    )
    assert torch.equal(plain, helped)
    assert sum(helping.steps) < 40  # each token once, and some again


def test_what_has_dropped_places_forgets_no_tokens(model: Summing) -> None:
    name = "fairhand.templates.runtime.generate.for_transformers"
    past = importlib.import_module(name).Past()
    past.tensors, past.length = {"past": torch.arange(6)[None]}, 6
    past.crop(-2)
    assert past.tensors["past"].tolist() == [[0, 1, 2, 3]]
    past.length = 9  # of which a window has kept four
    with pytest.raises(ValueError, match="past has dropped places"):
        past.crop(-2)
