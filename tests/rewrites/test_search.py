"""GreedySearch and BeamSearch: the emitted loop against ONNX Runtime's search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.contrib_models import assert_close
from support.drawn import some
from support.emitter_models import run_here
from support.search_encoded import decoder, encoder
from support.search_models import float32, gpt2, int32, search
from support.search_whisper import listener, speaker

import fairhand
from fairhand.analysis.errors import Unsupported
from fairhand.codegen.load.random_outputs import drawn_outputs
from fairhand.codegen.load.read_model import load
from fairhand.codegen.verify import parity
from fairhand.codegen.verify.parity import oracle

PROMPT = np.array([[5, 6, 7], [0, 8, 9], [4, 4, 12]], np.int32)  # 0 is padding
GREEDY = {
    "input_ids": PROMPT,
    "max_length": int32(10),
    "min_length": int32(0),
    "repetition_penalty": float32(1),
}
BEAM = {
    "input_ids": PROMPT,
    "max_length": int32(10),
    "min_length": int32(0),
    "num_beams": int32(3),
    "num_return_sequences": int32(2),
    "length_penalty": float32(1),
    "repetition_penalty": float32(1),
}
WORDS = np.where(np.isin(np.arange(20), [4, 11]), 0, 1).astype(np.int32)
MASK = {"words": None, "first": None, "mask": (PROMPT > 0).astype(np.int32)}
SCORED = ("sequences", "sequences_scores")

CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "greedy": ("GreedySearch", GREEDY, {}),
    "greedy-ends": ("GreedySearch", GREEDY, {"eos_token_id": 12, "pad_token_id": 1}),
    "greedy-ngram": ("GreedySearch", GREEDY, {"no_repeat_ngram_size": 2}),
    "greedy-least": (
        "GreedySearch",
        GREEDY | {"min_length": int32(7)},
        {"eos_token_id": 11},
    ),
    "greedy-penalty": ("GreedySearch", GREEDY | {"repetition_penalty": float32(2)}, {}),
    "greedy-words": ("GreedySearch", GREEDY | {"vocab_mask": WORDS}, {}),
    "greedy-mask": ("GreedySearch", GREEDY | MASK, {}),
    "beam": ("BeamSearch", BEAM, {}),
    "beam-ends": ("BeamSearch", BEAM, {"eos_token_id": 12}),
    "beam-early": ("BeamSearch", BEAM, {"eos_token_id": 11, "early_stopping": 1}),
    "beam-long": (
        "BeamSearch",
        BEAM | {"length_penalty": float32(2)},
        {"eos_token_id": 9},
    ),
    "beam-short": (
        "BeamSearch",
        BEAM | {"length_penalty": float32(0.5), "repetition_penalty": float32(1.5)},
        {"eos_token_id": 9, "no_repeat_ngram_size": 3},
    ),
}


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "run_package", run_here)


def compared(model: onnx.ModelProto, feed: dict[str, Any], folder: Path) -> str:
    """The text of the package, whose outputs are those of ONNX Runtime."""
    package = fairhand.compile(model, folder / "net", verify=False)
    wanted = oracle(model.SerializeToString()).run(None, feed)
    for got, want in zip(run_here(package.path, [feed])[0], wanted, strict=True):
        assert_close([got], [want], whole_model=True)
    return (package.path / "model.py").read_text("utf-8")


@pytest.mark.parametrize("case", some(CASES, 4))
def test_a_search_is_a_loop(case: str, tmp_path: Path) -> None:
    op, inputs, attrs = CASES[case]
    outputs = SCORED if op == "BeamSearch" else SCORED[:1]
    model = search(op, inputs, "input_ids", outputs, **attrs)
    text = compared(model, {"input_ids": PROMPT}, tmp_path)
    assert "for _ in range(10 - input_ids.shape[1]):" in text
    assert ("allowed_scores(" in text) == any(
        part in case for part in ("ngram", "least", "penalty", "words", "short")
    )


ENCODED = {"model_type": 1, "decoder_start_token_id": 2}
INNER = np.array([[5, 6, 7, 0], [0, 0, 8, 9], [4, 0, 12, 11]], np.int32)
LATER = {"vocab": None, "first": None, "mask": (INNER > 4).astype(np.int32)}
ENCODED_CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "ends": ({}, {"eos_token_id": 12, "early_stopping": 1}),
    "long": ({"length_penalty": float32(2)}, {"eos_token_id": 6}),
    "least": ({"min_length": int32(6)}, {"eos_token_id": 12}),
    "penalty": ({"repetition_penalty": float32(2)}, {"no_repeat_ngram_size": 2}),
    "mask": (LATER, {}),
}


@pytest.mark.parametrize("case", some(ENCODED_CASES, 4))
def test_a_search_behind_an_encoder(case: str, tmp_path: Path) -> None:
    inputs, attrs = ENCODED_CASES[case]
    graphs = {"encoder": encoder(), "decoder": decoder()}
    inputs = BEAM | {"input_ids": INNER} | inputs
    model = search(
        "BeamSearch", inputs, "input_ids", SCORED, **graphs, **ENCODED | attrs
    )
    text = compared(model, {"input_ids": INNER}, tmp_path)
    assert "for _ in range(9):" in text and "self.encoder(" in text


def test_what_follows_when_all_have_ended_is_padding(tmp_path: Path) -> None:
    """There ONNX Runtime gives whatever its memory held."""
    model = search("GreedySearch", GREEDY, "input_ids", eos_token_id=11)
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    wanted = oracle(model.SerializeToString()).run(None, {"input_ids": PROMPT})[0]
    found = run_here(package.path, [{"input_ids": PROMPT}])[0][0]
    assert np.array_equal(found[:, :4], wanted[:, :4]) and not found[:, 3:].any()


@pytest.mark.parametrize(
    ("op", "inputs"), [("GreedySearch", GREEDY), ("BeamSearch", BEAM)]
)
def test_numbers_that_are_inputs(
    op: str, inputs: dict[str, Any], tmp_path: Path
) -> None:
    model = search(op, inputs, " ".join(inputs), eos_token_id=12)
    compared(model, inputs, tmp_path)


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "attribute 'init_decoder'": ("GreedySearch", {"init_decoder": gpt2()}),
    "an encoder and its decoder": ("GreedySearch", {"model_type": 1}),
    "models of type 3": ("BeamSearch", {"model_type": 3}),
    "that runs the decoder": ("BeamSearch", {"decoder": decoder(), **ENCODED}),
    "it has no encoder": ("BeamSearch", {"decoder": decoder(), **ENCODED}),
    "a decoder of 10 inputs": ("GreedySearch", {"decoder": decoder()}),
    "reads all words": ("BeamSearch", {"decoder": decoder(), **ENCODED}),
    "custom sampling": ("Sampling", {"custom": 1}),
    "a decoder of 2 inputs": ("GreedySearch", {"decoder": gpt2(layers=0)}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str, tmp_path: Path) -> None:
    op, attrs = REFUSED[what]
    if what == "a decoder of 2 inputs":
        del attrs["decoder"].input[2:]
    if what == "that runs the decoder":
        attrs["encoder"] = encoder()
        attrs["encoder"].input.add(name="decoder_input_ids")
    if what == "reads all words":
        attrs["decoder"].input[0].type.tensor_type.shape.dim[1].dim_param = "length"
    inputs = BEAM if op == "BeamSearch" else GREEDY
    model = search(op, inputs, "input_ids", **attrs)
    with pytest.raises(Unsupported, match=what):
        fairhand.compile(model, tmp_path / "net", verify=False)


DRAWN = [
    {"top_p": 0.8, "temperature": 3.0},
    {"top_p": 0.95, "temperature": 2.0, "min_tokens_to_keep": 4},
    {"top_p": 0.3, "temperature": 3.0, "min_tokens_to_keep": 3, "filter_value": -1.0},
]


@pytest.mark.parametrize("attrs", DRAWN, ids=str)
def test_words_are_drawn_as_onnx_runtime_draws_them(
    attrs: dict[str, Any], tmp_path: Path
) -> None:
    """The shares of the next words, and of pairs of them, of many equal prompts."""
    rows = 4000
    inputs = GREEDY | {"input_ids": np.repeat(PROMPT[:1], rows, axis=0)}
    inputs |= {"max_length": int32(5), **dict.fromkeys(("v", "f", "m", "p"))}
    given = {"input_ids": inputs["input_ids"]}
    model = search("Sampling", inputs | {"seed": int32(7)}, "input_ids", **attrs)
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    (found,), (again,) = (run_here(package.path, [given])[0] for _ in range(2))
    (wanted,) = oracle(model.SerializeToString()).run(None, given)
    assert np.array_equal(found, again) and found.shape == wanted.shape == (rows, 5)
    assert "generator=torch.Generator" in (package.path / "model.py").read_text()
    for words in (lambda x: x[:, 3], lambda x: x[:, 3] * 20 + x[:, 4]):
        ours, theirs = (np.bincount(words(x), minlength=400) for x in (found, wanted))
        spread = np.sqrt(ours + theirs + 1)
        assert (np.abs(ours - theirs) < 5 * spread).all()
        assert (ours > 0).sum() > 3


def test_without_a_seed_every_call_draws_anew(tmp_path: Path) -> None:
    model = search("Sampling", GREEDY, "input_ids", top_p=0.9)
    assert drawn_outputs(load(model).model) == {"sequences"}
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    runs = [run_here(package.path, [{"input_ids": PROMPT}])[0][0] for _ in range(2)]
    assert runs[0].shape == (3, 10) and not np.array_equal(*runs)


FIRST = np.where(np.isin(np.arange(20), [4, 10, 11, 13]), 0, 1).astype(np.int32)


@pytest.mark.parametrize("op", some(["GreedySearch", "BeamSearch", "encoded"], 2))
def test_words_that_the_first_may_not_be(op: str, tmp_path: Path) -> None:
    first = {"words": None, "first": np.repeat(FIRST[None], 3, axis=0)}
    graphs: dict[str, Any] = {}
    inputs = BEAM if op != "GreedySearch" else GREEDY
    if op == "encoded":
        graphs = {"encoder": encoder(), "decoder": decoder(), **ENCODED}
        inputs = inputs | {"input_ids": INNER}
    op = "BeamSearch" if graphs else op
    model = search(op, inputs | first, "input_ids", **graphs)
    plain = search(op, inputs, "input_ids", **graphs)
    given = {"input_ids": inputs["input_ids"]}
    text = compared(model, given, tmp_path)
    without = oracle(plain.SerializeToString()).run(None, given)[0]
    assert "first=" in text and "prompt=" in text
    (found,) = run_here(tmp_path / "net", [given])[0]
    assert not np.array_equal(found, without)


def test_the_scores_of_all_words(tmp_path: Path) -> None:
    model = search("BeamSearch", BEAM, "input_ids", (*SCORED, "scores"))
    text = compared(model, {"input_ids": PROMPT}, tmp_path)
    assert "torch.stack(results)" in text


def test_scores_of_rounds_that_were_not_needed_are_zeros(tmp_path: Path) -> None:
    """There ONNX Runtime gives whatever its memory held."""
    attrs = {"eos_token_id": 11, "early_stopping": 1}
    model = search("BeamSearch", BEAM, "input_ids", (*SCORED, "scores"), **attrs)
    package = fairhand.compile(model, tmp_path / "net", verify=False)
    wanted = oracle(model.SerializeToString()).run(None, {"input_ids": PROMPT})[2]
    found = run_here(package.path, [{"input_ids": PROMPT}])[0][2]
    assert found.shape == wanted.shape and not found[2:].any()
    assert_close(found[:2], wanted[:2])


# ---- Whisper

SOUND = np.random.default_rng(2).standard_normal((2, 4, 6)).astype(np.float32)
START = np.array([[2, 5, 7], [2, 5, 9]], np.int32)
WHISPER = BEAM | {"input_ids": SOUND} | dict.fromkeys(("words", "first", "mask"))
SPOKEN = WHISPER | {"decoder_input_ids": START}
WARM = {"processor": int32(0), "heads": None, "extra": None, "warmth": float32(1.5)}
WHISPER_CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any], int]] = {
    "plain": ("BeamSearch", WHISPER, {"decoder_start_token_id": 2}, 2),
    "prompt": ("WhisperBeamSearch", SPOKEN, {}, 2),
    "scores": ("WhisperBeamSearch", SPOKEN, {"eos_token_id": 12}, 3),
    "temperature": ("WhisperBeamSearch", SPOKEN | WARM, {"eos_token_id": 6}, 2),
    "ngram": ("WhisperBeamSearch", SPOKEN, {"no_repeat_ngram_size": 2}, 2),
    "first": (
        "WhisperBeamSearch",
        SPOKEN | {"first": np.repeat(FIRST[None], 2, axis=0)},
        {},
        2,
    ),
}


@pytest.mark.parametrize("case", some(WHISPER_CASES, 4))
def test_whisper(case: str, tmp_path: Path) -> None:
    op, inputs, attrs, count = WHISPER_CASES[case]
    hidden = case == "prompt"
    outputs = (*SCORED, "scores")[:count]
    graphs = {"encoder": listener(), "decoder": speaker(hidden=hidden)}
    given = [name for name in ("input_ids", "decoder_input_ids") if name in inputs]
    attrs = {"model_type": 2, **attrs}
    model = search(op, inputs, " ".join(given), outputs, **graphs, **attrs)
    feed = {name: inputs[name] for name in given}
    assert "beam_step(" in compared(model, feed, tmp_path)


def test_whisper_that_ends_at_its_first_word(tmp_path: Path) -> None:
    """No round is needed: there ONNX Runtime gives whatever its memory held."""
    one = {"num_beams": int32(1), "num_return_sequences": int32(1)}
    graphs = {"encoder": listener(), "decoder": speaker()}
    feed = {"input_ids": SOUND[:1], "decoder_input_ids": START[:1]}
    outputs = (*SCORED, "scores")

    def model(end: int) -> onnx.ModelProto:
        attrs = {"eos_token_id": end, "model_type": 2, **graphs}
        names = " ".join(feed)
        return search("WhisperBeamSearch", SPOKEN | one, names, outputs, **attrs)

    def expected(end: int) -> list[np.ndarray]:
        return list(oracle(model(end).SerializeToString()).run(None, feed))

    end = int(expected(19)[0][0, 0, 3])
    wanted = expected(end)
    fairhand.compile(model(end), tmp_path / "net", verify=False)
    found = run_here(tmp_path / "net", [feed])[0]
    assert_close(found[:2], wanted[:2], whole_model=True)
    assert found[2].shape == wanted[2].shape and not found[2][1:].any()
    assert_close(found[2][:1], wanted[2][:1], whole_model=True)


@pytest.mark.parametrize(
    ("more", "outputs", "words"),
    [
        ({"processor": int32(1)}, SCORED, "a processor of scores"),
        ({"p": None, "h": None, "extra": START}, SCORED, "its input 13"),
        ({}, (*SCORED, "scores", "crossed"), "scores of cross-attention"),
    ],
)
def test_what_whisper_may_not_have(
    more: dict[str, Any], outputs: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    graphs = {"encoder": listener(), "decoder": speaker()}
    inputs = SPOKEN | more
    given = "input_ids decoder_input_ids"
    model = search("WhisperBeamSearch", inputs, given, outputs, **graphs)
    with pytest.raises(Unsupported, match=words):
        fairhand.compile(model, tmp_path / "net", verify=False)
