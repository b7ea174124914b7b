"""What generate.py counts on is tried: on fewer laws where a network breaks some."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

import fairhand
from fairhand.analysis.errors import VerificationError
from fairhand.codegen.cli import main
from fairhand.codegen.commands.check import check
from fairhand.codegen.emit.package_files import read_report
from fairhand.codegen.generation.decoder import PLACES, ROWS, Cache, Decoder
from fairhand.codegen.generation.room import find_layout
from fairhand.codegen.load.read_model import load

from ...support.decoders import decoder
from ...support.emitted import EXAMPLES
from ...support.generating import Generating

PROMPT = [(7 * i) % 23 for i in range(90)]


# What a certificate may say of generating that was not found.
WRONG: list[Callable[[dict[str, Any]], object]] = [
    lambda c: c.pop("generation"),
    lambda c: c["generation"]["laws"].pop("in place"),
    lambda c: c["generation"].update(evidence="proved"),
    lambda c: c["generation"].update(allowed=1e9),
    lambda c: c["generation"].update(error=0.5),
    lambda c: c["generation"].update(prompts=[8000]),
]


@contextmanager
def changed_certificate(package: Path) -> Iterator[dict[str, Any]]:
    """The certificate, which check() reads with what is changed of it inside."""
    found = read_report(package)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fairhand.codegen.commands.check.read_report", lambda _: found)
        yield found["certificate"]


def compiled(form: str, folder: Path) -> Path:
    onnx.save(decoder(form), folder / "model.onnx")
    return fairhand.compile(folder / "model.onnx", folder / "package").path


@pytest.mark.parametrize(
    "law", ["in parts", pytest.param("by rows", marks=pytest.mark.slow)]
)
def test_what_a_network_breaks_is_not_counted_on(law: str, tmp_path: Path) -> None:
    package = compiled(law, tmp_path)
    found = read_report(package)["certificate"]["generation"]
    assert found["laws"] and law not in found["laws"]
    made = Generating(tmp_path / "model.onnx", package)
    expected = [int(scores.argmax()) for scores in made.expected(PROMPT, 5)]
    assert made.generate(PROMPT, PROMPT[::-1], new=5)[0] == expected


@pytest.mark.parametrize(
    ("error", "noise", "room"),
    [(0.01, 0.008, "counted"), (0.01, 0.002, ""), (0.5, 1.0, "")],
)
def test_networks_that_round_may_be_off_by_their_own_noise(
    error: float, noise: float, room: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number near a half goes either way by the order of a sum, and not by a law."""

    class Running:
        room = ""

        def __init__(self, *_: object) -> None: ...
        def __enter__(self) -> Running:
            return self

        def __exit__(self, *_: object) -> None: ...
        def call(self, name: str, _: object) -> dict[str, Any]:
            if name.endswith(":noise"):
                return {"noise": noise}
            alone, off = np.ones((2, 3, 5)), error if self.room else 0.0
            how = {"chunk": 64, "rows": 0, "room": self.room, "returned": False}
            found = {"alone": alone, "shown": alone + off, "how": how}
            return {**found, "type": "float32", "prompts": [4, 4]}

    def write(layout: Any) -> None:
        Running.room = layout.room

    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]> g (float[n, 4] x) => (uint8[n, 4] y)'
        " { y, s, z = DynamicQuantizeLinear (x) }"
    )
    cache = Cache("past", "present", (ROWS, 2, PLACES, 4))
    found = Decoder(*("ids", "logits", "", "", ""), (cache,), (), (), 23, 0, 0, 0, True)
    monkeypatch.setattr("fairhand.codegen.generation.room.Apart", Running)
    graph = load(model).model.graph
    layout = find_layout(Path(), found, graph, {}, write)
    assert layout.room == room
    assert layout.certificate["noise"] == (noise if room else 0.0)


def test_a_number_that_is_only_handed_on_is_no_input_of_the_callers(
    tmp_path: Path,
) -> None:
    """As torch's exporter writes the size of a window, beside its keys and values."""
    model = decoder("masked")
    names = "past_key_values.0.window", "present.0.window"
    for name, side in zip(names, (model.graph.input, model.graph.output), strict=True):
        side.append(onnx.helper.make_tensor_value_info(name, 7, []))
    model.graph.node.append(onnx.helper.make_node("Identity", names[:1], names[1:]))
    onnx.save(model, tmp_path / "model.onnx")
    package = fairhand.compile(tmp_path / "model.onnx", tmp_path / "package").path
    made = Generating(tmp_path / "model.onnx", package)
    assert not made.caches.GIVEN and made.caches.TOGETHER
    expected = [int(scores.argmax()) for scores in made.expected(PROMPT, 5)]
    assert made.generate(PROMPT, PROMPT[:3], new=5)[0] == expected


def test_a_mask_of_states_that_are_given_is_not_the_decoders(tmp_path: Path) -> None:
    model, make = decoder("state"), onnx.helper.make_tensor_value_info
    model.graph.input.append(make("memory", 1, ["batch", "source", 8]))
    model.graph.input.append(make("memory_mask", 1, ["batch", "source"]))
    model.graph.output[0].name = "scored"
    nodes = onnx.parser.parse_graph("""g (float[b, s, 8] memory) => (float[b, t, v] z) {
        last = Constant<value_ints=[-1]>() second = Constant<value_ints=[1]>()
        shown = Unsqueeze(memory_mask, last) seen = Mul(memory, shown)
        pooled = ReduceMean(seen, second) told = MatMul(pooled, head)
        scored = Add(logits, told) }""").node
    model.graph.node.extend(nodes)
    onnx.save(model, tmp_path / "model.onnx")
    package = fairhand.compile(tmp_path / "model.onnx", tmp_path / "package").path
    made = Generating(tmp_path / "model.onnx", package)
    assert {*made.caches.GIVEN} == {"memory", "memory_mask"}
    memory, mask = torch.ones(1, 3, 8), torch.tensor([[1.0, 0.0, 1.0]])
    made.given = {"memory": memory, "memory_mask": mask}
    expected = [int(scores.argmax()) for scores in made.expected(PROMPT, 5)]
    assert made.generate(PROMPT, new=5)[0] == expected


def test_a_number_for_all_rows_is_told_of() -> None:
    model, cache = decoder("state"), Cache("state", "next", (ROWS, 8))
    count = onnx.helper.make_tensor_value_info("temperature", 1, [])
    model.graph.input.append(count)
    found = Decoder(
        *("ids", "logits", "", "", ""), (cache,), (), (count.name,), 23, 0, 0, 0, True
    )
    graph = load(model).model.graph
    with pytest.raises(VerificationError, match=f"{count.name} is one number for all"):
        find_layout(Path(), found, graph, {}, lambda _: None)


def test_a_prompt_is_read_whole_where_one_token_alone_comes_behind_others(
    tmp_path: Path,
) -> None:
    """As onnxruntime-genai writes decoders of float16, which say besides that values
    are as many as new tokens: ONNX Runtime must not count on that."""
    model = decoder("one behind others")
    nodes = list(model.graph.node)
    place = next(i for i, node in enumerate(nodes) if "taken" in node.output)
    nodes[place].input[1] = "same"
    for given, name in (("less", "same"), ("values", "less")):
        model.graph.node.insert(place, onnx.helper.make_node("Neg", [given], [name]))
        sizes = ["batch", 2, "new", 4]
        said = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, sizes)
        model.graph.value_info.append(said)
    onnx.save(model, tmp_path / "model.onnx")
    package = fairhand.compile(tmp_path / "model.onnx", tmp_path / "package").path
    made = Generating(tmp_path / "model.onnx", package)
    assert (made.caches.CHUNK, made.caches.ROOM) == (0, "before")
    expected = [int(scores.argmax()) for scores in made.expected(PROMPT, 50)]
    assert made.generate(PROMPT, PROMPT[:3], new=50)[0] == expected


def test_a_window_wider_than_a_trial_is_told_from_places_behind(
    tmp_path: Path,
) -> None:
    found = read_report(compiled("window", tmp_path))["generation"]
    assert found == {"room": "", "reason": "with more, its scores differ"}


def test_caches_that_lose_places_are_what_the_network_gives_back(
    tmp_path: Path,
) -> None:
    package = compiled("drops", tmp_path)
    found = read_report(package)
    assert found["generation"] == {"room": "", "reason": "it drops some, as windows do"}
    assert "in place" not in found["certificate"]["generation"]["laws"]
    made = Generating(tmp_path / "model.onnx", package)
    expected = [int(scores.argmax()) for scores in made.expected(PROMPT, 50)]
    assert made.generate(PROMPT, PROMPT[:3], new=50)[0] == expected


def test_a_window_that_drops_nothing_yet_is_written_in_place(tmp_path: Path) -> None:
    made = Generating(tmp_path / "model.onnx", compiled("wide window", tmp_path))
    assert made.room == "counted"
    expected = [int(scores.argmax()) for scores in made.expected(PROMPT, 60)]
    with made.noted() as (_, shapes):
        assert made.generate(PROMPT, new=60)[0] == expected
    assert len(shapes) == 2
    with pytest.raises(ValueError, match="the network keeps 150 places alone"):
        made.generate(PROMPT, new=65)


def test_a_state_of_any_size_has_one_that_changes_nothing(tmp_path: Path) -> None:
    """As torch's exporter leaves open how many tokens a convolution keeps."""
    made = Generating(tmp_path / "model.onnx", compiled("any size", tmp_path))
    expected = [int(scores.argmax()) for scores in made.expected(PROMPT, 60)]
    assert made.generate(PROMPT, new=60)[0] == expected
    found = read_report(compiled("some size", tmp_path))["generation"]
    assert "scores are off by" in found["refused"]


def test_caches_that_no_layout_is_right_for_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = compiled("in place", tmp_path)
    assert not (package / "generate.py").exists()
    assert main(["generate", str(package), "--prompt-ids", "1"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "is not what it computes by its caches: scores are off" in said


@pytest.mark.slow
def test_check_tries_again(tmp_path: Path) -> None:
    package = compiled("grouped", tmp_path)
    said = check(package, tmp_path / "model.onnx")
    assert "in place, masked, in parts, by rows: tried, not proved" in said
    for wrong in WRONG:
        with changed_certificate(package) as certificate:
            wrong(certificate)
            with pytest.raises(fairhand.FairhandError, match="what is counted on"):
                check(package, tmp_path / "model.onnx")
    caches = package / "caches.py"
    text = caches.read_text()
    caches.write_text(text.replace("known + new,", "known,"))
    assert caches.read_text() != text
    with pytest.raises(fairhand.FairhandError, match="by its caches"):
        check(package, tmp_path / "model.onnx")
    (package / "weights.safetensors").unlink()
    with pytest.raises(fairhand.FairhandError, match="the package has no weights"):
        check(package, tmp_path / "model.onnx")


def test_wrong_steps_of_caches_are_said(tmp_path: Path) -> None:
    onnx.save(decoder("masked"), tmp_path / "model.onnx")
    path = fairhand.compile(tmp_path / "model.onnx", tmp_path / "out", verify=False)
    made = Generating(tmp_path / "model.onnx", path.path)
    memory = made.caches.Caches([3, 3], 4, torch.device("cpu"))
    network, rows = made.caches.flat(made.network), slice(0, 2)
    with pytest.raises(ValueError, match="2 rows of equal length"):
        memory.step(network, [[1]], rows, {})
    with pytest.raises(ValueError, match="room for 4 tokens"):
        memory.step(network, [[1] * 5] * 2, rows, {})


@pytest.mark.slow
def test_what_was_not_tried_is_not_recalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRHAND_CACHE", str(tmp_path / "cache"))
    # Other tests of this process may have registered operators.
    monkeypatch.setattr("fairhand.codegen.request.options.registered", {})
    made = [
        fairhand.compile(EXAMPLES / "characters.onnx", tmp_path / "out", verify=verify)
        for verify in (False, True, True)
    ]
    assert [each.report["generation"]["room"] for each in made] == ["", *["before"] * 2]
    assert [each.cached for each in made] == [False, False, True]


def test_a_table_of_rows_limits_no_places(tmp_path: Path) -> None:
    onnx.save(decoder("rows of a table"), tmp_path / "model.onnx")
    fairhand.compile(tmp_path / "model.onnx", tmp_path / "out", verify=False)
    assert "\nMOST = 0 " in (tmp_path / "out" / "caches.py").read_text()
