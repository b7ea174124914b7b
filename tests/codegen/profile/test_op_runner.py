"""Groups that run by themselves, to be measured; on a timer that is a stand-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from support.emitted import EXAMPLES
from support.emitter_models import Graph

from fairhand.analysis.dataflow.dataflow import Dataflow, dataflow
from fairhand.analysis.fusion.cost_model import Timer
from fairhand.analysis.shapes.infer import infer
from fairhand.codegen.cli import main
from fairhand.codegen.load.read_model import load
from fairhand.codegen.profile import op_timings
from fairhand.codegen.profile.op_runner import images
from fairhand.rewrites.simplify import simplify

Calls = Sequence[Callable[[], Any]]


def timer_of(model: onnx.ModelProto | Path) -> tuple[Dataflow, Timer]:
    graph = load(model).model.clone()
    shapes = simplify(graph).shapes
    flow = dataflow(graph, shapes)
    return flow, op_timings.pair_timer(graph, shapes, flow)


def results(calls: Calls) -> list[float]:
    """In place of seconds: how many results there are, where the last are the same."""
    apart, fused = (call() for call in calls)
    assert torch.allclose(apart[-1], fused[-1], atol=1e-5)
    return [float(len(apart)), float(len(fused))]


def test_groups_compute_the_same_apart_and_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(op_timings, "in_turn", results)
    flow, timer = timer_of(EXAMPLES / "digits_cnn.onnx")
    size = len(flow.operators)
    for split in range(1, size):
        found = timer(range(split), range(split, size))
        assert found is not None and found[0] == found[1] >= size


def test_a_layer_stands_for_both_only_where_they_are_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(op_timings, "in_turn", results)
    g = Graph(x=[2, 3, 8])
    product = g("MatMul", "x", g.weight("w", 8, 4))
    total = g("Add", product, g.weight("b", 4))
    flow, timer = timer_of(g.model(y=g("Relu", total)))
    assert [op.kind for op in flow.operators] == ["MatMul", "Add", "Relu"]
    assert timer([0], [1]) == (2, 1)
    assert timer([0, 1], [2]) == (2, 2)
    assert timer([0], [1, 2]) == (3, 2)


def test_what_cannot_be_run_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is nothing, and what fails when it is tried."""
    monkeypatch.setattr(op_timings, "in_turn", results)
    _, timer = timer_of(EXAMPLES / "digits_cnn.onnx")
    assert timer([], [0]) is None

    def fails(calls: Calls) -> list[float]:
        raise RuntimeError("no")

    monkeypatch.setattr(op_timings, "in_turn", fails)
    assert timer([0], [1]) is None


def test_measuring_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_timings, "in_turn", results)
    path = EXAMPLES / "digits_cnn.onnx"
    monkeypatch.setattr(op_timings, "LONGEST", -1.0)
    assert timer_of(path)[1]([0], [1]) is None
    monkeypatch.setattr(op_timings, "LONGEST", 1e9)
    monkeypatch.setattr(op_timings, "LARGEST", 10)
    assert timer_of(path)[1]([0], [1]) is None


def test_images_have_their_layout_until_they_are_relaid() -> None:
    g = Graph(x=[1, 3, 8, 8])
    relu = g("Relu", g.conv("x", "a", (3, 4, 3)))
    sigmoid = g("Sigmoid", g("Transpose", relu, perm=[0, 2, 3, 1]))
    graph = load(g.model(y=sigmoid)).model
    found = images(graph, infer(graph))
    kinds = {v.producer().op_type for v in found if v.producer() is not None}
    assert kinds == {"Conv", "Relu"} and graph.graph.inputs[0] in found
    plain = Graph(x=[1, 3, 8, 8])
    graph = load(plain.model(y=plain("Relu", "x"))).model
    assert images(graph, infer(graph)) == set()


def test_calls_take_turns() -> None:
    said: list[int] = []
    seconds = op_timings.in_turn([lambda: said.append(0), lambda: said.append(1)])
    assert said[:4] == [0, 1, 0, 1] and 8 <= len(said) <= 202
    assert len(seconds) == 2 and all(0 <= took < 1 for took in seconds)


@pytest.mark.parametrize(("fused", "word"), [(1e-6, "faster"), (3e-6, "slower")])
def test_yellow_cells_are_measured_on_both_sides(
    fused: float,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def seconds(calls: Calls) -> list[float]:
        return [2e-6, fused][: len(calls)]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(op_timings, "in_turn", seconds)
    monkeypatch.setattr(op_timings, "_hand_off", lambda: 1e-4)
    command = ["inspect", str(EXAMPLES / "digits_cnn.onnx"), "--fusion", "--profile"]
    assert main(command) == 0
    first = capfd.readouterr().out
    assert f"measured {word}: {fused * 1e6:.1f} us fused, 2.0 apart" in first
    assert "estimated" not in first
    monkeypatch.setattr(op_timings, "in_turn", lambda calls: pytest.fail("again"))
    assert main(command) == 0
    assert capfd.readouterr().out == first


def test_another_device_is_not_measured(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["inspect", str(EXAMPLES / "digits_cnn.onnx"), "--fusion", "--profile"]
    assert main([*command, "--device", "h100"]) == 1
    assert (
        "measures this machine's processor, not device h100" in capfd.readouterr().err
    )
