"""The example that writes text: by the command line, and by transformers."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch

import fairhand
from fairhand.codegen.cli import main

from ...support.emitted import EXAMPLES, imported

PROMPT = "The class statement"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("characters") / "package"
    return fairhand.compile(EXAMPLES / "characters.onnx", folder).path


def write(package: Path, *arguments: str) -> None:
    command = ["generate", str(package), "--tokenizer", "ascii", *arguments]
    assert main([*command, "--max-new-tokens", "200", "--temperature", "0.5"]) == 0


def test_text_is_made_of_words(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(package, "--prompt", PROMPT, "--seed", "1")
    first = capsys.readouterr()
    known = set(re.findall("[a-z]+", "\n".join(topics.values()).lower()))
    words = re.findall("[a-z]+", first.out.lower())[:-1]
    assert len(words) > 20
    assert sum(word in known for word in words) > 0.7 * len(words)
    assert "19 tokens read, 200 made in" in first.err
    ids = ",".join(str(code) for code in PROMPT.encode())
    write(package, "--prompt-ids", ids, "--seed", "1")
    assert capsys.readouterr().out == first.out


def test_wrong_use_is_said(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*arguments: str) -> str:
        assert main(["generate", *arguments]) == 1
        return capsys.readouterr().err.replace("\n", " ")

    assert "a text needs a tokenizer" in refused(str(package), "--prompt", "a")
    assert "tokens 0 to 127, not 128" in refused(str(package), "--prompt-ids", "128")
    assert "needs a token" in refused(
        str(package), "--prompt", "", "--tokenizer", "ascii"
    )
    assert "ASCII alone" in refused(
        str(package), "--prompt", "é", "--tokenizer", "ascii"
    )
    assert "temperature is nan" in refused(
        str(package), "--prompt-ids", "1", "--temperature", "nan"
    )
    assert "allocate" in refused(
        str(package), "--prompt-ids", "1", "--max-new-tokens", "100000000000"
    )
    other = EXAMPLES.parent / "generated" / "digits_cnn"
    assert "is no decoder" in refused(str(other), "--prompt-ids", "1")
    assert "is not a package" in refused(str(tmp_path), "--prompt-ids", "1")
    bare = tmp_path / "bare"
    shutil.copytree(package, bare, ignore=shutil.ignore_patterns("*.safetensors"))
    assert "no weights.safetensors" in refused(str(bare), "--prompt-ids", "1")


def test_a_tokenizer_of_the_tokenizers_package(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers isn't installed")
    words = {chr(code): code for code in range(128)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    made.decoder = tokenizers.decoders.Fuse()
    made.save(str(tmp_path / "tokenizer.json"))
    command = ["generate", str(package), "--prompt", PROMPT, "--tokenizer"]
    assert main([*command, str(tmp_path)]) == 0
    theirs = capsys.readouterr().out
    assert main([*command, "ascii"]) == 0
    assert theirs == capsys.readouterr().out


def test_transformers_generates_the_same(package: Path) -> None:
    pytest.importorskip("transformers", reason="transformers isn't installed")
    name = imported(package).__name__
    model: Any = importlib.import_module(f"{name}.model").load()
    adapter = importlib.import_module(f"{name}.for_transformers").ForTransformers
    generate = importlib.import_module(f"{name}.generate").generate
    theirs = adapter(model, pad_token_id=0)
    prompt, short = list(PROMPT.encode()), list(b"A ")
    rows = torch.tensor([prompt, [0] * (len(prompt) - len(short)) + short])
    how = {"attention_mask": (rows != 0).long(), "do_sample": False}
    greedy = theirs.generate(rows, max_new_tokens=30, **how)[:, len(prompt) :]
    assert greedy.tolist() == generate(model, [prompt, short], 30)

    how = {"num_beams": 4, "return_dict_in_generate": True, "output_scores": True}
    found = theirs.generate(rows[:1], max_new_tokens=20, do_sample=False, **how)
    (tokens,), first = found.sequences, len(prompt)
    scores = theirs(tokens[None]).logits[0].log_softmax(-1)
    own = [float(scores[i - 1, tokens[i]]) for i in range(first, len(tokens))]
    assert sum(own) / len(own) == pytest.approx(float(found.sequences_scores), abs=1e-4)
    (plain,) = generate(model, [prompt], 20)
    line = torch.tensor(prompt + plain)
    scores = theirs(line[None]).logits[0].log_softmax(-1)
    other = [float(scores[i - 1, line[i]]) for i in range(first, len(line))]
    assert sum(own) >= sum(other) - 1e-4


def test_an_assistant_of_transformers_changes_no_token(package: Path) -> None:
    pytest.importorskip("transformers", reason="transformers isn't installed")
    name = imported(package).__name__
    model: Any = importlib.import_module(f"{name}.model").load()
    made = importlib.import_module(f"{name}.for_transformers")
    theirs, helper = (made.ForTransformers(model, pad_token_id=0) for _ in range(2))
    prompt = torch.tensor([list(PROMPT.encode())])
    how = {"max_new_tokens": 30, "do_sample": False}
    plain = theirs.generate(prompt, **how)
    assert torch.equal(plain, theirs.generate(prompt, assistant_model=helper, **how))
    found = theirs.generate(prompt, prompt_lookup_num_tokens=3, **how)
    assert torch.equal(plain, found)


def test_a_pipeline_of_transformers(package: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="it isn't installed")
    tokenizers = pytest.importorskip("tokenizers", reason="it isn't installed")
    words = {chr(code): code for code in range(128)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(words, []))
    made.decoder = tokenizers.decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    name = imported(package).__name__
    model: Any = importlib.import_module(f"{name}.model").load()
    adapter = importlib.import_module(f"{name}.for_transformers").ForTransformers
    write = transformers.pipeline(
        "text-generation", adapter(model, pad_token_id=0), tokenizer=tokenizer
    )
    (found,) = write(PROMPT, max_new_tokens=30, do_sample=False)
    generate = importlib.import_module(f"{name}.generate").generate
    (tokens,) = generate(model, [PROMPT.encode()], 30)
    assert found["generated_text"] == PROMPT + "".join(map(chr, tokens))
