"""Tokens by a package's generate(), beside ONNX Runtime on the original."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import fairhand

from ...support.decoders import FORMS, PLACES, VOCABULARY, decoder
from ...support.generating import Generating

PROMPT, NEW = [3, 14, 15, 9, 2], 80
ROOM = {"state": "", "grouped": "behind", "placed": "placed"}
ROOM |= dict.fromkeys(["masked", "stacked", "biased"], "before")


WRONG = {
    "temperature": -0.5,
    "top_k": -1,
    "top_p": 0.0,
    "min_p": 1.5,
    "repetition_penalty": 0.0,
    "seed": 2**64,
}
SLOW = ("by length", "one row of places", "stacked")  # each has a network to compile
PARAMS = [pytest.param(f, marks=[pytest.mark.slow] * (f in SLOW)) for f in FORMS]


@pytest.fixture(scope="module", params=PARAMS)
def package(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Generating:
    folder = tmp_path_factory.mktemp(request.param.split()[0])
    onnx.save(decoder(request.param), folder / "model.onnx")
    fairhand.compile(folder / "model.onnx", folder / "package")
    made = Generating(folder / "model.onnx", folder / "package", request.param)
    hidden = np.random.default_rng(1).normal(size=(1, 6, 8)).astype(np.float32)
    made.given = {name: torch.tensor(hidden) for name in made.caches.GIVEN}
    return made


def test_greedy_tokens_are_those_of_the_original(package: Generating) -> None:
    expected = [int(scores.argmax()) for scores in package.expected(PROMPT, NEW)]
    assert package.generate(PROMPT) == [expected]
    assert len(set(expected)) > 2


def test_scores_are_within_the_tolerance_and_shapes_are_few(
    package: Generating,
) -> None:
    package.generate(PROMPT, new=1)
    with package.noted() as (scores, shapes):
        package.generate(PROMPT)
    for ours, theirs in zip(scores, package.expected(PROMPT, NEW), strict=True):
        assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()
    assert package.room == ROOM.get(package.name, "counted")
    assert len(shapes) == (2 if package.room else 1)


def test_rows_of_unequal_prompts_are_what_each_is_alone(package: Generating) -> None:
    prompts = [PROMPT, [7], list(range(20)), [1, 2, 3]]
    together = package.generate(*prompts, new=30)
    assert together == [package.generate(prompt, new=30)[0] for prompt in prompts]
    share = len(package.module.batches([*map(len, prompts)])) == 1
    assert share == (package.name != "merged")  # whose encoder's keys are one step's
    drawn = package.generate(*prompts, new=9, temperature=0.9, top_p=0.95, seed=5)
    alone = [
        package.generate(prompt, new=9, temperature=0.9, top_p=0.95, seed=5 + i)[0]
        for i, prompt in enumerate(prompts)
    ]
    assert drawn == alone


def test_long_prompts_are_read_in_chunks(package: Generating) -> None:
    prompt = [i * 7 % VOCABULARY for i in range(100)]
    expected = [int(scores.argmax()) for scores in package.expected(prompt, 5)]
    assert package.generate(prompt, new=5) == [expected]


def test_a_step_writes_the_new_keys_and_values_alone(package: Generating) -> None:
    caches, device = package.caches, torch.device("cpu")
    memory = caches.Caches([5], 60, device)
    network = caches.flat(package.network)
    memory.read(network, [PROMPT], package.given)
    before = {n: (t.data_ptr(), t.clone()) for n, t in memory.tensors.items()}
    memory.step(network, [[4]], slice(0, 1), package.given)
    for name, (_, shape) in caches.CACHES.items():
        place, old = before[name]
        changed = (memory.tensors[name] != old).nonzero()
        assert memory.tensors[name].data_ptr() == place
        if "places" in shape:
            assert len(changed[:, shape.index("places")].unique()) == 1


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_a_network_brought_to_another_type(
    package: Generating, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = package.generate(PROMPT, new=9)
    with package.noted() as (scores, _):
        package.generate(PROMPT, new=1)
    monkeypatch.setattr(package, "network", copy.deepcopy(package.network).to(kind))
    given = {name: tensor.to(kind) for name, tensor in package.given.items()}
    monkeypatch.setattr(package, "given", given)
    with package.noted() as (other, _):
        package.generate(PROMPT, new=1)
    bound = 1e-5 if kind is torch.float64 else 0.1
    assert np.abs(scores[0] - other[0]).max() < bound * np.abs(scores[0]).max()
    if kind is torch.float64:
        assert package.generate(PROMPT, new=9) == expected


def test_ends_streams_and_sampling(package: Generating) -> None:
    (greedy,) = package.generate(PROMPT, new=20)
    end, heard = greedy[4], list[tuple[int, int]]()
    first = greedy[: greedy.index(end) + 1]
    how = {"eos": [end], "stream": lambda *token: heard.append(token)}
    assert package.generate(PROMPT, new=20, **how) == [first]
    assert heard == [(0, token) for token in first]
    assert package.generate(PROMPT, new=20, stop=[greedy[2:4]])[0][-2:] == greedy[2:4]
    for how in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}):
        assert package.generate(PROMPT, new=20, temperature=0.7, **how) == [greedy]
    tiny = {"temperature": 1e-300, "eos": end}
    assert package.generate(PROMPT, new=20, **tiny) == [first]
    drawn = package.generate(PROMPT, new=20, temperature=2.0, seed=3)
    assert drawn == package.generate(PROMPT, new=20, temperature=2.0, seed=3)
    assert drawn != package.generate(PROMPT, new=20, temperature=2.0, seed=4)
    (varied,) = package.generate(PROMPT, new=10, repetition_penalty=1e6)
    assert len({*varied, *PROMPT}) == len(varied) + len(PROMPT)


def test_transformers_generates_the_same(package: Generating) -> None:
    outputs = pytest.importorskip(
        "transformers.modeling_outputs", reason="transformers isn't installed"
    )
    module = package.module.__name__.replace("generate", "for_transformers")
    adapter = importlib.import_module(module).ForTransformers
    theirs = adapter(package.network, pad_token_id=0, decoder_start_token_id=PROMPT[0])
    how: dict[str, Any] = {"inputs": torch.tensor([PROMPT])}
    if package.given:
        (states,) = package.given.values()
        how = {
            "encoder_outputs": outputs.BaseModelOutput(last_hidden_state=states),
            "decoder_input_ids": how["inputs"],
        }
    found = theirs.generate(**how, max_new_tokens=20, do_sample=False)
    assert found[:, len(PROMPT) :].tolist() == package.generate(PROMPT, new=20)
    beams = theirs.generate(**how, max_new_tokens=20, do_sample=False, num_beams=3)
    assert beams.shape == found.shape


def test_wrong_use_is_one_clear_error(package: Generating) -> None:
    def refused(*prompts: list[int], **how: Any) -> str:
        with pytest.raises(ValueError) as error:
            package.generate(*prompts, **how)
        return str(error.value)

    assert "each prompt needs a token" in refused([])
    assert "each prompt needs a token" in refused()
    assert f"tokens 0 to {VOCABULARY - 1}, not {VOCABULARY}" in refused([VOCABULARY])
    assert "not -1" in refused([-1])
    assert "at least 1 is needed" in refused([1], new=0)
    for name, value in WRONG.items():
        assert f"{name} is {value}, but is to be" in refused([1], **{name: value})
    assert "needs a token" in refused([1], stop=[[]])
    assert "`given` has" in refused([1], given={"other": torch.zeros(1)})
    for how in ({"stop": ["of"]}, {"eos": ["a"]}, {"top_k": 1.5}):
        with pytest.raises(TypeError, match="interpreted as an integer"):
            package.generate([1], **how)
    with pytest.raises(TypeError, match="float"):
        package.generate([1.5])
    if package.name in ("masked", "stacked", "by length", "one row of places"):
        assert f"the network has {PLACES} places" in refused([1] * 9, new=PLACES)
    if package.given:
        two = {name: value.repeat(2, 1, 1) for name, value in package.given.items()}
        assert "[2, 6, 8], not [1, " in refused([1], given=two)
        wide = {name: value.double() for name, value in package.given.items()}
        assert "is to be ('float32'" in refused([1], given=wide)


def test_generate_is_short(package: Generating) -> None:
    lines = (package.path / "generate.py").read_text().splitlines()
    assert len(lines) <= 150


def test_a_network_without_caches_has_none(tmp_path: Path) -> None:
    model = decoder("state")
    del model.graph.output[1]
    onnx.save(model, tmp_path / "model.onnx")
    path = fairhand.compile(tmp_path / "model.onnx", tmp_path / "out").path
    assert not (path / "generate.py").exists()
